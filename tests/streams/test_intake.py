"""Events are taken one after another, whatever the consumer delivers twice, early or not at all."""

import asyncio
from collections.abc import Mapping

import pytest
from faust.types import TP

from runtime.errors import BrokerLostRecords
from runtime.health import Counters
from streams.intake import Intake
from streams.settings import WorkerSettings

FRAMES = TP("node-frames", 2)


class Consumer:
    """What the broker has of one partition, and where the group left off."""

    def __init__(self, committed: int | None = None, earliest: int = 0, end: int = 100) -> None:
        self.committed, self.earliest, self.end = committed, earliest, end
        self.fetched: int | None = None
        self.held_back: list[TP] = []

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        return {FRAMES: self.committed, TP("changelog", 2): None}

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return dict.fromkeys(partitions, self.earliest)

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        return dict.fromkeys(partitions, self.end)

    def highwater(self, tp: TP) -> int | None:
        return self.fetched

    def on_buffer_full(self, tp: TP) -> None:
        self.held_back.append(tp)

    def on_buffer_drop(self, tp: TP) -> None:
        self.held_back.remove(tp)


class App:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


def intake(consumer: Consumer, *, embedded: bool = False) -> tuple[Intake, Counters]:
    counters = Counters()
    settings = WorkerSettings(broker_embedded=embedded)
    made = Intake(App(consumer), settings, counters)  # type: ignore[arg-type]
    asyncio.run(made.begin([FRAMES]))
    return made, counters


def accepted(made: Intake, *offsets: int) -> list[bool]:
    return [asyncio.run(made.accept(FRAMES, offset)) is not None for offset in offsets]


def test_the_first_event_is_the_one_the_group_left_off_at() -> None:
    made, _ = intake(Consumer(committed=40))
    assert accepted(made, 42, 43, 40, 41, 42, 42) == [False, False, True, True, True, False]
    made, _ = intake(Consumer(committed=None, earliest=7))
    assert accepted(made, 8, 7) == [False, True]


def test_a_commit_of_a_topic_that_is_no_more_counts_for_nothing() -> None:
    made, _ = intake(Consumer(committed=5000, end=3))
    assert accepted(made, 0, 1) == [True, True]


def test_an_event_left_out_on_the_way_ends_the_worker() -> None:
    made, counters = intake(Consumer(committed=40))
    assert accepted(made, 40) == [True]
    with pytest.raises(RuntimeError, match="node-frames/2: 41 was not delivered, but 42 was"):
        accepted(made, 42)
    assert counters.totals() == {}


def test_events_deleted_before_they_were_read_are_counted() -> None:
    consumer = Consumer(committed=40, earliest=50)
    made, counters = intake(consumer)
    assert accepted(made, 50) == [True]
    consumer.earliest = 60
    assert accepted(made, 60) == [True]
    assert counters.totals() == {"dropped{retention}": 10 + 9}


def test_events_deleted_by_the_embedded_broker_end_the_worker_once() -> None:
    consumer = Consumer(committed=40, earliest=50)
    counters = Counters()
    made = Intake(App(consumer), WorkerSettings(broker_embedded=True), counters)  # type: ignore[arg-type]
    with pytest.raises(BrokerLostRecords, match=r"10 records of node-frames/2 .*go slower"):
        asyncio.run(made.begin([FRAMES]))
    assert counters.totals() == {"dropped{retention}": 10}
    consumer.committed = made.committable()[FRAMES]
    made, counters = intake(consumer, embedded=True)
    assert accepted(made, 50, 51) == [True, True]
    assert counters.totals() == {}


def test_a_gap_on_the_way_is_committed_when_all_before_it_is_done() -> None:
    consumer = Consumer(committed=40)
    made, counters = intake(consumer, embedded=True)
    offsets = asyncio.run(made.accept(FRAMES, 40))
    assert offsets is not None
    consumer.earliest = 45
    with pytest.raises(BrokerLostRecords):
        accepted(made, 45)
    assert made.committable() == {}
    offsets.finish(40)
    assert made.committable() == {FRAMES: 45}
    assert counters.totals() == {"dropped{retention}": 4}


def test_what_is_unread_is_known_from_the_last_fetch() -> None:
    consumer = Consumer(committed=40)
    made, _ = intake(consumer)
    assert made.unread(FRAMES), "nothing was fetched yet, so nobody knows"
    consumer.fetched = 41
    assert made.unread(FRAMES)
    accepted(made, 40)
    assert not made.unread(FRAMES)
    assert not made.unread(TP("node-frames", 3)), "not ours"
    assert made.behind({FRAMES: 45}) == 4
