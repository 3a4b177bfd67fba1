"""What is read of GPUs every ten seconds and every minute: tiers, links, fabric, MIG, and what happens to GPUs."""

import math

import pytest
from fake_clock import FakeClock
from fake_nvml import NO_ERROR, FakeGpu, FakeNvml, blackwell, eight, fabric_info, grow, sram_errors

from collectors.base import Reading
from collectors.gpu.collector import GpuCollector
from collectors.gpu.nvlink import FLOOR_LOG10, ber_log10
from collectors.gpu.nvlink_fabric import BOOT_GRACE_S, fabric_faults, mask_words
from schemas.event import Event
from schemas.metrics import names

T0 = 1_764_504_000_000


class Rig:
    """A fake driver, a clock, and a collector between them; the first tick has been."""

    def __init__(self, library: FakeNvml) -> None:
        self.library, self.clock = library, FakeClock(T0)
        self.collector = GpuCollector(library, self.clock)
        self.first = self.tick()

    def tick(self, seconds: float = 1.0) -> Reading:
        self.clock.advance(seconds)
        for gpu in self.library.gpus:
            grow(gpu, seconds)
        return self.collector.collect(self.clock.now_ms())


def one(**more: object) -> FakeGpu:
    return FakeGpu("GPU-0", "00000000:1B:00.0", **more)  # type: ignore[arg-type]


def value(reading: Reading, column: str, row: int = 0, section: str = "gpu") -> float:
    return float(reading.sections[section].column(column)[row])


def events(reading: Reading) -> list[tuple[str, str]]:
    return [(draft.kind, draft.gpu) for draft in reading.drafts if isinstance(draft, Event)]


def test_each_tier_is_there_in_its_ticks_only_and_all_of_them_in_the_first() -> None:
    rig = Rig(eight())
    assert rig.first.sections["gpu"].columns == names("gpu")
    widths = [set(rig.tick().sections["gpu"].columns) for _ in range(60)]
    fast, ten = set(names("gpu", every_s=1)), set(names("gpu", every_s=10))
    assert [i for i, width in enumerate(widths) if width != fast] == [8, 18, 28, 38, 48, 58]
    assert widths[8] == fast | ten
    assert widths[58] == set(names("gpu"))


def test_all_fields_of_a_tick_are_one_call_however_many_tiers_are_due() -> None:
    rig = Rig(eight())
    rig.tick()
    before = rig.library.asked["nvmlDeviceGetFieldValues"]
    rig.tick(60)
    assert rig.library.asked["nvmlDeviceGetFieldValues"] - before == 8


def test_what_a_gpu_lacks_is_asked_once_in_all_tiers() -> None:
    gpu = one()
    gpu.codes |= dict.fromkeys(("nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetGpuFabricInfoV"), 13)
    rig = Rig(FakeNvml([gpu]))
    for _ in range(3):
        reading = rig.tick(60)
    assert rig.library.asked["nvmlDeviceGetSramEccErrorStatus"] == 1
    assert rig.library.asked["nvmlDeviceGetGpuFabricInfoV"] == 1
    assert not [field for field, _ in rig.library.asks[-1] if field in (29, 30, 31, 202, 204, 235)]
    assert math.isnan(value(reading, "sram_correctable_count"))
    assert math.isnan(value(reading, "fabric_fault"))


def test_slow_values_in_their_units() -> None:
    rig = Rig(FakeNvml([one(width=8, sram=sram_errors(correctable=3, parity=1, secded=2, exceeded=1))]))
    slow = rig.tick(60)
    found = {name: value(slow, name) for name in (*names("gpu", 10), *names("gpu", 60))}
    lacking = {"retired_page_count", "retirement_pending"}
    assert {name for name, v in found.items() if math.isnan(v)} == lacking
    assert {name: v for name, v in found.items() if name not in lacking} == pytest.approx(
        {
            "sync_boost_share": 0,
            "pcie_generation": 5,
            "pcie_width_lanes": 8,
            "pcie_width_most_lanes": 16,
            "pcie_correctable_count": 4,
            "pcie_uncorrectable_count": 0,
            "pcie_recovery_count": 12,
            "mig_enabled": 0,
            "fabric_state": 3,
            "fabric_fault": 0,
            "power_limit_default_w": 700,
            "slowdown_margin_c": -2,
            "ecc_sbe_lifetime_count": 9,
            "ecc_dbe_lifetime_count": 0,
            "sram_correctable_count": 3,
            "sram_uncorrectable_count": 3,
            "sram_threshold_exceeded": 1,
            "remap_banks_exhausted_count": 0,
            "memory_unrepairable": 0,
            "repair_pending": 0,
        }
    )


# Links


