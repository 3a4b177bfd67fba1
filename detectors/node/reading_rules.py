"""What a reading alone says: throttling, error counters, the driver's own verdict.

The software power cap (bit 0x4 of the clocks event reasons) is nowhere here: a healthy GPU at full load shows it in
nine of ten samples (H100 set, 690 W).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled
from detectors.episode import Persistence, Rule, Verdict
from detectors.event_rules import ACTION
from detectors.node.deviation import Deviation
from detectors.node.gpu_columns import COMPARED_AT, COUNTED, RAW_AT
from detectors.node.gpu_pass import Records
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence

Mask = NDArray[np.bool_]

THERMAL_BITS = 0x20 | 0x40
"""Software and hardware thermal slowdown. HwSlowdown (0x8) shows at any clock change and is left out."""

POWER_BRAKE_BIT = 0x80

THROTTLED_SHARE = 0.1
"""A tenth of a second's time throttled costs some percent of speed: worth a word, and clear of single samples."""

BEYOND_SLOWDOWN_C = -3.0
"""A thermal margin below it is beyond the hardware's slowdown on every product: -2 on H100, GB200, GB300 and L40, -3 on
B200 (NVSentinel's GpuThermalMarginWatch). At 0 and a little below, a GPU holds its temperature as it should."""

SUSTAINED = Persistence(k=8, n=10, clear=30)
"""Eight of ten seconds: a brush with a limit is no fault; half a minute free of it is an end."""

REPEATED = Persistence(k=5, n=30, clear=60)
"""Errors come in bursts: five seconds with errors within thirty."""

AT_ONCE = Persistence(k=1, n=1, clear=60)
TWICE = Persistence(k=2, n=2, clear=10)

STOPPED = Persistence(k=10, n=12, clear=30)
"""Ten seconds: a driver call that is slow once leaves a gap of one or two."""

SENSORS = ("power_w", "temperature_c", "memory_temperature_c", "thermal_margin_c", "sm_clock_mhz")
"""What a healthy GPU always reads. Activity counters are not here: a profiler takes them away rightfully."""

RESET, REBOOT, DRAIN_P2P, DRAIN_AND_RESET, RECOVER_DOMAIN, RESET_BUS, REBOOT_SYSTEM = range(1, 8)
OUT_OF_WORK = (RESET, REBOOT, DRAIN_AND_RESET, RESET_BUS, REBOOT_SYSTEM)
"""NVML's GPU recovery actions that take the GPU out of work. Draining peer-to-peer traffic leaves it at work."""

SLOW_GAP_MS = 300_000
SLOWLY = Persistence(k=2, n=2, clear=2, gap_ms=SLOW_GAP_MS)
"""Two readings in a row of what is read every ten seconds."""

AT_ONCE_SLOWLY = Persistence(k=1, n=1, clear=2, gap_ms=SLOW_GAP_MS)

BUSY_PCT = 90.0
DRAWING_SHARE = 1 / 3
"""A GPU that draws a third of its limit computes: an idle one draws a tenth (H100: 70 of 700 W)."""

BLIND = Persistence(k=20, n=30, clear=10)
"""Twenty of thirty seconds: profilers attach and detach within a few."""


class ReadingRule(NamedTuple):
    """`holds` says for which rows the condition is met; it is judged where any of `columns` was read."""

    rule: Rule
    cause: Cause
    confidence: float
    columns: tuple[str, ...]
    holds: Callable[[Deviation], Mask]


def _thermal(tick: Deviation) -> Mask:
    return (
        _bits(tick, THERMAL_BITS)
        | (_raw(tick, "hardware_thermal_share") > THROTTLED_SHARE)
        | (_raw(tick, "software_thermal_share") > THROTTLED_SHARE)
    )


def _no_margin(tick: Deviation) -> Mask:
    return _raw(tick, "thermal_margin_c") < BEYOND_SLOWDOWN_C


def _power_brake(tick: Deviation) -> Mask:
    return _bits(tick, POWER_BRAKE_BIT) | (_raw(tick, "power_brake_share") > THROTTLED_SHARE)


def _uncorrectable(tick: Deviation) -> Mask:
    return _grown(tick, "ecc_dbe_count") | _grown(tick, "remapped_uncorrectable_count")


def _remap_failed(tick: Deviation) -> Mask:
    return _raw(tick, "remap_failed") > 0


def _nvlink_errors(tick: Deviation) -> Mask:
    return _grown(tick, "nvlink_error_count")


def _pcie_replays(tick: Deviation) -> Mask:
    return _grown(tick, "pcie_replay_count")


def _sensor_gone(tick: Deviation) -> Mask:
    """A sensor that used to read and does not, or reads nonsense, while the GPU answers."""
    gone: Mask = tick.here & np.any(tick.absent[:, [RAW_AT[name] for name in SENSORS]], axis=1)
    return gone


