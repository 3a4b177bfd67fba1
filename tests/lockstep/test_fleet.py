"""A whole tick: simulated hardware through the real collectors and agent cores to records, and onto a broker."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from watched_fleet import ONSET_S, START_MS, small

from lockstep.fleet import Agents
from lockstep.simulate import Pace, run
from runtime.broker import EmbeddedBroker
from runtime.health import Counters
from runtime.kafka import read_topic
from schemas import CollectiveFrame, Event, Inventory, NodeFrame, RackFrame, StepFrame
from schemas.codec import decode, encode
from schemas.record import NodeRecord
from simulator.fleet import SimulatedFleet

JOB = "slurm:default/70007/0"


@pytest.fixture
def ticked(tmp_path: Path) -> Callable[..., tuple[SimulatedFleet, Counters, list[list[NodeRecord]]]]:
    """The records of each of `ticks` ticks of a small fleet."""

    def go(ticks: int, **settings: Any) -> tuple[SimulatedFleet, Counters, list[list[NodeRecord]]]:
        fleet, counters = SimulatedFleet(small(**settings), start_ms=START_MS), Counters()
        agents = Agents(fleet, "default", 9, tmp_path, counters)
        return fleet, counters, [agents.tick() for _ in range(ticks)]

    return go


Ticked = Callable[..., tuple[SimulatedFleet, Counters, list[list[NodeRecord]]]]


def test_a_tick_gives_each_nodes_records_and_each_racks(ticked: Ticked) -> None:
    _, counters, ticks = ticked(3)
    kinds = [Counter(type(record) for record in tick) for tick in ticks]
    assert kinds[0] == {Event: 6, NodeFrame: 6, Inventory: 6, CollectiveFrame: 4, StepFrame: 4, RackFrame: 2}
    assert kinds[2] == {NodeFrame: 6, CollectiveFrame: 4, StepFrame: 4, RackFrame: 2}
    assert not any(name.startswith(("errors", "dropped")) for name in counters.totals())


def test_every_record_survives_the_wire_and_is_told_apart(ticked: Ticked) -> None:
    _, _, ticks = ticked(4)
    records = [record for tick in ticks for record in tick]
    bytes_ = [encode(record) for record in records]
    assert [encode(decode(raw, record.topic)) for raw, record in zip(bytes_, records, strict=True)] == bytes_
    assert len({(type(record), record.identity) for record in records}) == len(records)


def test_the_node_of_rank_0_asks_ras_where_a_job_stands_still_and_says_who_has_not_come(ticked: Ticked) -> None:
    _, _, ticks = ticked(ONSET_S + 40, fault="not_entered", target="6", severity=2.0, ras=True)
    said = [(n, r) for n, tick in enumerate(ticks) for r in tick if isinstance(r, Event) and r.kind == "hang"]
    ((when, event),) = said
    assert (event.node, event.rank, event.detail["cause"], event.detail["source"]) == (
        "r01-t01", 6, "not_entered", "ras",
    )  # fmt: skip
    assert 30 < when - ONSET_S < 40  # still for 10 s, two answers 15 s apart that take 10 s each


def test_gpus_know_their_job_and_rank(ticked: Ticked) -> None:
    fleet, _, ticks = ticked(1)
    frame = next(r for r in ticks[0] if isinstance(r, NodeFrame) and r.node == "r01-t02")
    assert [(gpu.job, gpu.rank) for gpu in frame.gpus] == [(JOB, rank) for rank in (4, 5, 6, 7)]
    assert (frame.rack, frame.tray) == ("r01", 2)
    idle = next(r for r in ticks[0] if isinstance(r, NodeFrame) and r.node == "r01-t03")
    assert [(gpu.job, gpu.rank) for gpu in idle.gpus] == [("", None)] * 4
    collectives = next(r for r in ticks[0] if isinstance(r, CollectiveFrame) and r.node == "r01-t02")
    assert collectives.job == JOB
    assert {(c.rank, c.gpu) for c in collectives.communicators} == {
        (rank, fleet.topology.uuids[int(fleet.topology.gpu_of_rank[rank])]) for rank in (4, 5, 6, 7)
    }


def test_a_healthy_fleet_misses_nothing_once_it_runs(ticked: Ticked) -> None:
    _, _, ticks = ticked(3)
    for record in ticks[2]:
        if isinstance(record, NodeFrame):
            assert record.missing == {}
            gpus = record.sections["gpu"].values()
            assert np.isfinite(gpus).all()
        if isinstance(record, CollectiveFrame):
            assert record.coverage == 1.0


def test_a_lost_gpu_is_told_by_the_kernel_and_by_the_driver_with_its_rank(ticked: Ticked) -> None:
    _, _, ticks = ticked(ONSET_S + 6, fault="gpu_lost", target="5")
    events = [r for tick in ticks for r in tick if isinstance(r, Event) and r.kind != "agent_started"]
    said = {(e.kind, e.code, e.rank, e.job) for e in events}
    assert said == {("xid", 79, 5, JOB), ("gpu_lost", None, 5, JOB), ("process_gone", None, 5, JOB)}
    xid = next(e for e in events if e.kind == "xid")
    assert xid.ts_ms == START_MS + ONSET_S * 1000


def test_a_hung_job_still_reports_its_last_numbers(ticked: Ticked) -> None:
    _, _, ticks = ticked(ONSET_S + 6, fault="not_entered", target="5")
    frames = [[r for r in tick if isinstance(r, CollectiveFrame)] for tick in ticks[-2:]]
    assert len(frames[0]) == len(frames[1]) == 4
    assert [f.progress for f in frames[0]] == [f.progress for f in frames[1]]
    assert not any(f.operations for f in frames[1])


def test_a_silent_node_sends_nothing_and_a_wrong_clock_stamps_wrongly(ticked: Ticked) -> None:
    _, _, silent = ticked(ONSET_S + 2, fault="node_lost", target="r01-t02")
    assert {r.node for r in silent[0]} - {r.node for r in silent[-1]} == {"r01-t02"}
    _, _, wrong = ticked(ONSET_S + 2, fault="clock_wrong", target="r01-t02")
    stamps = {r.node: r.ts_ms for r in wrong[-1] if isinstance(r, NodeFrame)}
    assert {stamp - stamps["r01-t01"] for node, stamp in stamps.items() if node == "r01-t02"} == {120_000}


class Walking:
    """A clock that goes only when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return START_MS + int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Stop(threading.Event):
    """Never set; waiting for it lets a Walking clock go on."""

    def __init__(self, clock: Walking) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.sleep(timeout or 0.0)
        return False


