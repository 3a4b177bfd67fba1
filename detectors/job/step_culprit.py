"""What the recent steps say of one rank that is blamed, in numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from detectors.job.groups import Floats
from detectors.job.two_sided import StepTable, median

SPORADIC = 0.35
"""Where the median step shows less than this part of the mean excess, few steps hold most of it."""


class StepCulprit(NamedTuple):
    """One rank that its peers wait for; times in microseconds, means over its recent steps."""

    rank: int
    excess_us: float
    typical_us: float
    self_us: float
    self_past_us: float
    peers_wait_us: float
    step_us: float
    step_past_us: float
    data_share: float
    allocator_share: float
    onset_ms: int
    onset_step: int

    @property
    def sporadic(self) -> bool:
        """Whether most of the excess sits in few steps."""
        return self.typical_us < SPORADIC * self.excess_us


class HeavyRank(NamedTuple):
    """One rank whose work rose while the whole job became slower."""

    rank: int
    work: float
    work_past: float
    step_us: float
    step_past_us: float
    onset_ms: int
    onset_step: int


def describe(
    rank: int,
    rows: Sequence[StepTable],
    own_past_us: float,
    blocked_past: Floats,
    step_past_us: float,
    onset: tuple[int, int],
) -> StepCulprit:
    """One rank over `rows`, the steps in which it was late; `onset` is (time, step)."""
    score = np.maximum(np.nan_to_num([row.score[rank] for row in rows if len(row.score) > rank]), 0.0)
    own = _mean([row.own[rank] for row in rows if len(row.own) > rank])
    data = _mean([row.data[rank] for row in rows if len(row.data) > rank])
    allocator = _mean([row.allocator[rank] for row in rows if len(row.allocator) > rank])
    rise = max(own - own_past_us, 1e-9)
    data_past = min(median(row.data) for row in rows)
    blocked = float(np.median([median(row.blocked) for row in rows]))
    steps = [row.step_us for row in rows]
    found = StepCulprit(
        rank=rank,
        excess_us=float(np.mean(score)),
        typical_us=float(np.median(score)),
        self_us=own,
        self_past_us=own_past_us,
        peers_wait_us=blocked - median(blocked_past),
        step_us=float(np.median(steps)),
        step_past_us=step_past_us,
        data_share=min(max(data - data_past, 0.0) / rise, 1.0),
        allocator_share=min(max(allocator, 0.0) / rise, 1.0),
        onset_ms=onset[0],
        onset_step=onset[1],
    )
    # The usual step does not show what a few long ones cost.
    return found._replace(step_us=float(np.mean(steps))) if found.sporadic else found


def _mean(values: Sequence[float]) -> float:
    heard = [value for value in values if value == value]
    return float(np.mean(heard)) if heard else 0.0
