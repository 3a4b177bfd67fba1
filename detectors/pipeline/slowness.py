"""Which workers of a pipeline take longer than their peers of the same stage, beyond the noise.

A worker's level is the lower quartile of its microbatches, forward and backward together: long sequences make single
microbatches long, a bad worker is slow in all of them. Besides, the stages of a replica work on the same microbatches
one after another: compared microbatch by microbatch with the other stages, the data falls out.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.past import MAD_TO_SIGMA
from detectors.pipeline.grid import Grid
from detectors.pipeline.replay import Floats

RISE = 0.05
"""A worker counts as slow from 5 % over its peers: nodes of a healthy fleet differ by 2 % for good (64 nodes of 8 GPUs,
MLPerf), and published tools cut at 4 to 10 %."""

Z = 5.0
"""... and from 5 spreads of such differences: between workers, and from step to step."""

REMEMBERED = 16
"""Steps from which the spread between steps is taken."""

FEWEST_STEPS, FEWEST_WORKERS = 4, 6
"""From fewer there is no spread between steps, or between workers."""

ALONE_READY, ALONE_MEMORY = 8, 32
"""A job of one replica has no peers: its own past is the reference, from 8 steps on, the median of up to 32."""


class Slowness(NamedTuple):
    """How much longer than its peers each worker takes, as logarithms [replica, stage], NaN where it cannot be told;
    `shared` [replica] is what all stages of a replica have in common. `late` and `heavy` are beyond the noise."""

    alone: Floats
    shared: Floats
    late: NDArray[np.bool_]
    heavy: NDArray[np.bool_]

    def factor(self) -> Floats:
        """By what each worker's times exceed what they should be [replica, stage]; 1 for those not slow."""
        extra = np.where(self.late, self.alone, 0.0) + np.where(self.heavy, self.shared, 0.0)[:, None]
        return np.asarray(np.exp(extra))


class Peers:
    """The comparison, with the memory that its noise needs."""

    def __init__(self) -> None:
        self._workers, self._replicas = _Noise(), _Noise()
        self._stages: dict[int, deque[float]] = {}

    def compare(self, cells: Grid) -> Slowness:
        """Judge one step against the steps before and the workers beside."""
        with np.errstate(divide="ignore"):
            level = np.log(_level(typical(cells.durations)))
        level[~np.isfinite(level)] = np.nan
        single = len(cells.dps) == 1
        over = level - (self._usual(cells)[None, :] if single else lower_median(level, 0)[None, :])
        alone, shared = over, np.full(len(cells.dps), np.nan)
        if len(cells.stages) > 1:
            alone = self._apart(cells) if not single else over - np.maximum(_beside(over), 0.0)
            # A single replica has nobody to compare the whole with.
            shared = np.full(1, np.nan) if single else over.min(axis=1)
        who = [(dp, stage) for dp in cells.dps for stage in cells.stages]
        noise = self._workers.update(who, alone.ravel()).reshape(alone.shape)
        late = (alone > np.maximum(np.log1p(RISE), Z * noise)) & (over > np.log1p(RISE))
        heavy = shared > np.maximum(np.log1p(RISE), Z * self._replicas.update(cells.dps, shared))
        if single:
            self._learn(cells, level[0], late[0])
        return Slowness(alone, shared, late, heavy)

    @staticmethod
    def _apart(cells: Grid) -> Floats:
        """How much longer than the stages beside it, on the same microbatches, against how that is in the other
        replicas [replica, stage]."""
        usual = lower_median(typical(cells.durations), 0)
        with np.errstate(divide="ignore"):
            level = np.log(cells.durations / usual[None, :, :, None])
        level[~np.isfinite(level)] = np.nan
        apart = np.exp(lower_median(level - _beside(level), 3))
        # Forward and backward count by their part of the stage's time.
        part = np.nan_to_num(usual) / np.maximum(np.nansum(usual, axis=1, keepdims=True), 1e-300)
        with np.errstate(divide="ignore"):
            both = np.log(np.where(part > 0, apart * part, 0.0).sum(axis=2))
        apart_from_stage: Floats = both - lower_median(both, 0)[None, :]
        return apart_from_stage

    def _usual(self, cells: Grid) -> Floats:
        pasts = [self._stages.get(stage, ()) for stage in cells.stages]
        return np.array([np.median(past) if len(past) >= ALONE_READY else np.nan for past in pasts])

    def _learn(self, cells: Grid, level: Floats, late: NDArray[np.bool_]) -> None:
        for stage, value, is_late in zip(cells.stages, level.tolist(), late.tolist(), strict=True):
            if value == value and not is_late:
                self._stages.setdefault(stage, deque(maxlen=ALONE_MEMORY)).append(value)


class _Noise:
    """How far values that mean nothing lie apart, as a standard deviation: for each series the largest of its own
    spread from step to step, the usual such spread, and the spread over the series in this step."""

    def __init__(self) -> None:
        self._who: list[Hashable] = []
        self._rows: deque[Floats] = deque(maxlen=REMEMBERED)

    def update(self, who: Sequence[Hashable], values: Floats) -> Floats:
        if list(who) != self._who:
            at = {name: i for i, name in enumerate(self._who)}
            known = [[row[at[w]] if w in at else np.nan for w in who] for row in self._rows]
            self._rows = deque((np.array(row) for row in known), maxlen=REMEMBERED)
            self._who = list(who)
        self._rows.append(values)
        rows = np.array(self._rows)
        noise = np.full(len(values), np.nan)
        moves = np.abs(np.diff(rows, axis=0))
        enough = np.count_nonzero(~np.isnan(moves), axis=0) >= FEWEST_STEPS - 1
        if enough.any():
            # A value that changes from step to step by d has a spread of d / sqrt(2) itself.
            noise[enough] = MAD_TO_SIGMA * np.nanmedian(moves[:, enough], axis=0) / np.sqrt(2.0)
            noise = np.fmax(noise, np.nanmedian(noise))
        heard = values[~np.isnan(values)]
        if len(heard) >= FEWEST_WORKERS:
            noise = np.fmax(noise, MAD_TO_SIGMA * np.median(np.abs(heard - np.median(heard))))
        return noise


def _beside(level: Floats) -> Floats:
    """For each stage (axis 1) the lower median of the others."""
    return np.stack([lower_median(np.delete(level, s, 1), 1) for s in range(level.shape[1])], axis=1)


def _level(times: Floats) -> Floats:
    """Forward and backward together [replica, stage], NaN where a worker lacks what its stage has."""
    has = ~np.isnan(times).all(axis=0)
    total: Floats = np.where(has, times, 0.0).sum(axis=2)
    return total


def typical(durations: Floats) -> Floats:
    """The lower quartile of each worker's microbatches [replica, stage, 2], NaN where there are none."""
    ordered = np.sort(durations, axis=3)
    count = np.count_nonzero(~np.isnan(ordered), axis=3)
    at = np.maximum(count - 1, 0) // 4
    out: Floats = np.take_along_axis(ordered, at[..., None], axis=3)[..., 0]
    return out


def lower_median(values: Floats, axis: int) -> Floats:
    """The median, of an even number the lower of the two middle ones: of two peers the faster shows what the work
    costs. NaN does not count."""
    ordered = np.sort(values, axis=axis)
    count = np.count_nonzero(~np.isnan(ordered), axis=axis)
    at = np.expand_dims(np.maximum(count - 1, 0) // 2, axis)
    out: Floats = np.take_along_axis(ordered, at, axis=axis).squeeze(axis)
    return out
