"""How small a slowdown is still found, semi-synthetic: real loud faults scaled down, and a delay put into clean runs.

*Scaled*: in each step of the fault the culprit's own time above its usual one is multiplied by `scale`. What that gives
back is first the time by which it was later than the next late rank: the step, and everybody's waiting, become shorter
by it; the rest the culprit now waits itself. A fault of the work (a longer sequence) is scaled in the step of all ranks
and in the shape. Noise, spikes, ramps and the moment of the bite stay those of the real run, and so does that a real
fault hides the unrest of a noisy host behind it.

*Added*: from step 100 on one rank of a real clean run takes a part of the usual step longer by itself. It first uses up
the time that it would have waited for the last one; what is left makes the step, and everybody's waiting, longer.

The slowdown is that of the injected steps against the same steps without the fault.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bench.quality.step_runs import StepRun
from bench.quality.step_score import Word, outcome

SCALES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)

DELAYS = (0.4, 0.2, 0.1, 0.07, 0.05, 0.035, 0.025, 0.015)
"""Parts of the usual step by which a rank of a clean run is late."""

FIRST, LAST, RANK = 100, 220, 7


class Dose(NamedTuple):
    """One class at one scale: the median slowdown of the injected steps, runs, those found right, those in which
    somebody else was blamed too, the median delay in steps."""

    cause: str
    case: str
    mode: str
    scale: float
    slowdown: float
    runs: int
    right: int
    blamed: int
    delay: float | None


def scaled(run: StepRun, scale: float) -> StepRun:
    """The run with its rank-scope fault scaled; raises ValueError for a run without one."""
    label = run.label
    if label.rank is None or label.first is None or label.last is None:
        raise ValueError(f"run {label.run} has no culprit rank")
    c = {name: column.copy() for name, column in run.columns.items()}
    on, rank = slice(label.first, label.last), label.rank
    own = run.own
    usual = np.nanmedian(own[: label.first], axis=0)
    excess = own[on] - usual
    shape = c["shape_seq"]
    if np.nanmax(shape[on, rank]) > np.nanmax(shape[: label.first, rank]):
        usual_shape = np.nanmedian(shape[: label.first, rank])
        shape[on, rank] = usual_shape + scale * (shape[on, rank] - usual_shape)
        rise = np.maximum(run.step[on] - np.nanmedian(run.step[: label.first]), 0.0) * (1 - scale)
        c["step_us"][on] -= rise[:, None]
        c["compute_us"][on] -= rise[:, None]
        return StepRun(label, c)
    less = (1 - scale) * np.maximum(excess[:, rank], 0.0)
    next_late = np.nanmax(np.delete(excess, rank, axis=1), axis=1)
    sooner = np.clip(excess[:, rank] - np.maximum(next_late, 0.0), 0.0, less)
    c["step_us"][on] -= sooner[:, None]
    c["compute_us"][on] -= sooner[:, None]
    c["compute_us"][on, rank] += less
    data = c["data_us"]
    data_excess = np.maximum(data[on, rank] - np.nanmedian(data[: label.first, rank]), 0.0)
    data[on, rank] -= np.minimum((1 - scale) * data_excess, less)
    c["frag_stall_us"][on, rank] *= scale
    return StepRun(label, c)


def added(run: StepRun, part: float) -> StepRun:
    """A clean run in which one rank is slower by a part of the usual step in each step of the fault."""
    c = {name: column.copy() for name, column in run.columns.items()}
    on = slice(FIRST, LAST)
    delay = part * float(np.nanmedian(run.step[:FIRST]))
    own = run.own[on]
    # What it has to spare: the blocked time of the last one is the step without any waiting.
    blocked = c["step_us"][on] - own
    spare = np.maximum(blocked[:, RANK] - np.nanmin(blocked, axis=1), 0.0)
    longer = np.maximum(delay - spare, 0.0)
    c["step_us"][on] += longer[:, None]
    c["compute_us"][on] += longer[:, None]
    c["compute_us"][on, RANK] -= delay
    label = run.label._replace(scope="rank", rank=RANK, cause="added", first=FIRST, last=LAST)
    return StepRun(label, c)


def curve(runs: Sequence[StepRun], say: Callable[[StepRun], list[Word]]) -> list[Dose]:
    """All classes of rank scope scaled, and the clean runs with a delay, largest first."""
    cases: dict[tuple[str, str, str], list[StepRun]] = {}
    clean: dict[str, list[StepRun]] = {}
    for run in runs:
        if run.label.scope == "rank":
            cases.setdefault((run.label.cause, run.label.case, run.label.mode), []).append(run)
        elif run.label.scope == "none":
            clean.setdefault(run.label.mode, []).append(run)
    doses = []
    for (cause, case, mode), members in cases.items():
        for scale in SCALES:
            pairs = [(scaled(run, scale), scaled(run, 0.0)) for run in members]
            doses.append(_dose(cause, case, mode, scale, pairs, say))
    for mode, members in clean.items():
        for part in DELAYS:
            doses.append(_dose("added", "clean runs", mode, part, [(added(r, part), r) for r in members], say))
    return doses


def _dose(
    cause: str,
    case: str,
    mode: str,
    scale: float,
    pairs: Sequence[tuple[StepRun, StepRun]],
    say: Callable[[StepRun], list[Word]],
) -> Dose:
    found = [outcome(run.label, say(_shorter(run))) for run, _ in pairs]
    delays = [o.delay for o in found if o.verdict == "right" and o.delay is not None]
    return Dose(
        cause,
        case,
        mode,
        scale,
        statistics.median(_slowdown(run, without) for run, without in pairs),
        len(found),
        sum(o.verdict == "right" for o in found),
        sum(o.blamed > 0 for o in found),
        statistics.median(delays) if delays else None,
    )


def smallest(doses: Sequence[Dose]) -> dict[str, float | None]:
    """Case -> the smallest slowdown at which every run was right, as were all larger ones."""
    out: dict[str, float | None] = {}
    stopped: set[str] = set()
    for dose in doses:
        key = f"{dose.cause} ({dose.case}, {dose.mode})"
        out.setdefault(key, None)
        if dose.right < dose.runs:
            stopped.add(key)
        elif key not in stopped:
            out[key] = round(dose.slowdown, 4)
    return out


def _slowdown(run: StepRun, without: StepRun) -> float:
    """How much longer the injected steps take, all together."""
    on = slice(run.label.first, run.label.last)
    return float(np.nansum(run.step[on]) / np.nansum(without.step[on]) - 1)


def _shorter(run: StepRun) -> StepRun:
    """Without the steps after the fault, which say nothing about finding it."""
    return StepRun(run.label, {name: column[: run.label.last] for name, column in run.columns.items()})
