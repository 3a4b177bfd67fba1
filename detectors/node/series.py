"""The detector of anything that gives the same numbers again and again: hosts, power meters, servers.

The same parts that judge a GPU (`detectors.node.detector`), without a GPU's states: readings averaged over three ticks,
slow baselines, what the other metrics explain taken out, the fleet's forest on the magnitudes that remain. It learns
from every tick except while a thing is unusual, needs no training of its own, and never looks ahead.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.condition import AVERAGED_TICKS, Averages, Float32
from detectors.forest.magnitude import NAMES, magnitudes, shares
from detectors.forest.model import Forest
from detectors.node.alarm import FREEZE_MOST, FREEZE_P, FREEZE_TICKS
from detectors.node.baseline import Baseline
from detectors.node.coupling import Couplings

MEMORY = 20_000.0
"""Ticks after which two thirds are forgotten: many times the longest cycle there is (of a day in minutes, 1440)."""

_RESIDUAL = NAMES.index("log_residual")


class Judgement(NamedTuple):
    """One tick; rows are the things. `z`, `residual` and `share` (rows, columns): deviations, what their fellows leave
    unexplained, and each metric's part in it (adds up to 1). `score` (rows,) is the forest's, `p` its calibrated tail.
    `distance` (rows,) is what ranks best: the root mean square residual of the last three ticks."""

    z: Float32
    residual: Float32
    share: Float32
    score: NDArray[np.float64]
    p: NDArray[np.float64]
    distance: Float32


class SeriesDetector:
    """`rows` things with the metrics `columns`, whose units tell the least spread that matters (`baseline.FLOORS`;
    `floor` overrides it for all)."""

    def __init__(
        self, columns: Sequence[str], rows: int, model: Forest, floor: float | None = None, memory: float = MEMORY
    ) -> None:
        self.columns = tuple(columns)
        self.model = model
        self.baseline = Baseline(columns, rows, floor=floor, memory=memory)
        self.couplings = Couplings(columns, rows, memory)
        self._averages = Averages(rows, len(columns))
        self._distances = np.full((AVERAGED_TICKS, rows), np.nan, dtype=np.float32)
        self._tick = 0
        self._state = np.zeros(rows, dtype=np.intp)
        self._high = np.zeros(rows, dtype=np.intp)

    def learn(self, values: Float32) -> None:
        """Take in readings (rows, columns) that are known to be healthy."""
        readings = self._averages.apply(values)
        z, _ = self.baseline.compare(readings, self._state)
        self._learn(readings, z, np.ones(len(values), dtype=bool))

    def update(self, values: Float32) -> Judgement:
        """Judge readings (rows, columns; NaN for missing), then learn from those that are not unusual."""
        readings = self._averages.apply(values)
        z, centre = self.baseline.compare(readings, self._state)
        residual = self.couplings.residual(z)
        known = ~np.isnan(centre)
        missing = (np.isnan(values) & known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        rows = magnitudes(z, residual, missing.astype(np.float32))
        score = self.model.score(rows)
        p = self.model.p_value(rows, score)
        self._high = np.clip(self._high + np.where(p < FREEZE_P, 1, -1), 0, FREEZE_MOST)
        self._learn(readings, z, self._high < FREEZE_TICKS)
        self._distances[self._tick % AVERAGED_TICKS] = np.square(np.expm1(rows[:, _RESIDUAL]))
        self._tick += 1
        distance = np.sqrt(self._distances[: min(self._tick, AVERAGED_TICKS)].mean(axis=0))
        return Judgement(z, residual, shares(z, residual), score, p, distance)

    def _learn(self, readings: Float32, z: Float32, usual: NDArray[np.bool_]) -> None:
        self.baseline.learn(readings, self._state, usual)
        self.couplings.learn(z, usual)