def _recovery_wanted(tick: Deviation) -> Mask:
    wanted: Mask = np.isin(_raw(tick, "recovery_action"), OUT_OF_WORK)
    return wanted


def _domain_broken(tick: Deviation) -> Mask:
    broken: Mask = _raw(tick, "recovery_action") == RECOVER_DOMAIN
    return broken


def _fabric_lost(tick: Deviation) -> Mask:
    return _raw(tick, "fabric_fault") > 0


def _memory_worn(tick: Deviation) -> Mask:
    worn: Mask = (_raw(tick, "sram_threshold_exceeded") > 0) | (_raw(tick, "memory_unrepairable") > 0)
    return worn


def _pcie_narrow(tick: Deviation) -> Mask:
    """Fewer lanes than the GPU has. The generation falls when a GPU idles, the width does not."""
    narrow: Mask = _raw(tick, "pcie_width_lanes") < _raw(tick, "pcie_width_most_lanes")
    return narrow


def _counters_blind(tick: Deviation) -> Mask:
    """Busy and drawing power, yet no SM was active: the activity counters are dead, not the job (DCGM issues 202, 303:
    they read 0 after an XID 31 until the profiling module is loaded anew)."""
    drawing = _raw(tick, "power_w") > DRAWING_SHARE * _raw(tick, "power_limit_w")
    blind: Mask = (_raw(tick, "gpu_utilization_pct") >= BUSY_PCT) & (_raw(tick, "sm_active_ratio") == 0) & drawing
    return blind


READING_RULES: dict[str, ReadingRule] = {
    "thermal": ReadingRule(
        Rule("thermal", "degradation", SUSTAINED),
        "thermal_throttle",
        0.9,
        ("clocks_event_reasons", "hardware_thermal_share", "software_thermal_share"),
        _thermal,
    ),
    "gpu_margin": ReadingRule(
        Rule("gpu_margin", "degradation", SUSTAINED), "thermal_throttle", 0.9, ("thermal_margin_c",), _no_margin
    ),
    "power_brake": ReadingRule(
        Rule("power_brake", "degradation", SUSTAINED),
        "power_brake",
        0.9,
        ("clocks_event_reasons", "power_brake_share"),
        _power_brake,
    ),
    "uncorrectable": ReadingRule(
        Rule("uncorrectable", "hardware", AT_ONCE),
        "gpu_memory_error",
        0.9,
        ("ecc_dbe_count", "remapped_uncorrectable_count"),
        _uncorrectable,
    ),
    "remap_failed": ReadingRule(
        Rule("remap_failed", "hardware", TWICE), "gpu_memory_error", 0.9, ("remap_failed",), _remap_failed
    ),
    "nvlink_errors": ReadingRule(
        Rule("nvlink_errors", "hardware", REPEATED), "nvlink_fault", 0.8, ("nvlink_error_count",), _nvlink_errors
    ),
    "pcie_replays": ReadingRule(
        Rule("pcie_replays", "hardware", REPEATED), "pcie_degraded", 0.7, ("pcie_replay_count",), _pcie_replays
    ),
    "sensor": ReadingRule(Rule("sensor", "hardware", STOPPED), "sensor_fault", 0.8, SENSORS, _sensor_gone),
    "recovery": ReadingRule(
        Rule("recovery", "hardware", TWICE), "unknown", 0.5, ("recovery_action",), _recovery_wanted
    ),
    "nvlink_domain": ReadingRule(
        Rule("nvlink_domain", "hardware", TWICE), "nvlink_fault", 0.6, ("recovery_action",), _domain_broken
    ),
    "fabric": ReadingRule(Rule("fabric", "hardware", SLOWLY), "nvlink_fault", 0.8, ("fabric_fault",), _fabric_lost),
    "memory_worn": ReadingRule(
        Rule("memory_worn", "hardware", AT_ONCE_SLOWLY),
        "gpu_memory_error",
        0.9,
        ("sram_threshold_exceeded", "memory_unrepairable"),
        _memory_worn,
    ),
    "pcie_width": ReadingRule(
        Rule("pcie_width", "hardware", SLOWLY),
        "pcie_degraded",
        0.9,
        ("pcie_width_lanes", "pcie_width_most_lanes"),
        _pcie_narrow,
    ),
    "counters_blind": ReadingRule(
        Rule("counters_blind", "hardware", BLIND), "sensor_fault", 0.8, ("sm_active_ratio",), _counters_blind
    ),
}

ACTIONS = {
    RESET: "reset the GPU", REBOOT: "reboot the node", DRAIN_P2P: "take peer-to-peer traffic off the GPU",
    DRAIN_AND_RESET: "drain the GPU, then reset it", RECOVER_DOMAIN: "recover the IMEX domain",
    RESET_BUS: "reset the GPU's bus", REBOOT_SYSTEM: "reboot the system",
}  # fmt: skip
"""The driver's own verdict (NVML field 230) in words."""


