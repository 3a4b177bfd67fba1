"""The GPU collector on a fake driver: what it reads, and what it says when something fails."""

import math
from collections.abc import Callable

import pytest
from fake_clock import FakeClock
from fake_nvml import FakeGpu, FakeNvml, blackwell, eight, grow

from collectors.base import CollectorError, NoData, Reading
from collectors.gpu.collector import GpuCollector
from collectors.gpu.device import COLUMNS
from schemas.event import Event
from schemas.frame import Gpu

T0 = 1_764_504_000_000


class Rig:
    """A fake driver, a clock, and a collector between them."""

    def __init__(self, library: FakeNvml, known: tuple[Gpu, ...] = ()) -> None:
        self.library, self.clock = library, FakeClock(T0)
        self.collector = GpuCollector(library, self.clock, known)

    def tick(self, seconds: float = 1.0) -> Reading:
        self.clock.advance(seconds)
        for gpu in self.library.gpus:
            grow(gpu, seconds)
        return self.collector.collect(self.clock.now_ms())


def value(reading: Reading, column: str, row: int = 0) -> float:
    return float(reading.sections["gpu"].column(column)[row])


def events(reading: Reading) -> list[tuple[str, str]]:
    return [(draft.kind, draft.gpu) for draft in reading.drafts if isinstance(draft, Event)]


def test_one_tick_has_every_column_of_the_catalogue_in_its_unit() -> None:
    rig = Rig(eight())
    rig.tick()
    reading = rig.tick()
    assert reading.sections["gpu"].columns == COLUMNS
    assert reading.sections["gpu"].rows == tuple(f"GPU-{i}" for i in range(8))
    assert reading.gpus[3] == Gpu(uuid="GPU-3", pci="0003:1b:00.0", slot=3)
    assert reading.missing == {}
    found = {column: value(reading, column) for column in COLUMNS}
    assert found == pytest.approx(
        {
            "power_w": 412.5,
            "power_average_w": 400.0,
            "power_limit_w": 700.0,
            "temperature_c": 55.0,
            "memory_temperature_c": 71.0,
            "thermal_margin_c": 32.0,
            "sm_clock_mhz": 1980.0,
            "memory_clock_mhz": 2619.0,
            "clocks_event_reasons": 4.0,
            "power_cap_share": 0.1,
            "software_thermal_share": 0.0,
            "hardware_thermal_share": 0.0,
            "power_brake_share": 0.0,
            "gpu_utilization_pct": 97.0,
            "memory_utilization_pct": 41.0,
            "memory_used_mib": 61440.0,
            "sm_active_ratio": 0.88,
            "tensor_active_ratio": 0.615,
            "dram_active_ratio": 1.0,  # 100.4 %: the counters' rounding
            "ecc_sbe_count": 0.0,
            "ecc_dbe_count": 0.0,
            "remapped_correctable_count": 1.0,
            "remapped_uncorrectable_count": 0.0,
            "remap_pending": 0.0,
            "remap_failed": 0.0,
            "pcie_tx_bytes_per_s": 3e9,
            "pcie_rx_bytes_per_s": 1e9,
            "pcie_replay_count": 7.0,
            "nvlink_tx_bytes_per_s": 2**20,
            "nvlink_rx_bytes_per_s": 2**20,
            "nvlink_error_count": 36.0,  # two CRC errors on each of 18 links
            "recovery_action": 0.0,
        }
    )


def test_one_field_call_per_gpu_and_tick() -> None:
    rig = Rig(eight())
    for _ in range(3):
        rig.tick()
    before = rig.library.asked["nvmlDeviceGetFieldValues"]
    rig.tick()
    assert rig.library.asked["nvmlDeviceGetFieldValues"] - before == 8


def test_rates_are_missing_on_the_first_reading_and_exact_beyond_float32() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0")]))
    rig.library.gpus[0].fields[197] = 2**60 + 1
    first = rig.tick()
    assert math.isnan(value(first, "pcie_tx_bytes_per_s"))
    # Ten rates of counters, three GPM averages, two rates of each of 18 links; Hopper retires no pages.
    assert first.missing == {"first_reading": 49, "unsupported": 2}
    rig.library.gpus[0].fields[197] -= 3 * 10**9 - 7  # the second that follows brings 7 bytes
    assert value(rig.tick(), "pcie_tx_bytes_per_s") == 7.0


