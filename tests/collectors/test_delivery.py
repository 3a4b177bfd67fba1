"""From the spool to the broker: nothing accepted is lost, through outages, restarts and records nobody takes."""

import random
from pathlib import Path

import pytest
from fake_clock import FakeClock
from fake_sender import FakeSender
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.agent.delivery import MOST_BYTES, WINDOW_BYTES, Delivery
from collectors.agent.spool import Spool
from runtime.health import Counters
from schemas import codec
from schemas.event import Event


def record(number: int, text: str = "") -> Event:
    return Event(cluster="c", node="n", ts_ms=number, run_id=1, seq=number, kind="test", text=text)


class Rig:
    def __init__(self, folder: Path, sender: FakeSender | None, window: int = 5) -> None:
        self.folder, self.sender = folder, sender
        self.clock, self.counters = FakeClock(), Counters()
        self.spool = Spool(folder, 64 << 20, self.counters)
        self.delivery = Delivery(self.spool, self.counters, self.clock, sender, window)

    def pump(self, times: int = 1, seconds: float = 1.0) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            self.delivery.pump()


def numbers(sender: FakeSender) -> list[int]:
    found = []
    for topic, key, value in sender.received:
        event = codec.decode(value, topic)
        assert isinstance(event, Event)
        assert key == "n"
        found.append(event.seq)
    return found


def test_while_the_broker_answers_records_go_straight_through(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    rig.delivery.accept(record(i) for i in range(3))
    rig.pump(2)
    assert numbers(rig.sender) == [0, 1, 2]
    assert rig.spool.waiting == 0
    assert rig.counters.totals()["delivered{events}"] == 3
    rig.delivery.close(1.0)


def test_not_more_than_the_window_is_on_its_way(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    rig.sender.down = True
    rig.delivery.accept(record(i) for i in range(12))
    rig.pump(3)
    assert len(rig.sender.waiting) == 5
    rig.sender.answer_all()
    rig.pump()
    assert len(rig.sender.waiting) == 5
    assert rig.counters.gauges()["spool_waiting"] == 7
    rig.delivery.close(1.0)


def test_an_outage_loses_nothing_and_drains_oldest_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    rig.sender.down = True
    for i in range(30):
        rig.delivery.accept([record(i)])
        rig.pump()
        rig.sender.fail_all(TimeoutError("no broker"))
    rig.sender.down = False
    rig.pump(60)
    assert numbers(rig.sender) == list(range(30))
    assert rig.spool.waiting == 0
    rig.delivery.close(1.0)


def test_retries_pause_longer_and_longer(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    rig.sender.down = True
    rig.delivery.accept([record(0)])
    tries = 0
    for _ in range(300):
        rig.pump()
        tries += len(rig.sender.waiting)
        rig.sender.fail_all(TimeoutError("no broker"))
    assert 10 <= tries <= 16  # after 1, 2, 4, 8, 16 and then every 30 s
    rig.delivery.close(1.0)


def test_a_broker_that_comes_later_gets_everything(tmp_path: Path) -> None:
    rig = Rig(tmp_path, None)
    rig.delivery.accept(record(i) for i in range(7))
    rig.pump(3)
    sender = FakeSender()
    rig.delivery.connect(sender)
    rig.pump(3)
    assert numbers(sender) == list(range(7))
    rig.delivery.close(1.0)


def test_a_restart_sends_what_was_not_confirmed(tmp_path: Path) -> None:
    first = Rig(tmp_path, FakeSender())
    assert first.sender
    first.delivery.accept(record(i) for i in range(3))
    first.pump(2)
    first.sender.down = True
    first.delivery.accept(record(i) for i in range(3, 6))
    first.pump()
    first.delivery.close(1.0)
    assert first.sender.closed
    second = Rig(tmp_path, FakeSender())
    assert second.sender
    second.pump(2)
    assert numbers(second.sender) == [3, 4, 5]
    second.delivery.close(1.0)


def test_one_failure_sends_again_from_the_oldest_unconfirmed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    failures = iter([None, TimeoutError("once"), None])
    rig.sender.refuse = lambda value: next(failures, None)
    rig.delivery.accept(record(i) for i in range(4))
    rig.pump(5)
    assert numbers(rig.sender) == [0, 2, 3, 1, 2, 3]  # twice is one row, by identity; never lost
    assert rig.spool.waiting == 0
    rig.delivery.close(1.0)


def test_bytes_on_their_way_are_bounded_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender(), window=1000)
    assert rig.sender
    rig.sender.down = True
    rig.delivery.accept(record(i, "x" * 900_000) for i in range(20))
    rig.pump(3)
    assert len(rig.sender.waiting) == WINDOW_BYTES // 900_000 + 1
    rig.sender.down = False
    rig.sender.answer_all()
    rig.pump(10)
    assert numbers(rig.sender) == list(range(20))
    rig.delivery.close(1.0)


class MessageSizeTooLargeError(Exception):
    """Named like Kafka's."""


def test_a_record_that_no_broker_takes_is_counted_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeSender())
    assert rig.sender
    rig.sender.refuse = lambda value: MessageSizeTooLargeError() if b"large" in value else None
    rig.delivery.accept([record(0), record(1, "large"), record(2)])
    rig.delivery.accept([record(3, "x" * MOST_BYTES)])
    rig.pump(3)
    assert numbers(rig.sender) == [0, 2]
    assert rig.counters.totals()["dropped{undeliverable}"] == 1
    assert rig.counters.totals()["dropped{too_large}"] == 1
    rig.delivery.close(1.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_broker_and_agent_do_each_record_arrives_once_or_again(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rnd, folder = random.Random(seed), tmp_path_factory.mktemp("delivery")
    sent, received = 0, list[int]()
    for life in range(4):
        rig = Rig(folder, FakeSender(), window=rnd.randrange(1, 9))
        assert rig.sender
        for _ in range(rnd.randrange(1, 30)):
            burst = rnd.randrange(3)
            rig.delivery.accept([record(sent + i) for i in range(burst)])
            sent += burst
            rig.sender.down = rnd.random() < 0.4
            rig.pump(seconds=rnd.choice((0.1, 1.0, 40.0)))
            if rnd.random() < 0.3:
                rig.sender.fail_all(TimeoutError("no broker"))
            elif rnd.random() < 0.5:
                rig.sender.answer_all()
        if life == 3 or rnd.random() < 0.5:
            rig.sender.down = False
            rig.sender.answer_all()
            if life == 3:
                rig.pump(400, seconds=40.0)
            rig.delivery.close(1.0)
        else:  # killed
            rig.spool._reader.close()
            rig.spool._end_segment()
        received += numbers(rig.sender)
    assert list(dict.fromkeys(sorted(received))) == list(range(sent))
