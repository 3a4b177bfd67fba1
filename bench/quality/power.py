"""Power of the nodes of a healthy fleet (512 H100, MLPerf): false alarms at a budget, and what would be found.

Readings every 2 s meet a training step of 10.6 s at any phase, so a node's power is compared with the median of all
nodes over three, ten and thirty steps before its own past is asked. The first long run gives the limits for the budget
(extreme-value tail), the others are judged with them; a run shorter than its warm-up cannot be judged. On the second
long run drops and steps are put onto each node by itself (semi-synthetic: real background, invented fault). What the
product itself says of the same nodes stands beside it (`host_power`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.quality import host_power
from detectors.forest.calibration import Shares, calibrate
from detectors.node.baseline import Baseline
from detectors.node.budget import PER_DAYS, alarm_p, events_at_most

Floats = NDArray[np.float64]

FOLDER = "traces/mlperf_power"
NEEDS = "step_times.csv.gz"

INTERVAL_S = 2.0
STEP_S = 10.64
WINDOWS = tuple(round(steps * STEP_S / INTERVAL_S) for steps in (3, 10, 30))
"""In ticks. They share the budget."""

WARM_UP = 300
"""Ticks before anything is judged: ten minutes."""

BUDGET = 1000.0
"""Findings per 10,000 node-days: one node in ten days."""

NEEDED, OF = 8, 10
"""A finding takes eight ticks of ten beyond the limit."""

FLOOR = 0.002
"""Of the fleet's power: 14 W, the step between two readings of a node."""

SIZES = (0.02, 0.05, 0.10, 0.20)
DROP_S = 60.0
CLEAR = 30
"""Ticks within the limit that end an alarm."""


def run(folder: Path) -> dict[str, Any]:
    """All `*.parquet` of the folder (`time_ms`, `node`, `power_w`)."""
    paths = sorted(folder.glob("*.parquet"))
    runs = {path.stem: relative(path) for path in paths}
    long = [name for name, power in runs.items() if len(power) > 2 * WARM_UP]
    answer: dict[str, Any] = {"budget_per_10000_node_days": BUDGET, "too_short": len(runs) - len(long)}
    answer["host_watch"] = host_power.run(paths, BUDGET, INTERVAL_S, WARM_UP)
    if len(long) < 2:
        return answer | {"left_out": f"{len(long)} runs longer than {2 * WARM_UP * INTERVAL_S:.0f} s; two are needed"}
    limits = [limit_of(runs[long[0]], window) for window in WINDOWS]
    answer |= {"limit_from": long[0], "limit_spreads": limits, "healthy": [], "injected": []}
    for name in long[1:]:
        alarms = judged(runs[name], limits)
        alarms[:WARM_UP] = False
        opened = (alarms[1:] & ~alarms[:-1]).sum(axis=0)
        days = int((len(alarms) - WARM_UP) * alarms.shape[1]) * INTERVAL_S / 86_400
        found = int(opened.sum())
        answer["healthy"].append(
            {
                "run": name,
                "nodes": int(alarms.shape[1]),
                "node_days": days,
                "findings": found,
                "per_node_day": found / days,
                "per_node_day_at_most_95pct": events_at_most(found) / days,
                "budget_per_node_day": BUDGET / PER_DAYS,
                "largest_static_offset": float(np.nanmax(np.abs(np.nanmedian(runs[name], axis=0)))),
            }
        )
    for kind, ticks in (("drop of a minute", int(DROP_S / INTERVAL_S)), ("step", None)):
        answer["injected"] += [injected(runs[long[1]], limits, kind, ticks, size) for size in SIZES]
    return answer


main = run


def relative(path: Path) -> Floats:
    """Power of each node over the fleet's median, less one: (ticks, nodes); NaN where there was no reading."""
    table = pq.read_table(path)
    time_ms, node, power = (table[name].to_numpy() for name in ("time_ms", "node", "power_w"))
    nodes, column = np.unique(node, return_inverse=True)
    tick = ((time_ms - time_ms.min()) / (1000 * INTERVAL_S)).astype(int)
    out = np.full((int(tick.max()) + 1, len(nodes)), np.nan)
    out[tick, column] = power
    here = ~np.isnan(out).all(axis=1)
    out[here] /= np.nanmedian(out[here], axis=1, keepdims=True)
    return out - 1


