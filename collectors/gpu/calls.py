"""What is asked of a GPU by a call of its own rather than as a field: by period, with the columns each call fills.

PCIe throughput is not here: that call measures for 20 ms.
"""

from collections.abc import Callable, Sequence

from collectors.gpu import nvml
from collectors.rates import Value

MIB = 1 << 20

Call = Callable[[nvml.NvmlLibrary, nvml.Handle], Sequence[Value]]


def _utilization(library: nvml.NvmlLibrary, handle: nvml.Handle) -> Sequence[Value]:
    rates = library.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _sram(library: nvml.NvmlLibrary, handle: nvml.Handle) -> Sequence[Value]:
    status = library.nvmlDeviceGetSramEccErrorStatus(handle)
    uncorrectable = status.volatileUncParity + status.volatileUncSecDed
    return status.volatileCor, uncorrectable, float(bool(status.bThresholdExceeded))


CALLS: dict[int, dict[tuple[str, ...], Call]] = {
    1: {
        ("temperature_c",): lambda lib, h: (lib.nvmlDeviceGetTemperatureV(h, nvml.TEMPERATURE_GPU),),
        ("thermal_margin_c",): lambda lib, h: (lib.nvmlDeviceGetMarginTemperature(h),),
        ("sm_clock_mhz",): lambda lib, h: (lib.nvmlDeviceGetClockInfo(h, nvml.CLOCK_SM),),
        ("memory_clock_mhz",): lambda lib, h: (lib.nvmlDeviceGetClockInfo(h, nvml.CLOCK_MEM),),
        ("clocks_event_reasons",): lambda lib, h: (lib.nvmlDeviceGetCurrentClocksEventReasons(h),),
        ("gpu_utilization_pct", "memory_utilization_pct"): _utilization,
        ("memory_used_mib",): lambda lib, h: (lib.nvmlDeviceGetMemoryInfo(h).used / MIB,),
    },
    10: {
        ("pcie_generation",): lambda lib, h: (lib.nvmlDeviceGetCurrPcieLinkGeneration(h),),
        ("pcie_width_lanes",): lambda lib, h: (lib.nvmlDeviceGetCurrPcieLinkWidth(h),),
        ("pcie_width_most_lanes",): lambda lib, h: (lib.nvmlDeviceGetMaxPcieLinkWidth(h),),
        ("mig_enabled",): lambda lib, h: (lib.nvmlDeviceGetMigMode(h)[0],),
    },
    60: {
        ("sram_correctable_count", "sram_uncorrectable_count", "sram_threshold_exceeded"): _sram,
        ("memory_unrepairable",): lambda lib, h: (float(bool(lib.nvmlDeviceGetUnrepairableMemoryFlag_v1(h))),),
        ("repair_pending",): lambda lib, h: (float(any(lib.nvmlDeviceGetRepairStatus(h))),),
    },
}
