"""How evenly a pipeline's work is spread: over microbatches (their sequences), over stages, over time.

Each is weighed by replaying the step as if it were even (`pipeline_replay`), after slow workers were put right, so
that only the work is left.
"""

from typing import NamedTuple

import numpy as np

from detectors.pipeline.grid import Grid
from detectors.pipeline.replay import Floats

STRAGGLES = 1.1
"""Uneven work is told where it makes the step 10 % longer: the published line at which a job counts as straggling."""

COHERENT = 0.7
"""Times vary with the data where half of their variance (r = 0.7) is shared by forward and backward, or by neighbouring
stages, of a microbatch; what they do not share is no property of the data."""

MOST = 0.75
"""A stage is heavier than the others where it is so in three quarters of the replicas."""


class Work(NamedTuple):
    """One step: how many times longer it is than with equal microbatches (`by_microbatch`), with equal stages
    (`by_stage`), with equal stages if the microbatches were equal already (`by_stage_alone`); how much of the
    microbatches' variation is shared (`coherence`); the heaviest stage, how many times the others' mean its work is
    (`weight`), in which part of the replicas it is the heaviest (`agree`), whether it is the last one; and the part
    of the step that the worst worker pauses for garbage collection (`pauses`)."""

    by_microbatch: float
    by_stage: float
    by_stage_alone: float
    coherence: float
    stage: int
    weight: float
    agree: float
    last: bool
    pauses: float

    @property
    def sequences(self) -> bool:
        return self.by_microbatch > STRAGGLES and self.coherence >= COHERENT and not self._stage_first

    @property
    def stages(self) -> bool:
        return self.by_stage > STRAGGLES and self.agree >= MOST and (self._stage_first or not self.sequences)

    @property
    def collects(self) -> bool:
        return self.pauses > STRAGGLES - 1

    @property
    def stalls(self) -> bool:
        return self.by_microbatch > STRAGGLES and self.coherence < COHERENT

    @property
    def _stage_first(self) -> bool:
        """Whether equal stages would gain more than equal microbatches: of the two only one is the verdict."""
        return self.by_stage > STRAGGLES and self.agree >= MOST and self.by_stage > self.by_microbatch


def weigh(even: Grid) -> Work:
    """The work of one step whose slow workers were put right."""
    took = even.durations
    there = ~np.isnan(took)
    mean = _mean(took, (0, 3))
    over_stages = mean.mean(axis=1, keepdims=True)
    equal = np.where(there, mean, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_stages = took * (over_stages / mean)
    usual, equal_time = even.time(took), even.time(equal)
    load = _mean(took, 3).sum(axis=(2, 3))
    heaviest, agree, weight = _heaviest(load)
    return Work(
        by_microbatch=ratio(usual, equal_time),
        by_stage=ratio(usual, even.time(by_stages)),
        by_stage_alone=ratio(equal_time, even.time(np.where(there, over_stages, np.nan))),
        coherence=coherence(took),
        stage=even.stages[heaviest],
        weight=weight,
        agree=agree,
        last=heaviest == len(even.stages) - 1,
        pauses=float(even.garbage.max()) / usual if usual > 0 else 0.0,
    )


def ratio(time: float, without: float) -> float:
    """How much longer; 1 for a step that takes no time at all, of which nothing can be said."""
    return time / without if without > 0 else 1.0


def coherence(durations: Floats) -> float:
    """How much of the variation of microbatches their neighbours share: the larger of the correlations of forward with
    backward, and of a stage with the next one, over all microbatches and replicas; 0 where there are too few.

    `durations` as in `pipeline_replay.pipeline_time`.
    """
    with np.errstate(divide="ignore"):
        level = np.log(durations)
    level[~np.isfinite(level)] = np.nan
    level = level - _mean(level, (0, 3))
    pairs = [(level[:, :, 0], level[:, :, 1])]
    if level.shape[1] > 1:
        pairs.append((level[:, :-1], level[:, 1:]))
    return max(_correlation(a.ravel(), b.ravel()) for a, b in pairs)


def _mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """The mean of what is there, 0 where nothing is; the axes stay."""
    count = np.count_nonzero(~np.isnan(values), axis=axis, keepdims=True)
    out: Floats = np.nansum(values, axis=axis, keepdims=True) / np.maximum(count, 1)
    return out


def _correlation(a: Floats, b: Floats) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 8 or a[both].std() == 0 or b[both].std() == 0:
        return 0.0
    return float(np.corrcoef(a[both], b[both])[0, 1])


def _heaviest(load: Floats) -> tuple[int, float, float]:
    """Of the work [replica, stage]: the heaviest stage, in which part of the replicas it is, and how many times the
    others' mean it has. A single stage is not heavier than anything."""
    if load.shape[1] < 2:
        return 0, 0.0, 1.0
    whole = load[(load > 0).all(axis=1)]
    mean = whole.mean(axis=0) if len(whole) else load.sum(axis=0)
    heaviest = int(mean.argmax())
    agree = float((whole.argmax(axis=1) == heaviest).mean()) if len(whole) else 0.0
    return heaviest, agree, ratio(float(mean[heaviest]), float(np.delete(mean, heaviest).mean()))