def test_a_counter_that_falls_begins_a_new_epoch_without_a_rate() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0")]))
    rig.tick()
    rig.tick()
    rig.library.gpus[0].fields[83] = 0
    fallen = rig.tick()
    assert math.isnan(value(fallen, "power_average_w"))
    assert fallen.missing == {"counter_fell": 1}
    assert value(rig.tick(), "power_average_w") == pytest.approx(400.0)


def test_blackwell_counts_its_nvlinks_one_by_one() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0", fields=blackwell())]))
    rig.tick()
    reading = rig.tick()
    assert value(reading, "nvlink_tx_bytes_per_s") == 18 * (1 << 20)
    assert value(reading, "nvlink_error_count") == 54.0
    assert reading.missing == {}
    scopes = {scope for number, scope in rig.library.asks[-1] if number == 202}
    assert scopes == set(range(18))  # NVML's own maximum is 36: the GPU says how many it has
    assert not [number for number, _ in rig.library.asks[-1] if number in (138, 139, 161, 162, 163)]


def test_one_links_reset_does_not_hide_in_the_growth_of_the_others() -> None:
    gpu = FakeGpu("GPU-0", "00000000:1B:00.0", fields=blackwell(), links=2)
    rig = Rig(FakeNvml([gpu]))
    rig.tick()
    rig.tick()
    real = FakeNvml._value

    def one_fell(gpu: FakeGpu, number: int, scope: int) -> object:
        answer = real(gpu, number, scope)
        if (number, scope) == (202, 1):
            answer.value.ullVal = 5
        return answer

    rig.library._value = one_fell  # type: ignore[method-assign, assignment]
    fallen = rig.tick()
    assert math.isnan(value(fallen, "nvlink_tx_bytes_per_s"))
    assert fallen.missing == {"counter_fell": 1}


def test_what_a_gpu_lacks_is_asked_again_after_ten_minutes_and_counted_meanwhile() -> None:
    gpu = FakeGpu("GPU-0", "00000000:1B:00.0", gpm=False)
    del gpu.fields[82]
    gpu.codes["nvmlDeviceGetMarginTemperature"] = 13  # a driver before 570
    rig = Rig(FakeNvml([gpu]))
    rig.tick()
    reading = rig.tick()
    assert reading.missing == {"unsupported": 5}
    assert math.isnan(value(reading, "memory_temperature_c"))
    for _ in range(3):
        rig.tick()
    assert (82, 0) not in rig.library.asks[-1]
    assert rig.library.asked["nvmlDeviceGetMarginTemperature"] == 1
    gpu.fields[82] = 66
    del gpu.codes["nvmlDeviceGetMarginTemperature"]
    rig.tick(601)
    reading = rig.tick()
    assert value(reading, "memory_temperature_c") == 66
    assert value(reading, "thermal_margin_c") == 32