def test_pace_keeps_to_the_speed_and_forgets_a_long_pause() -> None:
    clock = Walking()
    pace, stop = Pace(4.0, clock), Stop(clock)
    for _ in range(8):
        pace.wait(stop)
    assert clock.now_s == pytest.approx(2.0)
    clock.sleep(100.0)
    at_once = 0
    while clock.now_s == pytest.approx(102.0):
        pace.wait(stop)
        at_once += 1
    assert at_once <= 11


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def test_everything_arrives_on_its_topic(broker: EmbeddedBroker) -> None:
    said: list[str] = []
    settings = small(ticks=4, speed=1000.0, start_ms=START_MS)
    run(settings, broker.connection(), threading.Event(), readers=(), progress=said.append)
    frames = [decode(m.value, "node-frames") for m in read_topic(broker.connection(), "node-frames")]
    assert len(frames) == 4 * 6
    assert {frame.ts_ms for frame in frames} == {START_MS + 1000 * tick for tick in range(1, 5)}
    assert len(list(read_topic(broker.connection(), "collectives"))) == 4 * 4
    assert len(list(read_topic(broker.connection(), "rack-frames"))) == 4 * 2
    assert len(list(read_topic(broker.connection(), "health"))) == 1
    assert said


def test_stop_ends_it_at_once(broker: EmbeddedBroker) -> None:
    stop = threading.Event()

    def progress(line: str) -> None:
        stop.set()

    run(small(speed=0.001), broker.connection(), stop, readers=(), progress=progress)
    assert stop.is_set()
