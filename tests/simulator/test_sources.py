"""/proc, kernel log and step lines through the collectors that read them."""

from pathlib import Path
from typing import cast

import pytest
from watched_fleet import ONSET_S, START_MS, Watched, small, watch

from collectors.job.processes import Processes
from collectors.job.steps import StepsCollector
from collectors.kernel.kmsg import parse_record
from collectors.kernel.log import parse_line
from schemas import StepFrame
from simulator.fleet import SimulatedFleet


def advanced(ticks: int) -> SimulatedFleet:
    fleet = SimulatedFleet(small(), start_ms=START_MS)
    for _ in range(ticks):
        fleet.advance()
    return fleet


def test_a_ranks_environment_names_its_job_and_rank() -> None:
    fleet = advanced(1)
    processes = Processes(cast(Path, fleet.nodes[1].proc), "default")
    for rank in (4, 5, 6, 7):
        work = processes.work(fleet.topology.pid(rank))
        assert work is not None
        assert (work.job, work.rank) == ("slurm:default/70007/0", rank)
        assert processes.alive(fleet.topology.pid(rank))
    assert processes.work(fleet.topology.pid(0)) is None  # another node's


def test_step_lines_become_a_frame_of_the_same_job() -> None:
    fleet = advanced(3)
    reading = StepsCollector(fleet.nodes[1].steps).collect(fleet.tick_ms)
    (frame,) = reading.drafts
    assert isinstance(frame, StepFrame)
    assert frame.job == "slurm:default/70007/0"
    assert {step.rank for step in frame.steps} == {4, 5, 6, 7}
    assert reading.missing == {}


@pytest.fixture(scope="module")
def fallen() -> Watched:
    return watch(ONSET_S + 3, fault="gpu_lost", target="5")


def test_kernel_lines_are_kmsg_records_with_rising_numbers(fallen: Watched) -> None:
    by_node: dict[str, list[int]] = {}
    for _, node, line in fallen.kernel:
        record = parse_record(line)
        assert record is not None
        assert record.facility == 0
        by_node.setdefault(node, []).append(record.seq)
    assert all(numbers == list(range(1200, 1200 + len(numbers))) for numbers in by_node.values())


def test_the_xid_is_understood_and_nothing_healthy_is(fallen: Watched) -> None:
    found = [(node, parse_line(line.decode())) for _, node, line in fallen.kernel]
    events = [(node, event.kind, event.code, event.pci) for node, event in found if event is not None]
    assert events == [("r01-t02", "xid", 79, "0009:01:00.0")]
