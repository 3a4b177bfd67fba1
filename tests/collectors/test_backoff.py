"""The agent gives way on a starved node, says so once a change, and comes back."""

import logging
from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.agent.backoff import CALM, LONGEST, Backoff
from collectors.agent.core import AgentCore, Identity
from collectors.agent.service import _backed_off, _Missed
from collectors.base import Reading
from runtime.health import Counters
from schemas.event import Event


class Node:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "schedstat"
        self.waited_ns = 5_000_000_000
        self.wait(0.0)
        self.backoff = Backoff(self.file)

    def wait(self, seconds: float) -> None:
        self.waited_ns += int(seconds * 1e9)
        self.file.write_text(f"123456 {self.waited_ns} 99\n")

    def ticks(self, count: int, waiting_s: float, missed: int = 0) -> list[int]:
        """The stretches it came to."""
        changed = []
        for _ in range(count):
            self.wait(waiting_s)
            if self.backoff.tick(1.0, missed):
                changed.append(self.backoff.stretch)
        return changed


def test_a_node_with_time_to_spare_changes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.ticks(500, waiting_s=0.05) == []
    assert node.ticks(2, waiting_s=0.9) == [], "a hiccup"
    assert node.ticks(100, waiting_s=0.0) == []


def test_it_gives_way_step_by_step_to_a_bound_and_comes_back_slowly(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.ticks(100, waiting_s=0.4) == [2, 4, 8]
    assert node.backoff.stretch == LONGEST
    assert node.ticks(CALM - 1, waiting_s=0.0) == []
    assert node.ticks(3 * CALM, waiting_s=0.0) == [4, 2, 1]


def test_ticks_that_were_left_out_count_too(tmp_path: Path) -> None:
    assert Node(tmp_path).ticks(3, waiting_s=0.0, missed=1) == [2]


@pytest.mark.parametrize("content", [None, "", "x y z"])
def test_without_the_kernels_word_only_late_ticks_count(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "schedstat").write_text(content)
    backoff = Backoff(tmp_path / "schedstat")
    assert not any(backoff.tick(1.0, 0) for _ in range(50))


class Counting:
    name, interval_s = "host", 1.0

    def __init__(self) -> None:
        self.count = 0

    def collect(self, tick_ms: int) -> Reading:
        self.count += 1
        return Reading()


def test_collectors_run_less_often_frames_keep_coming_and_each_change_is_one_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collector, counters = Counting(), Counters()
    core = AgentCore(Identity(cluster="c", node="n"), [collector], 1, FakeClock(), counters)
    core.tick(0)
    with caplog.at_level(logging.INFO):
        _backed_off(core, 4, counters)
    frames = [record for tick in range(1, 41) for record in core.tick(1000 * tick)]
    assert collector.count == 1 + 10
    events = [record for record in frames if isinstance(record, Event)]
    assert [(event.kind, event.detail) for event in events] == [("agent_starved", {"stretch": "4"})]
    assert len(frames) == 41
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert counters.gauges()["backoff_stretch"] == 4
    _backed_off(core, 1, counters)
    assert [event.kind for event in core.tick(41_000) if isinstance(event, Event)] == ["agent_recovered"]


def test_missed_ticks_are_counted_and_asked_for_once() -> None:
    counters = Counters()
    missed = _Missed(counters)
    missed(2)
    missed(1)
    assert (missed.take(), missed.take()) == (3, 0)
    assert counters.totals() == {"ticks_missed": 3}
