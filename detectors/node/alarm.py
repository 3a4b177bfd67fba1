"""When a GPU's score is an alarm, and what its deviations point to."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.condition import Float32
from detectors.episode import Persistence, Rule, Verdict
from detectors.forest.magnitude import shares
from detectors.node.deviation import Deviation
from detectors.node.gpu_columns import COMPARED, COMPARED_AT, SCORED, SCORED_AT
from detectors.node.reading_rules import READING_RULES
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence

ALARM = Rule("forest", "degradation", Persistence(k=8, n=10, clear=30))

FINDINGS = 1000.0
"""The budget: at most so many findings per 10,000 GPU-days on GPUs like those the model was calibrated on. A bound, and
far from what is seen: eight of ten ticks below the limit in health are spreads learned too small, not bad luck, and
288 simulated healthy GPUs gave none in 300 s."""

FREEZE_P = 1e-4
FREEZE_TICKS, FREEZE_MOST = 8, 12
"""Baselines stand still when the p-value was below this in eight ticks more than it was not, and until it has been
above for as long: a short burst is noise and must be learned, or the next one is strange again."""

RELEARN_TICKS = 7200
"""A GPU that is unusual for two hours without a finding (all GPUs of its job moved together) has a new usual."""

EXCESS_Z = 4.0
"""How far (root mean square of its three largest deviations) a GPU must be from its neighbours in the same job."""


def alarms(tick: Deviation, p: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """The rows that are unusual for themselves (p-value below `limit`) and among their neighbours (same job, same
    activity)."""
    rare: NDArray[np.bool_] = p < limit
    if not rare.any():
        return rare
    z = np.nan_to_num(tick.z[:, SCORED])
    excess = z.copy()
    groups: dict[tuple[str, int], list[int]] = {}
    for row, (job, state) in enumerate(zip(tick.jobs, tick.state.tolist(), strict=True)):
        if tick.here[row]:
            groups.setdefault((job, state), []).append(row)
    for (job, _), rows in groups.items():
        if job and len(rows) > 1:
            excess[rows] = _beyond(z[rows], _common(z[rows]))
    largest = -np.sort(-np.abs(excess), axis=1)[:, :3]
    out: NDArray[np.bool_] = rare & (np.sqrt(np.square(largest).mean(axis=1)) >= EXCESS_Z)
    return out


def _beyond(z: Float32, common: Float32) -> Float32:
    """What of each deviation is not shared: never more than the deviation itself, or a healthy GPU among throttled
    ones would be the odd one."""
    left = np.where(np.sign(z) == np.sign(common), np.maximum(np.abs(z) - np.abs(common), 0), np.abs(z))
    return left.astype(np.float32)


def _common(z: Float32) -> Float32:
    """What moved in most of the rows: the median; of two rows, what both share."""
    if len(z) > 2:
        return np.median(z, axis=0).astype(np.float32)
    shared: Float32 = np.where(np.sign(z[0]) == np.sign(z[1]), np.sign(z[0]) * np.abs(z).min(axis=0), np.float32(0))
    return shared


class Pointer(NamedTuple):
    """A sign of a cause in one row of deviations."""

    cause: Cause
    confidence: float
    shows: Callable[[dict[str, float]], bool]


FAR = 4.0
"""A deviation that counts as a sign."""


def _slow_clock(z: dict[str, float]) -> bool:
    return z.get("sm_clock_mhz", 0.0) < -FAR


POINTERS: tuple[Pointer, ...] = (
    Pointer("gpu_memory_error", 0.7, lambda z: z.get("ecc_dbe_count", 0.0) > 0.5),
    Pointer("nvlink_fault", 0.6, lambda z: z.get("nvlink_error_count", 0.0) > FAR),
    Pointer("pcie_degraded", 0.6, lambda z: z.get("pcie_replay_count", 0.0) > FAR),
    Pointer(
        "thermal_throttle",
        0.7,
        lambda z: max(z.get("hardware_thermal_share", 0.0), z.get("software_thermal_share", 0.0)) > FAR,
    ),
    Pointer("power_brake", 0.7, lambda z: z.get("power_brake_share", 0.0) > FAR),
    Pointer("thermal_throttle", 0.5, lambda z: _slow_clock(z) and z.get("temperature_c", 0.0) > FAR),
)
"""In this order: an error counter says more than a clock. Without any sign the cause stays unknown."""


def alarm_verdict(tick: Deviation, row: int, p: float, score: float) -> Verdict:
    """The words for a row in alarm: its largest deviations, and the cause where they show one."""
    z = {name: float(tick.z[row, i]) for name, i in COMPARED_AT.items() if not np.isnan(tick.z[row, i])}
    cause, confidence = _cause(tick, row, z)
    size = np.where(SCORED, np.abs(np.nan_to_num(tick.z[row])), 0)
    part = np.zeros(len(COMPARED), dtype=np.float32)
    part[SCORED_AT] = shares(tick.z[row : row + 1, SCORED_AT], tick.residual[row : row + 1])[0]
    most = [int(i) for i in np.argsort(-part, kind="stable")[:3] if size[i] > 2]
    evidence = tuple(_evidence(tick, row, i, float(part[i])) for i in most)
    return Verdict(
        cause=cause,
        confidence=confidence,
        score=score,
        summary=f"GPU differs from its own past and its neighbours (p {p:.1g}): {CAUSES[cause].words}",
        evidence=evidence,
    )


def _cause(tick: Deviation, row: int, z: dict[str, float]) -> tuple[Cause, float]:
    for name in ("thermal", "power_brake"):
        rule = READING_RULES[name]
        if _slow_clock(z) and bool(rule.holds(tick)[row]):
            return rule.cause, 0.8
    return next(((sign.cause, sign.confidence) for sign in POINTERS if sign.shows(z)), ("unknown", 0.3))


def _evidence(tick: Deviation, row: int, column: int, share: float) -> Evidence:
    name = COMPARED[column]
    value, centre, z = (float(table[row, column]) for table in (tick.readings, tick.centre, tick.z))
    text = f"{name} {value:.4g}, usually {centre:.4g} ({z:+.1f} spreads, {share:.0%} of the score)"
    return Evidence(text=text, metric=name, value=value, baseline=centre)
