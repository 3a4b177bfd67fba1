"""The fleet as a whole: the same seed gives the same bytes, and a tick is cheap."""

from time import process_time

import numpy as np
import pytest
from watched_fleet import START_MS, small

from collectors.host.collector import HostCollector
from runtime.errors import UserError
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings


def everything(fleet: SimulatedFleet, ticks: int) -> list[object]:
    said: list[object] = []
    for _ in range(ticks):
        fleet.advance()
        for node in fleet.nodes:
            said += [node.inspector.read(), node.steps.read(), node.kernel.read()]
            said += [(node.proc / name).read_bytes() for name in ("stat", "loadavg", "meminfo", "pressure/cpu")]
            said.append([node.nvml.nvmlDeviceGetCurrentClocksEventReasons(node.nvml.nvmlDeviceGetHandleByIndex(0))])
        said += [fleet.racks.sections(rack) for rack in range(len(fleet.topology.rack_names))]
    return said


def test_one_seed_one_run() -> None:
    def run(seed: int) -> list[object]:
        return everything(SimulatedFleet(small(fault="host_cpu", onset_s=2.0, seed=seed), start_ms=START_MS), 5)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_fault_put_in_later_is_as_if_it_had_been_there_from_the_start() -> None:
    ill = small(fault="host_cpu", onset_s=2.0)
    fleet = SimulatedFleet(small(onset_s=2.0), start_ms=START_MS)
    began = everything(fleet, 2)
    fleet.put_in(ill)
    always = SimulatedFleet(ill, start_ms=START_MS)
    assert fleet.truth == always.truth
    assert began + everything(fleet, 4) == everything(always, 6)
    with pytest.raises(UserError, match="older"):
        fleet.put_in(ill)


def test_ticks_are_whole_seconds_of_event_time() -> None:
    fleet = SimulatedFleet(small(), start_ms=START_MS + 123)
    assert [fleet.advance() for _ in range(3)] == [START_MS + 1000, START_MS + 2000, START_MS + 3000]


def test_a_rack_of_working_trays_closes_its_heat_balance() -> None:
    fleet = SimulatedFleet(FleetSettings(racks=1, job_size=64), start_ms=START_MS)
    for _ in range(5):
        fleet.advance()
    sections = fleet.racks.sections(0)
    power_w = float(sections["shelf"].column("output_w").sum())
    assert 70_000 < power_w < 125_000
    assert 0.94 < float(sections["loop"].column("heat_w")[0]) / power_w < 1.02
    assert len(sections["leak"].rows) == 72
    assert not sections["leak"].column("leak_detected").any()


def test_nodes_differ_by_a_lasting_two_per_cent() -> None:
    fleet = SimulatedFleet(FleetSettings(), start_ms=START_MS)
    for _ in range(20):
        fleet.advance()
    working = fleet.topology.gpu_of_rank
    by_node = fleet._physics.average_w[working].reshape(-1, 4).mean(axis=1)
    offset = by_node / np.median(by_node) - 1
    assert np.abs(offset).max() < 0.025
    assert offset.std() > 0.005


def test_the_host_collector_reads_a_nodes_proc() -> None:
    fleet = SimulatedFleet(small(), start_ms=START_MS)

    class Clock:
        seconds = 0.0

        def now_ms(self) -> int:
            return fleet.tick_ms

        def monotonic(self) -> float:
            return self.seconds

        def sleep(self, seconds: float) -> None:
            self.seconds += seconds

    clock = Clock()
    collector = HostCollector(fleet.nodes[0].proc, "r01-t01", clock)  # type: ignore[arg-type]
    for _ in range(3):
        fleet.advance()
        clock.sleep(1.0)
        reading = collector.collect(fleet.tick_ms)
    host = reading.sections["host"]
    assert reading.missing.keys() <= {"unsupported"}
    assert 10 < host.column("cpu_utilization_pct")[0] < 16
    assert host.column("memory_available_mib")[0] > 0.6 * host.column("memory_total_mib")[0]
    assert host.column("cpu_pressure_pct")[0] < 2


def test_a_tick_of_the_whole_fleet_is_cheap() -> None:
    """About 15 ms on one core of a small machine; the bound only catches a change of order."""
    fleet = SimulatedFleet(FleetSettings(), start_ms=START_MS)
    fleet.advance()
    began = process_time()
    for _ in range(10):
        fleet.advance()
        for node in fleet.nodes:
            node.inspector.read(), node.steps.read()
    assert (process_time() - began) / 10 < 0.15
