"""The fake library against the protocol the GPU collector asks for, and through that collector."""

import inspect
from typing import Any

import numpy as np
import pytest
from watched_fleet import START_MS, small

from collectors.gpu import nvml
from collectors.gpu.collector import GpuCollector
from simulator.fleet import SimulatedFleet
from simulator.nvml import FakeNvml, NvmlError


class EventClock:
    """Event time in seconds for the collector's rates."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return START_MS + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def collected(ticks: int = 4, node: int = 1, **settings: Any) -> tuple[SimulatedFleet, dict[str, Any], Any]:
    """A fleet after `ticks`, the last reading's columns of `node` by metric name, and the reading."""
    fleet = SimulatedFleet(small(**settings), start_ms=START_MS)
    clock = EventClock()
    collector = GpuCollector(fleet.nodes[node].nvml, clock)
    for tick in range(ticks):
        clock.seconds = float(tick)
        fleet.advance()
        reading = collector.collect(fleet.tick_ms)
    matrix = reading.sections["gpu"]
    return fleet, {name: matrix.column(name) for name in matrix.columns}, reading


def test_every_function_of_the_protocol_is_there_with_its_parameters() -> None:
    for name, wanted in inspect.getmembers(nvml.NvmlLibrary, inspect.isfunction):
        if not name.startswith("nvml"):
            continue
        ours = inspect.signature(getattr(FakeNvml, name)).parameters
        assert len(ours) == len(inspect.signature(wanted).parameters), name
    library: nvml.NvmlLibrary = FakeNvml(SimulatedFleet(small())._board, 0)
    assert issubclass(library.NVMLError, Exception)


def test_the_collector_finds_every_metric_on_a_healthy_node() -> None:
    _, columns, reading = collected()
    assert reading.missing == {}
    assert all(np.isfinite(values).all() for values in columns.values())
    assert [(gpu.slot, gpu.pci) for gpu in reading.gpus] == [
        (0, "0008:01:00.0"), (1, "0009:01:00.0"), (2, "0018:01:00.0"), (3, "0019:01:00.0"),
    ]  # fmt: skip


def test_a_working_gpu_looks_like_one() -> None:
    _, columns, _ = collected(8)
    expected = {
        "power_average_w": (950, 1200), "temperature_c": (50, 80), "sm_clock_mhz": (1850, 1990),
        "gpu_utilization_pct": (95, 101), "sm_active_ratio": (0.6, 0.9), "tensor_active_ratio": (0.3, 0.5),
        "nvlink_tx_bytes_per_s": (5e9, 2e10), "power_cap_share": (0.8, 0.95), "memory_used_mib": (150_000, 160_000),
    }  # fmt: skip
    for name, (low, high) in expected.items():
        assert ((columns[name] > low) & (columns[name] < high)).all(), name
    assert (np.diff(columns["temperature_c"]) > 1).all()  # slots differ at equal power


def test_an_idle_gpu_looks_like_one() -> None:
    _, columns, _ = collected(8, node=2)
    assert (columns["power_average_w"] < 130).all()
    assert (columns["gpu_utilization_pct"] == 0).all()
    assert (columns["clocks_event_reasons"] == 1).all()
    assert (columns["nvlink_tx_bytes_per_s"] == 0).all()


def test_a_lost_gpu_becomes_an_event_and_missing_values() -> None:
    _, columns, reading = collected(6, fault="gpu_lost", target="5", onset_s=3.0)
    assert np.isnan(columns["power_w"]).tolist() == [False, True, False, False]
    assert set(reading.missing) == {"lost"}


def test_a_broken_sensor_is_out_of_range() -> None:
    _, columns, reading = collected(6, fault="sensor_fault", target="5", onset_s=3.0)
    assert np.isnan(columns["temperature_c"]).tolist() == [False, True, False, False]
    assert reading.missing["out_of_range"] >= 2


def test_eighteen_links_answer_one_by_one_where_asked_for() -> None:
    fleet = SimulatedFleet(small(fault="nvlink_fault", target="5", onset_s=1.0), start_ms=START_MS)
    for _ in range(6):
        fleet.advance()
    many, one = FakeNvml(fleet._board, 1, links=18), FakeNvml(fleet._board, 1)
    assert many.nvmlDeviceGetFieldValues(5, [91])[0].value.uiVal == 18
    errors = [v.value.ullVal for v in many.nvmlDeviceGetFieldValues(5, [(208, link) for link in range(18)])]
    assert [link for link, count in enumerate(errors) if count] == [6]
    sent = sum(v.value.ullVal for v in many.nvmlDeviceGetFieldValues(5, [(202, link) for link in range(18)]))
    assert sent == pytest.approx(one.nvmlDeviceGetFieldValues(5, [(202, 0)])[0].value.ullVal, rel=1e-6)
    assert many.nvmlDeviceGetFieldValues(5, [(202, 18)])[0].nvmlReturn == 2


def test_what_blackwell_lacks_is_not_supported() -> None:
    library = SimulatedFleet(small()).nodes[0].nvml
    assert [v.nvmlReturn for v in library.nvmlDeviceGetFieldValues(0, [29, 138, 161])] == [3, 3, 3]
    with pytest.raises(NvmlError) as caught:
        library.nvmlDeviceGetHandleByIndex(4)
    assert caught.value.value == 2