_WATCHED = {
    "hardware_thermal_share": THROTTLED_SHARE,
    "software_thermal_share": THROTTLED_SHARE,
    "power_brake_share": THROTTLED_SHARE,
    "remap_failed": 0.0,
    "recovery_action": 0.0,
    "fabric_fault": 0.0,
    "sram_threshold_exceeded": 0.0,
    "memory_unrepairable": 0.0,
}
_WATCHED_AT = np.array([RAW_AT[name] for name in _WATCHED])
_WATCHED_LIMITS = np.array(list(_WATCHED.values()), dtype=np.float32)
_REASONS, _MARGIN = RAW_AT["clocks_event_reasons"], RAW_AT["thermal_margin_c"]
_WIDTH, _MOST_WIDTH = RAW_AT["pcie_width_lanes"], RAW_AT["pcie_width_most_lanes"]
_USE, _ACTIVE = RAW_AT["gpu_utilization_pct"], RAW_AT["sm_active_ratio"]
_POWER, _POWER_LIMIT = RAW_AT["power_w"], RAW_AT["power_limit_w"]


def nothing_to_see(tick: Deviation) -> bool:
    """Whether no rule can hold for any row: the usual case, told without asking each rule."""
    return not _something(tick.told)


@compiled
def _something(told: Records) -> bool:
    for r in range(len(told)):
        row, grown, absent = told[r]["raw"], told[r]["grown"], told[r]["absent"]
        for k in range(len(_WATCHED_AT)):
            if row[_WATCHED_AT[k]] > _WATCHED_LIMITS[k]:
                return True
        for k in range(len(grown)):
            if grown[k] > 0:
                return True
        for k in range(len(absent)):
            if absent[k]:
                return True
        if row[_REASONS] >= 0 and int(row[_REASONS]) & (THERMAL_BITS | POWER_BRAKE_BIT):
            return True
        if row[_WIDTH] < row[_MOST_WIDTH] or row[_MARGIN] < BEYOND_SLOWDOWN_C:
            return True
        if row[_USE] >= BUSY_PCT and row[_ACTIVE] == 0 and row[_POWER] > DRAWING_SHARE * row[_POWER_LIMIT]:
            return True
    return False


def observations(tick: Deviation, rule: ReadingRule, holds: Mask) -> list[bool | None]:
    """Per row whether the rule holds; None where nothing was read to judge it by."""
    read = ~np.isnan(tick.raw[:, [RAW_AT[name] for name in rule.columns]])
    return [bool(held) if any(row) else None for held, row in zip(holds, read, strict=True)]


def reading_verdict(tick: Deviation, rule: ReadingRule, row: int) -> Verdict:
    """The words for one row: what is read, and what the clock does meanwhile."""
    said = [
        f"{name} {int(value):#x}" if name == "clocks_event_reasons" else f"{name} {value:g}"
        for name in rule.columns
        if not np.isnan(value := float(tick.raw[row, RAW_AT[name]]))
    ]
    said += [f"no {name} any more" for name in rule.columns if tick.absent[row, RAW_AT[name]]]
    clock, centre = (float(table[row, COMPARED_AT["sm_clock_mhz"]]) for table in (tick.readings, tick.centre))
    if (action := ACTIONS.get(_action(tick, row))) is not None and "recovery_action" in rule.columns:
        said.append(f"the driver asks to {action}")
    evidence = [Evidence(text=", ".join(said), metric=rule.columns[0])]
    if action is not None and "recovery_action" in rule.columns:
        evidence.append(Evidence(text=f"The driver asks to {action}", metric=ACTION))
    if clock < centre:
        text = f"SM clock {clock:.0f} MHz, usually {centre:.0f} MHz"
        evidence.append(Evidence(text=text, metric="sm_clock_mhz", value=clock, baseline=centre, unit="MHz"))
    return Verdict(
        cause=rule.cause,
        confidence=rule.confidence,
        score=1.0,
        summary=f"{CAUSES[rule.cause].words} ({rule.rule.detector.replace('_', ' ')})",
        evidence=tuple(evidence),
    )


def _action(tick: Deviation, row: int) -> int:
    action = float(tick.raw[row, RAW_AT["recovery_action"]])
    return int(action) if action == action else 0


def _raw(tick: Deviation, name: str) -> NDArray[np.float32]:
    return tick.raw[:, RAW_AT[name]]


def _bits(tick: Deviation, bits: int) -> Mask:
    reasons = _raw(tick, "clocks_event_reasons")
    out: Mask = np.where(reasons >= 0, reasons, 0).astype(np.int64) & bits != 0
    return out


def _grown(tick: Deviation, name: str) -> Mask:
    return tick.grown[:, COUNTED.index(name)] > 0
