"""The embedded broker forgets: its producers wait for the readers that run, and readers see when one did not."""

import os
import threading
from collections.abc import Mapping
from time import monotonic

import pytest

from runtime.clock import Clock
from runtime.errors import BrokerLostRecords
from runtime.health import Counters
from runtime.kafka import Consumer, Partition, Producer
from runtime.pace import HARD_BYTES, SOFT_BYTES, EmbeddedPacer
from runtime.settings import Connection

FRAMES, EVENTS = Partition("node-frames", 0), Partition("events", 0)
READERS = {"worker": ("node-frames",), "writer": ("node-frames", "events")}


class Timeline:
    """A clock that moves when somebody sleeps; `at` is what happens on the way."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.at: dict[float, tuple[str, Partition, int]] = {}
        self.committed: dict[tuple[str, Partition], int] = {}

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s = round(self.now_s + seconds, 3)
        for when in [when for when in self.at if when <= self.now_s]:
            group, partition, offset = self.at.pop(when)
            self.committed[group, partition] = offset


class Source:
    """Messages of 1000 bytes on one partition of two topics."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.end = timeline, {FRAMES: 0, EVENTS: 0}

    def partitions(self, topics: list[str]) -> list[Partition]:
        return [partition for partition in (FRAMES, EVENTS) if partition.topic in topics]

    def ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        return {partition: self.end[partition] for partition in partitions}

    def committed(self, group: str, partitions: list[Partition]) -> dict[Partition, int]:
        return {p: offset for (g, p), offset in self.timeline.committed.items() if g == group and p in partitions}

    def message_bytes(self, ends: Mapping[Partition, int]) -> dict[str, float]:
        return {partition.topic: 1000.0 for partition, end in ends.items() if end}

    def close(self) -> None: ...


def paced(
    timeline: Timeline, readers: dict[str, tuple[str, ...]], embedded: bool = True
) -> tuple[EmbeddedPacer, Source]:
    clock: Clock = timeline
    source = Source(timeline)
    return EmbeddedPacer(Connection(broker_embedded=embedded), readers, source=source, clock=clock), source


def test_nothing_waits_while_readers_keep_up() -> None:
    timeline = Timeline()
    pacer, source = paced(timeline, READERS)
    assert pacer.wait(10)
    assert pacer.fullest is None
    source.end[FRAMES] = 2000
    timeline.committed["worker", FRAMES] = timeline.committed["writer", FRAMES] = 500
    assert pacer.wait(10)
    assert timeline.now_s == 100.0


def test_the_slowest_running_reader_sets_the_pace() -> None:
    timeline = Timeline()
    pacer, source = paced(timeline, READERS)
    source.end[FRAMES] = 3000
    timeline.committed["worker", FRAMES] = 3000
    timeline.at = {100.5: ("writer", FRAMES, 500), 101.0: ("writer", FRAMES, 1500)}
    assert pacer.wait(10)
    assert timeline.now_s == 101.0
    assert str(pacer.fullest) == "writer has 1500 messages (1.5 MB) of node-frames/0 to read"


def test_a_reader_that_has_committed_nothing_yet_counts_from_the_start() -> None:
    timeline = Timeline()
    pacer, source = paced(timeline, {"worker": ("node-frames",)})
    source.end[FRAMES] = HARD_BYTES // 1000 + 1
    assert not pacer.wait(30)
    assert pacer.fullest is not None
    assert pacer.fullest.group == "worker"


def test_a_reader_that_does_not_run_is_not_waited_for() -> None:
    timeline = Timeline()
    pacer, source = paced(timeline, {"worker": ("node-frames",)})
    source.end[EVENTS] = 100_000  # only the writer reads them, and it is not named
    assert pacer.wait(1)
    assert paced(timeline, {})[0].wait(1)


def test_readers_that_hold_back_are_sent_more_up_to_the_hard_limit() -> None:
    timeline = Timeline()
    pacer, source = paced(timeline, {"worker": ("node-frames",)})
    source.end[FRAMES] = SOFT_BYTES // 1000 + 1
    assert pacer.wait(10)
    assert 102 <= timeline.now_s < 102.5  # nothing moved for two seconds
    source.end[FRAMES] = HARD_BYTES // 1000 + 1
    assert not pacer.wait(10)


