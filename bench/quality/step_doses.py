"""How small a slowdown is still found: the excess of real loud faults scaled down (semi-synthetic).

In each step of the fault the culprit's own time above its usual one is multiplied by `scale`. What that gives back is
first the time by which it was later than the next late rank: the step, and everybody's waiting, become shorter by it;
the rest the culprit now waits itself. A fault of the work (a longer sequence) is scaled in the step of all ranks and in
the shape. Noise, spikes, ramps and the moment of the bite stay those of the real run.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bench.quality.step_runs import StepRun
from bench.quality.step_score import Word, outcome

SCALES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015)


class Dose(NamedTuple):
    """One class at one scale: the median slowdown of the injected steps, and what became of its runs."""

    cause: str
    case: str
    mode: str
    scale: float
    slowdown: float
    runs: int
    right: int
    wrong: int
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


def curve(runs: Sequence[StepRun], say: Callable[[StepRun], list[Word]]) -> list[Dose]:
    """All classes of rank scope at all scales, largest first."""
    cases: dict[tuple[str, str, str], list[StepRun]] = {}
    for run in runs:
        if run.label.scope == "rank":
            cases.setdefault((run.label.cause, run.label.case, run.label.mode), []).append(run)
    doses = []
    for (cause, case, mode), members in cases.items():
        for scale in SCALES:
            smaller = [_shorter(scaled(run, scale)) for run in members]
            found = [outcome(run.label, say(run)) for run in smaller]
            delays = [o.delay for o in found if o.verdict == "right" and o.delay is not None]
            doses.append(
                Dose(
                    cause,
                    case,
                    mode,
                    scale,
                    statistics.median(_slowdown(run) for run in smaller),
                    len(found),
                    sum(o.verdict == "right" for o in found),
                    sum(o.verdict == "wrong" for o in found),
                    statistics.median(delays) if delays else None,
                )
            )
    return doses


def smallest(doses: Sequence[Dose]) -> dict[str, float | None]:
    """Case -> the smallest slowdown at which every run was right, as were all larger ones."""
    out: dict[str, float | None] = {}
    stopped: set[str] = set()
    for dose in doses:
        key = f"{dose.cause} ({dose.case})"
        out.setdefault(key, None)
        if dose.right < dose.runs:
            stopped.add(key)
        elif key not in stopped:
            out[key] = round(dose.slowdown, 4)
    return out


def _slowdown(run: StepRun) -> float:
    """How much slower the injected steps are than the steps before, by their means without the largest 5 %: medians
    would not see rare stalls, and a pause between steps belongs to no fault."""
    first, last = run.label.first, run.label.last
    step = run.step
    return _mean(step[first:last]) / _mean(step[20:first]) - 1


def _mean(values: "np.typing.NDArray[np.float64]") -> float:
    kept = np.sort(values)[: max(int(0.95 * len(values)), 1)]
    return float(kept.mean())


def _shorter(run: StepRun) -> StepRun:
    """Without the steps after the fault, which say nothing about finding it."""
    return StepRun(run.label, {name: column[: run.label.last] for name, column in run.columns.items()})
