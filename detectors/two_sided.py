"""The two-sided score of a training step: own time up against its own past, and the peers waiting for it.

Own time is step - compute - comm - wait (data loading in it); blocked time is the rest, the waiting in collectives in
it. With both taken against each rank's own past,

    score = min(own - median of all own, median of all blocked - blocked)

is what the job loses to that rank in that step: the median takes the motion common to all out of the first side, and
the second side is zero unless the others are held up while this rank is not. A rank's own step or compute time never
enters. Wrong where more than half of the ranks are slow at once (`detectors.shift` judges these), and where a table
has none of the columns: own time is then unknown and nobody is named.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.groups import Floats
from schemas.step import RankStep


class StepTable(NamedTuple):
    """One step as arrays over ranks, microseconds, NaN for a rank or time that is not there."""

    step: Floats
    data: Floats
    own: Floats
    blocked: Floats
    allocator: Floats
    work: Floats
    score: Floats
    """The two-sided score of this step alone; NaN while there is no past."""

    @property
    def floor_us(self) -> float:
        """The shortest blocked time: that of the last to arrive, who waits for nobody. It is the step's compute and
        communication without any waiting, as the shortest time of a collective is its transfer."""
        return float(np.nanmin(self.blocked)) if not np.isnan(self.blocked).all() else float("nan")

    @property
    def step_us(self) -> float:
        """The job's step time, the median over its ranks."""
        return float(np.nanmedian(self.step))


def step_table(rows: Mapping[int, RankStep], size: int) -> StepTable:
    """The rows of one step. Without compute, communication and waiting times own time is the data time alone."""
    table = np.full((8, size), np.nan)
    ranks = np.fromiter(rows, np.intp, len(rows))
    table[:, ranks] = np.array(
        [
            (r.step_us, r.data_us, r.compute_us, r.comm_us, r.wait_us, r.allocator_stall_us, r.work, r.shape)
            for r in rows.values()
        ]
    ).T
    step, data, parts = table[0], table[1], table[2:5]
    known = ~np.isnan(parts).all(axis=0)
    own = np.where(known, np.maximum(step - np.nansum(parts, axis=0), 0.0), data)
    work = np.where(np.isnan(table[6]), table[7], table[6])
    return StepTable(step, data, own, step - own, table[5], work, np.full(size, np.nan))


def two_sided(now: StepTable, own_past: Floats, blocked_past: Floats) -> Floats:
    """The score of each rank, given what is usual for each."""
    own = now.own - own_past
    blocked = now.blocked - blocked_past
    if np.isnan(own).all():
        return own
    return np.fmin(own - np.nanmedian(own), np.nanmedian(blocked) - blocked)


def lone(score: Floats, times: float) -> NDArray[np.bool_]:
    """The one rank whose score is at least `times` anybody else's; nobody where there is none."""
    out = np.zeros(len(score), np.bool_)
    known = np.nan_to_num(score, nan=-np.inf)
    first = int(np.argmax(known))
    if known[first] > 0:
        out[first] = bool((np.delete(known, first) <= known[first] / times).all())
    return out


def wide(values: Floats, size: int) -> Floats:
    """The values of the ranks known before, NaN for those that came later."""
    return np.concatenate([values, np.full(size - len(values), np.nan)]) if len(values) < size else values