def test_a_link_has_its_own_rates_over_the_ten_seconds() -> None:
    rig = Rig(FakeNvml([one(fields=blackwell(), links=3)]))
    reading = rig.tick(10)
    links = reading.sections["nvlink"]
    assert links.rows == ("GPU-0/0", "GPU-0/1", "GPU-0/2")
    assert value(reading, "tx_bytes_per_s", 2, "nvlink") == 1 << 20
    assert value(reading, "speed_bytes_per_s", 2, "nvlink") == pytest.approx(26_562e6)
    assert value(reading, "receive_error_count", 2, "nvlink") == 3
    assert "crc_error_count" not in links.columns


def test_a_links_counter_that_falls_has_no_rate() -> None:
    gpu = one(fields=blackwell(), links=2)
    rig = Rig(FakeNvml([gpu]))
    rig.tick(10)
    gpu.fields[202] = 7
    reading = rig.tick(10)
    assert math.isnan(value(reading, "tx_bytes_per_s", 0, "nvlink"))
    assert value(reading, "rx_bytes_per_s", 0, "nvlink") == 1 << 20
    assert value(rig.tick(10), "tx_bytes_per_s", 0, "nvlink") == 1 << 20


def test_bit_error_rates_are_powers_of_ten() -> None:
    assert ber_log10(NO_ERROR) == pytest.approx(-253.8, abs=0.1)
    assert ber_log10(5 << 8 | 13) == pytest.approx(-12.3, abs=0.01)
    assert ber_log10(0) == FLOOR_LOG10
    rig = Rig(FakeNvml([one(fields=blackwell() | {220: 5 << 8 | 9}, links=1)]))
    assert value(rig.first, "effective_ber_log10", 0, "nvlink") == pytest.approx(-8.3, abs=0.01)


def test_corrected_codewords_are_rates_by_how_much_was_corrected() -> None:
    gpu = one(fields=blackwell(), links=1)
    rig = Rig(FakeNvml([gpu]))
    gpu.fields[235 + 5] += 600
    reading = rig.tick(60)
    assert value(reading, "fec_5_per_s", 0, "nvlink") == 10
    assert value(reading, "fec_6_per_s", 0, "nvlink") == 0


def test_links_of_a_lost_gpu_are_left_out_and_the_others_stay() -> None:
    rig = Rig(FakeNvml([FakeGpu(f"GPU-{i}", f"0000000{i}:1B:00.0", blackwell(), links=1) for i in range(2)]))
    rig.library.gpus[0].codes["all"] = 15
    assert rig.tick(10).sections["nvlink"].rows == ("GPU-1/0",)


# Fabric


@pytest.mark.parametrize(
    ("product", "info", "expected"),
    [
        ("NVIDIA H100 PCIe", {"state": 0}, None),
        ("NVIDIA H100 80GB HBM3", {}, ()),
        ("NVIDIA H100 80GB HBM3", {"state": 2}, None),
        ("NVIDIA H100 80GB HBM3", {"status": 999}, ("joined with error 999",)),
        ("NVIDIA B200", {"summary": 3}, ("limited capacity",)),
        ("NVIDIA GB200", {}, ("no clique of its NVLink domain",)),
        ("NVIDIA GB200", {"clique": 7, "cluster": b"\1" * 16, "mask": 0x1AA}, ()),
        ("NVIDIA GB300", {"clique": 7, "cluster": b"\1" * 16, "mask": 0x1A9}, ("bandwidth degraded",)),
    ],
)
def test_a_fabric_is_judged_by_the_product(
    product: str, info: dict[str, object], expected: tuple[str, ...] | None
) -> None:
    usual = {"state": 3, "status": 0, "clique": 0, "cluster": bytes(16), "summary": 0, "mask": 0, "waiting_s": 0.0}
    assert fabric_faults(product, **(usual | info)) == expected  # type: ignore[arg-type]


def test_a_mask_is_told_in_words() -> None:
    assert mask_words(0) == mask_words(0x1AA) == ()
    assert mask_words(0x1AA & ~(3 << 4) | 1 << 4 | 2 << 14) == ("route unhealthy", "fabric manager disconnected")


def test_a_fabric_that_does_not_come_up_is_a_fault_after_its_grace_and_an_event_each_way() -> None:
    gpu = one(fabric=fabric_info(state=2))
    rig = Rig(FakeNvml([gpu]))
    assert math.isnan(value(rig.first, "fabric_fault"))
    waiting = rig.tick(BOOT_GRACE_S / 2)
    assert math.isnan(value(waiting, "fabric_fault"))
    late = rig.tick(BOOT_GRACE_S)
    assert value(late, "fabric_fault") == 1
    assert events(late) == [("fabric_fault", "GPU-0")]
    gpu.fabric = fabric_info()
    back = rig.tick(10)
    assert value(back, "fabric_fault") == 0
    assert events(back) == [("fabric_recovered", "GPU-0")]


# MIG