def test_stopping_ends_the_wait() -> None:
    timeline, stop = Timeline(), threading.Event()
    pacer, source = paced(timeline, {"worker": ("node-frames",)})
    source.end[FRAMES] = 100_000
    stop.set()
    assert not pacer.wait(1000, stop)
    assert timeline.now_s == 100.0


def test_a_real_broker_is_not_paced() -> None:
    pacer = EmbeddedPacer(Connection(broker="127.0.0.1:1"), READERS)
    assert pacer.wait(0)
    pacer.close()


@pytest.mark.parametrize("paced", [True, False])
def test_six_times_what_a_partition_keeps_arrives_when_paced_and_is_noticed_when_not(
    embedded: Connection, paced: bool
) -> None:
    """32 MB through one partition of 5 MB, with a reader that has begun."""
    batches, batch = 40, 40
    topic, group, stop, begun = "node-frames", "reader", threading.Event(), threading.Event()
    outcome: list[int | BrokerLostRecords] = []

    def reader() -> None:
        consumer = Consumer(embedded, group, (topic,), None)
        read = 0
        try:
            while read < 1 + batches * batch and not stop.is_set():
                read += len(consumer.poll(20, 0.2))
                consumer.commit()
                if read == 1 and not begun.is_set():
                    begun.set()
                    stop.wait(0 if paced else 3)
            outcome.append(read)
        except BrokerLostRecords as lost:
            outcome.append(lost)
        consumer.close()

    producer = Producer(embedded, "test", Counters())
    producer.send_and_wait(topic, "key", b"first", 10)
    thread = threading.Thread(target=reader)
    thread.start()
    assert begun.wait(20)
    pacer = EmbeddedPacer(embedded, {group: (topic,)} if paced else {})
    for _ in range(batches):
        assert pacer.wait(60)
        for _ in range(batch):
            producer.send(topic, "key", os.urandom(20_000))
        assert producer.flush(30)
    thread.join(60)
    stop.set()
    thread.join()
    producer.close(5)
    pacer.close()
    if paced:
        assert outcome == [1 + batches * batch]
    else:
        assert isinstance(outcome[0], BrokerLostRecords)
        assert "of node-frames/" in str(outcome[0])
        assert "the embedded broker is full" in str(outcome[0])


def test_a_gap_ends_a_reader_once_and_the_next_goes_on_behind_it(embedded: Connection) -> None:
    """What was polled is committed together with the position behind the gap before the reader fails."""
    topic, group = "events", "gap-reader"
    producer = Producer(embedded, "test", Counters())

    def consumer(counters: Counters) -> Consumer:
        return Consumer(embedded, group, (topic,), None, counters=counters)

    def poll(reader: Consumer, last: bytes) -> list[bytes]:
        seen: list[bytes] = []
        end = monotonic() + 30
        while last not in seen:
            assert monotonic() < end
            seen += [message.value for message in reader.poll(100, 0.2)]
        return seen

    producer.send_and_wait(topic, "key", b"first", 10)
    first = consumer(Counters())
    assert poll(first, b"first") == [b"first"]
    first.commit()
    first.close()
    for _ in range(40):
        producer.send_and_wait(topic, "key", os.urandom(250_000), 10)
    producer.send_and_wait(topic, "key", b"last", 10)
    counters = Counters()
    second = consumer(counters)
    before = second.position()
    read = len(poll(second, b"last"))
    assert 1 < read < 41
    second.commit(before)
    with pytest.raises(BrokerLostRecords, match=r"records of events/\d were deleted .*go slower"):
        second.commit(second.position())
    second.close()
    assert counters.totals()["dropped{retention}"] == 41 - read
    counters = Counters()
    third = consumer(counters)
    producer.send_and_wait(topic, "key", b"afterwards", 10)
    assert poll(third, b"afterwards") == [b"afterwards"]
    third.commit()
    third.close()
    producer.close(5)
    assert "dropped{retention}" not in counters.totals()