def test_asking_again_does_not_interrupt_what_is_there() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0", fields=blackwell())]))
    for _ in range(3):
        rig.tick()
    assert not math.isnan(value(rig.tick(601), "nvlink_tx_bytes_per_s"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [(4, "no_permission"), (10, "timeout"), (21, "no_data"), (999, "unknown_error"), (11, "nvml_11")],
)
def test_one_value_that_fails_costs_only_itself(code: int, reason: str) -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[2].codes[186] = code
    reading = rig.tick()
    assert reading.missing == {reason: 1}
    assert math.isnan(value(reading, "power_w", 2))
    assert value(reading, "power_limit_w", 2) == 700.0
    assert value(reading, "power_w", 1) == 412.5


def test_out_of_range_is_missing_neither_kept_nor_clipped() -> None:
    rig = Rig(eight())
    rig.library.gpus[0].utilization = (4_294_967_295, 41)
    rig.library.gpus[1].utilization = (131_072, 41)
    rig.tick()
    reading = rig.tick()
    assert reading.missing == {"out_of_range": 2}
    assert math.isnan(value(reading, "gpu_utilization_pct", 0))
    assert value(reading, "memory_utilization_pct", 0) == 41


def test_a_blank_value_is_missing() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0", blank=frozenset((82, 3)))]))
    rig.tick()
    reading = rig.tick()
    assert reading.missing == {"blank": 2}
    assert math.isnan(value(reading, "memory_temperature_c"))
    assert math.isnan(value(reading, "ecc_sbe_count"))


def test_a_lost_gpu_is_one_event_its_row_is_blank_and_the_others_go_on() -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[5].codes["all"] = 15
    lost = rig.tick()
    assert events(lost) == [("gpu_lost", "GPU-5")]
    assert lost.missing == {"lost": len(COLUMNS)}
    assert lost.gpus[5].pci == "0005:1b:00.0"
    assert math.isnan(value(lost, "power_w", 5))
    assert value(lost, "power_w", 4) == 412.5
    assert events(rig.tick()) == []


def test_one_value_that_says_lost_makes_the_rest_of_the_row_unbelievable() -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[5].codes[186] = 15  # energy and NVLink counters of a lost GPU still answer
    lost = rig.tick()
    assert events(lost) == [("gpu_lost", "GPU-5")]
    assert lost.missing == {"lost": len(COLUMNS)}


def test_a_lost_gpu_is_asked_every_thirty_seconds_and_begins_a_new_epoch_when_it_is_back() -> None:
    rig = Rig(FakeNvml([FakeGpu("GPU-0", "00000000:1B:00.0")]))
    gpu = rig.library.gpus[0]
    rig.tick()
    gpu.codes["all"] = 15
    rig.tick()
    asked = len(rig.library.asks)
    for _ in range(25):
        rig.tick()
    assert len(rig.library.asks) == asked
    del gpu.codes["all"]
    back: list[tuple[str, str]] = []
    readings = []
    for _ in range(6):
        readings.append(rig.tick())
        back += events(readings[-1])
    assert back == [("gpu_back", "GPU-0")]
    first = next(reading for reading in readings if events(reading))
    assert math.isnan(value(first, "power_average_w"))
    assert value(readings[-1], "power_average_w") == pytest.approx(400.0)


def test_a_gpu_that_must_be_reset_says_so() -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[1].codes["nvmlDeviceGetFieldValues"] = 16
    reading = rig.tick()
    assert events(reading) == [("gpu_reset_required", "GPU-1")]
    assert reading.missing == {"reset_required": len(COLUMNS)}
    assert events(rig.tick()) == []


def test_three_unknown_errors_in_a_row_are_an_event_and_one_is_not() -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[1].codes["nvmlDeviceGetFieldValues"] = 999
    assert events(rig.tick()) == []
    assert events(rig.tick()) == []
    third = rig.tick()
    assert events(third) == [("gpu_unreadable", "GPU-1")]
    assert third.missing == {"unknown_error": len(COLUMNS)}
    del rig.library.gpus[1].codes["nvmlDeviceGetFieldValues"]
    assert events(rig.tick()) == [("gpu_back", "GPU-1")]


def test_a_gpu_lost_before_this_process_began_is_named() -> None:
    library = eight()
    gone = library.gpus.pop(6)
    known = (Gpu(uuid=gone.uuid, pci="0006:1b:00.0", slot=6),)
    reading = Rig(library, known).tick()
    assert events(reading) == [("gpu_lost", "GPU-6")]
    assert reading.sections["gpu"].rows[6] == "GPU-6"


def test_a_gpu_whose_place_another_has_taken_is_no_longer_missed() -> None:
    library = eight()
    known = (Gpu(uuid="GPU-old", pci="0006:1b:00.0", slot=6),)
    reading = Rig(library, known).tick()
    assert events(reading) == []
    assert "GPU-old" not in reading.sections["gpu"].rows


def test_a_new_numbering_of_the_gpus_mixes_nobodys_history() -> None:
    rig = Rig(FakeNvml([FakeGpu(f"GPU-{name}", f"0000000{i}:1B:00.0") for i, name in enumerate("abc")]))
    rig.tick()
    rig.library.gpus[0].fields[83] += 10**9
    del rig.library.gpus[1]
    for _ in range(31):
        reading = rig.tick()
    assert reading.sections["gpu"].rows == ("GPU-a", "GPU-b", "GPU-c")
    assert value(reading, "power_average_w", 2) == pytest.approx(400.0)
    assert math.isnan(value(reading, "power_w", 1))
    assert reading.missing == {"lost": len(COLUMNS)}


def unload(library: FakeNvml) -> None:
    library.codes["nvmlInit"] = 9
    for gpu in library.gpus:
        gpu.codes["nvmlDeviceGetFieldValues"] = 1


def test_an_unloaded_driver_is_an_error_with_the_gpus_named_and_tried_again_in_thirty_seconds() -> None:
    rig = Rig(eight())
    rig.tick()
    unload(rig.library)
    with pytest.raises(CollectorError) as raised:
        rig.tick()
    assert (raised.value.code, raised.value.kind, raised.value.restart) == ("driver_unloaded", "driver_unloaded", False)
    assert raised.value.partial is not None
    assert raised.value.partial.missing == {"driver_unloaded": 8 * len(COLUMNS)}
    assert len(raised.value.partial.gpus) == 8
    inits = rig.library.asked["nvmlInit"]
    for _ in range(25):
        with pytest.raises(CollectorError):
            rig.tick()
    assert rig.library.asked["nvmlInit"] == inits
    rig.library.codes.clear()
    for gpu in rig.library.gpus:
        gpu.codes.clear()
    rig.clock.advance(30)
    back = rig.tick()
    assert math.isnan(value(back, "power_average_w"))
    assert value(back, "power_w") == 412.5


def test_a_driver_changed_under_the_process_asks_for_a_new_one() -> None:
    rig = Rig(eight())
    rig.tick()
    rig.library.gpus[0].codes["nvmlDeviceGetFieldValues"] = 18
    with pytest.raises(CollectorError) as raised:
        rig.tick()
    assert (raised.value.code, raised.value.kind, raised.value.restart) == ("driver_mismatch", "driver_mismatch", True)


def nothing_installed(library: FakeNvml) -> None:
    library.codes["nvmlInit"] = 12


def nothing_plugged_in(library: FakeNvml) -> None:
    library.gpus.clear()


@pytest.mark.parametrize("how", [nothing_installed, nothing_plugged_in])
def test_a_machine_without_gpus_has_no_data_and_that_is_no_error(how: Callable[[FakeNvml], None]) -> None:
    rig = Rig(eight())
    how(rig.library)
    for _ in range(2):
        with pytest.raises(NoData):
            rig.tick()


def test_opening_early_keeps_what_went_wrong_for_the_first_reading() -> None:
    rig = Rig(eight())
    unload(rig.library)
    rig.collector.open()
    with pytest.raises(CollectorError, match="driver_unloaded"):
        rig.tick()


def test_samples_are_given_back_when_the_driver_goes() -> None:
    rig = Rig(eight())
    rig.tick()
    unload(rig.library)
    with pytest.raises(CollectorError):
        rig.tick()
    assert rig.library.asked["nvmlGpmSampleFree"] == rig.library.asked["nvmlGpmSampleAlloc"] == 16


def test_processes_and_descriptions_of_the_readable_gpus() -> None:
    rig = Rig(eight())
    rig.library.gpus[0].pids = [11, 10, 11]
    rig.library.gpus[1].codes["nvmlDeviceGetComputeRunningProcesses"] = 999
    rig.tick()
    found = rig.collector.processes()
    assert found["GPU-0"] == (10, 11)
    assert "GPU-1" not in found
    assert found["GPU-2"] == ()
    described = rig.collector.descriptions()[7]
    assert (described.uuid, described.serial, described.slot) == ("GPU-7", "S7", 7)
    rig.library.gpus[7].codes["all"] = 15
    rig.tick()
    rig.tick(31)
    assert rig.collector.descriptions()[7].serial == "S7"