def test_mig_instances_are_rows_by_their_own_uuids_and_their_change_is_an_event() -> None:
    parts = [FakeGpu(f"MIG-{name}", "", pids=[41]) for name in "ab"]
    gpu = one(mig=parts, codes={"nvmlDeviceGetUtilizationRates": 3}, pids=[40])
    rig = Rig(FakeNvml([gpu]))
    reading = rig.tick()
    assert [(g.uuid, g.parent) for g in reading.gpus] == [("GPU-0", ""), ("MIG-a", "GPU-0"), ("MIG-b", "GPU-0")]
    assert math.isnan(value(reading, "gpu_utilization_pct"))
    assert value(reading, "memory_used_mib", 1) == 61440
    assert value(reading, "sm_active_ratio", 2) == pytest.approx(0.88)
    assert math.isnan(value(reading, "power_w", 1))
    assert rig.collector.processes() == {"GPU-0": (40,), "MIG-a": (41,), "MIG-b": (41,)}
    gpu.mig = [FakeGpu("MIG-c", "")]
    changed = rig.tick(10)
    assert events(changed) == [("mig_changed", "GPU-0")]
    assert [g.uuid for g in changed.gpus] == ["GPU-0", "MIG-c"]
    gpu.mig = []
    assert [g.uuid for g in rig.tick(10).gpus] == ["GPU-0"]


def test_samples_of_mig_instances_are_given_back() -> None:
    gpu = one(mig=[FakeGpu("MIG-a", "")])
    rig = Rig(FakeNvml([gpu]))
    rig.tick()
    gpu.mig = []
    rig.tick(10)
    gpu.codes["nvmlDeviceGetFieldValues"] = 9
    with pytest.raises(Exception, match="driver_unloaded"):
        rig.tick()
    assert rig.library.asked["nvmlGpmSampleFree"] == rig.library.asked["nvmlGpmSampleAlloc"]


# What happens to GPUs


def test_a_reset_is_told_by_the_counters_that_begin_anew() -> None:
    gpu = one()
    rig = Rig(FakeNvml([gpu]))
    rig.tick()
    for number in (83, 197, 198, 74, 138, 139):
        gpu.fields[number] = 0
    reset = rig.tick()
    assert events(reset) == [("gpu_reset", "GPU-0")]
    assert math.isnan(value(reset, "power_average_w"))
    assert events(rig.tick()) == []


def test_one_counter_that_falls_is_no_reset() -> None:
    gpu = one()
    rig = Rig(FakeNvml([gpu]))
    gpu.fields[83] = 0
    assert events(rig.tick()) == []


def test_a_removed_gpu_is_lost_its_neighbours_renumbered_and_nobodys_history_mixed() -> None:
    rig = Rig(FakeNvml([FakeGpu(f"GPU-{name}", f"0000000{i}:1B:00.0") for i, name in enumerate("abc")]))
    rig.tick()
    gone = rig.library.gpus.pop(1)
    told = [event for _ in range(32) for event in events(rig.tick())]
    assert told == [("gpu_renumbered", "GPU-c"), ("gpu_lost", "GPU-b")]
    assert [d.slot for d in rig.collector.descriptions() if d.uuid == "GPU-c"] == [1]
    rig.library.gpus.insert(1, gone)
    told = [event for _ in range(32) for event in events(rig.tick())]
    assert sorted(told) == [("gpu_back", "GPU-b"), ("gpu_renumbered", "GPU-c")]


def test_a_gpu_that_is_plugged_in_is_told() -> None:
    rig = Rig(FakeNvml([one()]))
    rig.library.gpus.append(FakeGpu("GPU-9", "00000009:1B:00.0"))
    told = [event for _ in range(32) for event in events(rig.tick())]
    assert told == [("gpu_added", "GPU-9")]


def test_another_driver_after_a_reload_is_told() -> None:
    rig = Rig(eight())
    rig.library.codes["nvmlInit"] = 9
    rig.library.gpus[0].codes["nvmlDeviceGetFieldValues"] = 9
    with pytest.raises(Exception, match="driver_unloaded"):
        rig.tick()
    rig.library.codes.clear()
    rig.library.gpus[0].codes.clear()
    rig.library.driver = "590.01"
    assert events(rig.tick(31)) == [("driver_changed", "")]
    assert rig.collector.driver == "590.01"


def test_where_the_platform_tells_its_place_the_description_has_it() -> None:
    rig = Rig(FakeNvml([one()]))
    (described,) = rig.collector.descriptions()
    assert (described.chassis, described.chassis_slot, described.chassis_tray) == ("1820325190006", 18, 7)
    silent = one(codes={"nvmlDeviceGetPlatformInfo": 3})
    (described,) = Rig(FakeNvml([silent])).collector.descriptions()
    assert (described.chassis, described.chassis_tray) == ("", None)
