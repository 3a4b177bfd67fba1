"""GPUs and NVLink ports as their baseboard's controller tells them: ProcessorMetrics, Port and PortMetrics.

What a node's agent reads of the driver says more, and every second; a controller says it also where no agent runs, of a
GPU that has fallen off its bus, and of links whose driver is stuck. Properties are DMTF's, and under Oem.Nvidia those
of NvidiaProcessorMetrics and NvidiaPortMetrics (OpenBMC's bmcweb). `BitErrorRate` is the symbols' rate, before
correction; 1.5e-254 means that no error was seen.
"""

import math
import re
from collections.abc import Iterator

from collectors.cooling.redfish_row import Row, row_of
from collectors.cooling.redfish_values import Document, get, health_of, number

FLOOR_LOG10 = -255.0
"""The smallest rate that NVIDIA's packed form can hold, and what stands for none."""

BYTES_PER_GBIT = 1e9 / 8

_DURATION = re.compile(r"P(?:(\d{1,7})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,12})?)S)?)?")

THROTTLED: dict[str, str] = {
    "PowerLimitThrottleDuration": "power_throttled_s",
    "ThermalLimitThrottleDuration": "thermal_throttled_s",
}
THROTTLED_BY_NVIDIA: dict[str, str] = {
    "HardwareViolationThrottleDuration": "hardware_throttled_s",
    "GlobalSoftwareViolationThrottleDuration": "software_throttled_s",
}
PCIE: dict[str, str] = {
    "CorrectableErrorCount": "pcie_correctable_count",
    "ReplayCount": "pcie_replay_count",
    "L0ToRecoveryCount": "pcie_recovery_count",
}
PORT_COUNTS: dict[str, str] = {
    "SymbolErrors": "symbol_error_count",
    "EffectiveError": "effective_error_count",
    "MalformedPackets": "malformed_count",
    "LinkErrorRecoveryCount": "recovery_count",
    "LinkDownedCount": "downed_count",
}
PORT_RATES: dict[str, str] = {"BitErrorRate": "symbol_ber_log10", "EffectiveBER": "effective_ber_log10"}


def seconds(value: object) -> float | None:
    """An ISO 8601 duration of days and less, as Redfish has them; None for anything else.

    >>> seconds("P1DT17H41M2.5S"), seconds("PT0S"), seconds("P"), seconds(7)
    (150062.5, 0.0, None, None)
    """
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return 86_400 * days + 3600 * hours + 60 * minutes + rest


def processor_metrics(document: Document, uri: str) -> Iterator[Row]:
    """One GPU, or another processor, by the counters of its life and of this boot."""
    nvidia, pcie = _nvidia(document), get(document, "PCIeErrors")
    errors = get(get(document, "CacheMetricsTotal"), "LifeTime")
    worst = [number(get(pcie, name)) for name in ("NonFatalErrorCount", "FatalErrorCount")]
    exceeded = get(nvidia, "SRAMECCErrorThresholdExceeded")
    values: dict[str, float | None] = {
        "speed_mhz": number(get(document, "OperatingSpeedMHz")),
        "bandwidth_pct": number(get(document, "BandwidthPercent")),
        "ecc_correctable_count": number(get(errors, "CorrectableECCErrorCount")),
        "ecc_uncorrectable_count": number(get(errors, "UncorrectableECCErrorCount")),
        "pcie_uncorrectable_count": None if None in worst else math.fsum(count or 0.0 for count in worst),
        "sram_threshold_exceeded": float(exceeded) if isinstance(exceeded, bool) else None,
    }
    values |= {column: number(get(pcie, name)) for name, column in PCIE.items()}
    values |= {column: seconds(get(document, name)) for name, column in THROTTLED.items()}
    values |= {column: seconds(get(nvidia, name)) for name, column in THROTTLED_BY_NVIDIA.items()}
    yield row_of("processor", _owner(uri, "/ProcessorMetrics"), values, document)


def port(document: Document, uri: str) -> Iterator[Row]:
    """Whether an NVLink port is up, at what speed, and its health. A port of another protocol is not a GPU's link."""
    if str(get(document, "PortProtocol") or "NVLink").lower() != "nvlink":
        return
    status, speed = get(document, "LinkStatus"), number(get(document, "CurrentSpeedGbps"))
    up = {"linkup": 1.0, "linkdown": 0.0}.get(status.lower()) if isinstance(status, str) else None
    values = {
        "up": up,
        "speed_bytes_per_s": None if speed is None else speed * BYTES_PER_GBIT,
        "status_code": health_of(document),
    }
    yield row_of("port", uri, values, document)


def port_metrics(document: Document, uri: str) -> Iterator[Row]:
    """Errors of an NVLink port; metrics without NVIDIA's part are of another kind of port."""
    nvidia = _nvidia(document)
    if nvidia is None:
        return
    errors = get(nvidia, "NVLinkErrors")
    values: dict[str, float | None] = {column: number(get(nvidia, name)) for name, column in PORT_COUNTS.items()}
    values |= {column: _log10(number(get(nvidia, name))) for name, column in PORT_RATES.items()}
    for name, column in (("RuntimeError", "runtime_error"), ("TrainingError", "training_error")):
        said = get(errors, name)
        values[column] = float(said) if isinstance(said, bool) else None
    yield row_of("port", _owner(uri, "/Metrics"), values, document)


def _nvidia(document: Document) -> object:
    return get(get(document, "Oem"), "Nvidia")


def _owner(uri: str, end: str) -> str:
    """What the metrics are of: they are a resource of their own, and no row of their own."""
    return uri.removesuffix("/").removesuffix(end).removesuffix("/Metrics")


def _log10(rate: float | None) -> float | None:
    """The exponent of a bit error rate; the floor where none was seen."""
    if rate is None or rate < 0:
        return None
    return max(FLOOR_LOG10, math.log10(rate)) if rate > 0 else FLOOR_LOG10
