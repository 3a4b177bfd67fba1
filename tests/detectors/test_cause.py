"""From a culprit's own readings to a cause, and to "unknown" where they do not tell."""

import pytest

from detectors.incident.cause import Witness, judge
from schemas.causes import Cause
from schemas.features import GpuFeatures

USUAL = {
    "sm_clock_mhz": 1900.0, "memory_clock_mhz": 3996.0, "temperature_c": 62.0, "memory_used_mib": 150_000.0,
    "dram_active_ratio": 0.35, "tensor_active_ratio": 0.45, "power_w": 1100.0,
}  # fmt: skip
IDLE_HOST = {"cpu_utilization_pct": 12.0, "cpu_pressure_pct": 0.2, "memory_pressure_pct": 0.0, "io_pressure_pct": 0.2}


def gpu(z: dict[str, float] | None = None, recent: tuple[str, ...] = (), **readings: float) -> GpuFeatures:
    return GpuFeatures(uuid="GPU-1", rank=1, z=z or {}, readings=USUAL | readings, centres=USUAL, recent=recent)


@pytest.mark.parametrize(
    ("cause", "witness"),
    [
        ("gpu_degraded", Witness(gpu=gpu(), timed=True)),
        ("gpu_degraded", Witness(gpu=gpu(clocks_event_reasons=4.0), timed=True)),  # the power cap is no fault
        (
            "thermal_throttle",
            Witness(
                gpu=gpu({"temperature_c": 9.0}, temperature_c=88.0, sm_clock_mhz=1600.0, hardware_thermal_share=0.7)
            ),
        ),
        ("thermal_throttle", Witness(gpu=gpu(clocks_event_reasons=64.0, sm_clock_mhz=1700.0))),
        ("power_brake", Witness(gpu=gpu(power_brake_share=0.98, sm_clock_mhz=1500.0))),
        ("memory_bandwidth", Witness(gpu=gpu(memory_clock_mhz=2600.0))),
        ("memory_bandwidth", Witness(gpu=gpu({"dram_active_ratio": 12.0}, dram_active_ratio=0.62))),
        ("gpu_contention", Witness(gpu=gpu(memory_used_mib=161_000.0))),
        ("gpu_memory_error", Witness(gpu=gpu(ecc_dbe_count=1.0))),
        ("gpu_memory_error", Witness(gpu=gpu(recent=("xid:94@2s",)))),
        ("gpu_lost", Witness(gpu=gpu(recent=("xid:79@3s",)))),
        ("nvlink_fault", Witness(gpu=gpu(nvlink_error_count=25.0))),
        ("pcie_degraded", Witness(gpu=gpu(pcie_replay_count=40.0))),
        ("data_loading", Witness(timed=True, data_share=0.98)),
        ("data_loading", Witness(gpu=gpu(), timed=True, data_share=0.98)),
        ("python_stall", Witness(gpu=gpu(), timed=True, data_share=0.98, sporadic=True)),
        ("allocator_stall", Witness(timed=True, allocator_share=0.9)),
        ("sporadic_stall", Witness(gpu=gpu(), timed=True, sporadic=True)),
        ("host_cpu", Witness(node=True, timed=True, host=IDLE_HOST | {"cpu_utilization_pct": 97.0}, hosts=[IDLE_HOST])),
        (
            "host_memory",
            Witness(node=True, timed=True, host=IDLE_HOST | {"memory_pressure_pct": 40.0}, hosts=[IDLE_HOST]),
        ),
        ("host_io", Witness(node=True, timed=True, host=IDLE_HOST | {"io_pressure_pct": 60.0}, hosts=[IDLE_HOST])),
        ("unknown", Witness()),
        ("unknown", Witness(node=True, host=IDLE_HOST, hosts=[IDLE_HOST])),
    ],
)
def test_the_table_of_causes(cause: Cause, witness: Witness) -> None:
    verdict = judge(witness)
    assert verdict.cause == cause
    assert 0 <= verdict.confidence <= 1


def test_below_the_margin_it_is_unknown_and_the_likelier_is_named_next() -> None:
    both = gpu(pcie_replay_count=40.0, nvlink_error_count=25.0)
    verdict = judge(Witness(gpu=both))
    assert verdict.cause == "unknown"
    assert verdict.runner_up in ("pcie_degraded", "nvlink_fault")


def test_every_cause_but_the_default_has_its_evidence() -> None:
    verdict = judge(Witness(gpu=gpu(sm_clock_mhz=1500.0, power_brake_share=0.98)))
    assert any("1500 MHz, usually 1900 MHz" in e.text for e in verdict.evidence)
    assert verdict.runner_up == "gpu_degraded"


def test_an_application_error_blames_no_hardware() -> None:
    assert judge(Witness(gpu=gpu(recent=("xid:13@3s", "xid:43@1s")), timed=True)).cause == "gpu_degraded"