def limit_of(power: Floats, window: int) -> float:
    """The size of deviations over `window` ticks that keeps the budget on a healthy fleet like this one."""
    size = np.abs(deviations(power, window)[WARM_UP:]).ravel()
    p = alarm_p(BUDGET / len(WINDOWS), NEEDED, INTERVAL_S)
    return Shares(calibrate(size[~np.isnan(size)])).at(p)


def judged(power: Floats, limits: Sequence[float]) -> NDArray[np.bool_]:
    """Which nodes are in alarm, (ticks, nodes), by either window."""
    each = [alarmed(np.abs(deviations(power, w)) > limit) for w, limit in zip(WINDOWS, limits, strict=True)]
    out: NDArray[np.bool_] = np.any(each, axis=0)
    return out


def deviations(power: Floats, window: int) -> Floats:
    """Robust z of each node's relative power, averaged over `window` ticks, against its own past: (ticks, nodes)."""
    averaged = _averages(power, window)
    baseline = Baseline(("relative",), power.shape[1], floor=FLOOR)
    state = np.zeros(power.shape[1], dtype=np.intp)
    usual = np.ones(power.shape[1], dtype=bool)
    out = np.empty_like(power)
    for tick, values in enumerate(averaged.astype(np.float32)):
        out[tick] = baseline.compare(values[:, None], state)[0][:, 0]
        baseline.learn(values[:, None], state, usual)
    return out


def _averages(power: Floats, window: int) -> Floats:
    """The mean of the last `window` readings; NaN with fewer than half of them."""
    total = np.cumsum(np.nan_to_num(np.concatenate([np.zeros((1, power.shape[1])), power])), axis=0)
    count = np.cumsum(np.concatenate([np.zeros((1, power.shape[1])), ~np.isnan(power)]), axis=0)
    at = np.arange(1, len(power) + 1)
    before = np.maximum(at - window, 0)
    many = count[at] - count[before]
    out: Floats = np.where(many >= window / 2, (total[at] - total[before]) / np.maximum(many, 1), np.nan)
    return out


def alarmed(beyond: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """From "beyond the limit" to "in alarm": opens at eight of ten ticks, closes after a minute within the limit."""
    out = np.zeros_like(beyond)
    recent = np.cumsum(np.concatenate([np.zeros((1, beyond.shape[1]), dtype=int), beyond]), axis=0)
    quiet = np.zeros(beyond.shape[1], dtype=int)
    open_ = np.zeros(beyond.shape[1], dtype=bool)
    for tick, now in enumerate(beyond):
        quiet = np.where(now, 0, quiet + 1)
        open_ = (open_ & (quiet < CLEAR)) | (recent[tick + 1] - recent[max(tick + 1 - OF, 0)] >= NEEDED)
        out[tick] = open_
    return out


def injected(power: Floats, limits: Sequence[float], kind: str, ticks: int | None, size: float) -> dict[str, Any]:
    """Each node by itself loses `size` of its power in the middle of the run; the fleet's median stays what it was."""
    start = len(power) // 2
    end = len(power) if ticks is None else start + ticks
    changed = power.copy()
    changed[start:end] = (1 + changed[start:end]) * (1 - size) - 1
    alarms = judged(changed, limits)[start : end + WINDOWS[0]]
    found = alarms.any(axis=0)
    delay = alarms.argmax(axis=0)[found] * INTERVAL_S
    return {
        "kind": kind,
        "size": size,
        "nodes": int(power.shape[1]),
        "found": int(found.sum()),
        "median_delay_s": float(np.median(delay)) if len(delay) else None,
    }


def text(answer: dict[str, Any]) -> str:
    """As lines."""
    if "left_out" in answer:
        return f"{answer['left_out']}\n{host_power.text(answer['host_watch'])}"
    lines = [
        f"limits {', '.join(f'{limit:.1f}' for limit in answer['limit_spreads'])} spreads from {answer['limit_from']} "
        f"for {BUDGET:.0f} findings per 10,000 node-days; {answer['too_short']} runs are too short to be judged"
    ]
    lines += [
        f"healthy {h['run']}: {h['findings']} findings in {h['node_days']:.2f} node-days of {h['nodes']} nodes "
        f"(at most {h['per_node_day_at_most_95pct']:.2f} per node-day with 95 % confidence); "
        f"largest static offset {h['largest_static_offset']:.1%}"
        for h in answer["healthy"]
    ]
    lines += [
        f"{i['kind']} of {i['size']:.0%}: {i['found']} of {i['nodes']} nodes, median delay {i['median_delay_s']} s"
        for i in answer["injected"]
    ]
    return "\n".join([*lines, host_power.text(answer["host_watch"])])
