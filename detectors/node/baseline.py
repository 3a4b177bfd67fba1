"""What is usual for each GPU and metric: a slow robust centre and spread, kept apart by what the GPU is doing.

Constant memory: per state, row and column five float32 numbers. The update is an exponentially forgetting mean of
clipped deviations (Huber's idea) for the centre, and of clipped absolute deviations for the spread, both slow: fast
adaptation unlearns a fault (on the SMD machines an adaptive baseline lost .06 of VUS-PR against a fixed one). A clipped
spread knows nothing of a rare second mode (power polled once a second meets the communication phase of one step in
nine), so each spread has a reach: how much wider it must be for one reading in fifty to lie beyond 2.33 of it. Only
excursions that end by themselves count for it: a reading that goes away and stays away is what we look for.
Everything here is row-wise: GPUs never learn from each other, and their order does not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled, part
from detectors.condition import Float32, Index
from detectors.state import StateError, floats, to_bytes, unpack

MEMORY_TICKS = 3600.0
"""Ticks after which a baseline has forgotten two thirds: longer than the ramps of thermal faults (minutes), shorter
than a change of season in the hall."""

WARM_UP_TICKS = 40
"""Readings before a baseline is used at all: with its width, enough for a fault a minute after the first reading."""

YOUNG_TICKS = 60.0
"""A baseline of n readings widens its spread by 1 + 60/n: a minute does not show the whole of what is usual."""

CLIP = 2.0
"""A reading pulls at most as if it were 2 spreads away."""

CLIPPED_TO_SIGMA = 1.2805
"""Mean of min(|deviation|, 2 sigma) to sigma of normal noise: 1 / (sqrt(2 / pi) (1 - exp(-2)) + 4 (1 - Phi(2)))."""

REACH_Z, REACH_SHARE = 2.33, 0.02
"""Of normal noise one reading in fifty is further than 2.33 sigma from the centre."""

REACH_STEP = 0.03
"""How fast the reach follows: by 3 % for a reading beyond. A rare mode at twenty spreads is learned after a hundred
readings in it."""

BURST_TICKS = 30.0
"""A longer excursion is none: it is kept out of the reach, however it ends."""

REACH_MOST = 100.0

RELATIVE_FLOOR = 0.01
"""No spread is taken for less than 1 % of its centre: static differences of healthy nodes are 2 % (MLPerf)."""

FLOORS: Mapping[str, float] = {
    "_w": 2.0,
    "_c": 0.5,
    "_mhz": 5.0,
    "_pct": 1.0,
    "_ratio": 0.01,
    "_share": 0.01,
    "_mib": 64.0,
    "_per_s": 1e6,
    "_count": 1.0,
    "_lpm": 0.2,
    "_kpa": 1.0,
}
"""The least spread by unit (the end of the metric's name): the resolution of the sensor, or what nobody cares about."""


CENTRE, SPREAD, REACH, RUN, COUNT = range(5)
LAYERS = 5
"""What is kept of each state, row and column; RUN is how long the present excursion beyond the reach lasts."""


def floor_of(name: str) -> float:
    """The least spread of a metric, by its unit.

    >>> floor_of("temperature_c")
    0.5
    """
    return next((floor for unit, floor in FLOORS.items() if name.endswith(unit)), 1e-6)


def floors(columns: Sequence[str]) -> Float32:
    """The least spread of each of these metrics."""
    return np.array([floor_of(name) for name in columns], dtype=np.float32)


Flags = NDArray[np.bool_] | NDArray[np.uint8]


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    columns: tuple[str, ...]
    states: int
    rows: int
    cells: bytes


class Baseline:
    """Baselines of `rows` over the metrics `columns`, one set for each of `states` activities.

    `state` arguments are integer arrays (rows,) that say which set each row uses now. `floor` is the least spread of
    all columns, where their names do not tell it; `memory` the ticks after which two thirds are forgotten. `cells`
    (rows, states, LAYERS, columns) is where to keep them, if not in memory of their own.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int = 0,
        states: int = 1,
        floor: float | None = None,
        memory: float = MEMORY_TICKS,
        cells: Float32 | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self._floor = floors(columns) if floor is None else np.full(len(columns), floor, dtype=np.float32)
        self._memory = memory
        self.cells = _empty(rows, states, len(columns)) if cells is None else cells

    @property
    def rows(self) -> int:
        return len(self.cells)

    def centre(self, state: Index) -> Float32:
        """Centres in use, (rows, columns); NaN where nothing was learned."""
        return self.compare(np.zeros((self.rows, len(self.columns)), dtype=np.float32), state)[1]

    def spread(self, state: Index) -> Float32:
        """Spreads in use as standard deviations, floors and reach applied."""
        now = self._now(state)
        width = np.maximum(np.maximum(now[:, SPREAD], self._floor), np.abs(now[:, CENTRE]) * RELATIVE_FLOOR)
        out: Float32 = (width * np.maximum(now[:, REACH], 1)).astype(np.float32)
        return out

    def warm(self, state: Index) -> NDArray[np.bool_]:
        """Which cells have learned enough to judge by."""
        warm: NDArray[np.bool_] = self._now(state)[:, COUNT] >= WARM_UP_TICKS
        return warm

    def compare(
        self, values: Float32, state: Index, judged: NDArray[np.bool_] | None = None
    ) -> tuple[Float32, Float32]:
        """Robust z of `values` (rows, columns), NaN where the value is missing, not in `judged` or the baseline is not
        warm; and the centres, NaN where nothing was learned."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        if judged is None:
            judged = np.ones(values.shape, dtype=np.bool_)
        z, centre = np.empty(values.shape, dtype=np.float32), np.empty(values.shape, dtype=np.float32)
        _compare(self.cells, self._floor, state, values, judged, z, centre)
        return z, centre

    def learn(self, values: Float32, state: Index, usual: NDArray[np.bool_]) -> None:
        """Take `values` in where `usual` (rows, or rows and columns) says so; missing values teach nothing.

        The n-th reading weighs 2 / (n + 1) until that is down to 1 / memory: what was learned first, when there
        was no spread to clip by, fades quadratically.
        """
        values = np.ascontiguousarray(values, dtype=np.float32)
        usual = np.repeat(usual[:, None], len(self.columns), axis=1) if usual.ndim == 1 else usual
        _learn(self.cells, self._floor, self._memory, state, values, usual)

    def forget(self, state: int, rows: NDArray[np.bool_]) -> None:
        """Start anew in `state` for these rows: what they do has changed."""
        self.cells[rows, state] = 0

    def take(self, index: Index) -> None:
        """Rows in a new order; -1 is a new row."""
        cells = _empty(len(index), self.cells.shape[1], len(self.columns))
        old = index >= 0
        cells[old] = self.cells[index[old]]
        self.cells = cells

    def state(self) -> bytes:
        """A versioned checkpoint: 20 bytes per state, row and column."""
        states, cells = self.cells.shape[1], to_bytes(self.cells.transpose(2, 1, 0, 3))
        return msgspec.msgpack.encode(_State(columns=self.columns, states=states, rows=self.rows, cells=cells))

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint; columns are matched by name. Raises StateError where it does not fit."""
        old = unpack(state, _State)
        if old.states != self.cells.shape[1]:
            raise StateError(f"a baseline of {old.states} states where {self.cells.shape[1]} are kept")
        cells = floats(old.cells, LAYERS, old.states, old.rows, len(old.columns)).transpose(2, 1, 0, 3)
        self.cells = _empty(old.rows, old.states, len(self.columns))
        where = {name: i for i, name in enumerate(old.columns)}
        for i, name in enumerate(self.columns):
            if name in where:
                self.cells[..., i] = cells[..., where[name]]

    def _now(self, state: Index) -> Float32:
        """What each row uses now, (rows, LAYERS, columns)."""
        out: Float32 = self.cells[np.arange(self.rows), state]
        return out


@compiled
def _compare(
    cells: Float32,
    floor: Float32,
    state: Index,
    values: Float32,
    judged: NDArray[np.bool_],
    z: Float32,
    centre: Float32,
) -> None:
    for r in range(values.shape[0]):
        compare_row(cells[r, state[r]], floor, values[r], judged[r], z[r], centre[r])


@compiled
def _learn(
    cells: Float32, floor: Float32, memory: float, state: Index, values: Float32, usual: NDArray[np.bool_]
) -> None:
    for r in range(values.shape[0]):
        learn_row(cells[r, state[r]], floor, memory, values[r], usual[r])


@part
def compare_row(cells: Float32, floor: Float32, values: Float32, judged: Flags, z: Float32, centre: Float32) -> None:
    """`Baseline.compare` of one row in one state: `cells` (LAYERS, columns), all others (columns,)."""
    for c in range(len(values)):
        middle, count = cells[CENTRE, c], cells[COUNT, c]
        centre[c] = middle if count > 0 else np.nan
        z[c] = np.nan
        if count >= WARM_UP_TICKS and judged[c]:
            width = max(cells[SPREAD, c], floor[c], abs(middle) * RELATIVE_FLOOR)
            width *= max(cells[REACH, c], 1.0) * (1.0 + YOUNG_TICKS / count)
            z[c] = (values[c] - middle) / width


@part
def learn_row(cells: Float32, floor: Float32, memory: float, values: Float32, usual: Flags) -> None:
    """`Baseline.learn` of one row in one state: `cells` (LAYERS, columns), all others (columns,)."""
    for c in range(len(values)):
        value = values[c]
        if not usual[c] or np.isnan(value):
            continue
        count = min(cells[COUNT, c] + 1.0, 2.0 * memory)
        cells[COUNT, c] = count
        if count == 1.0:
            cells[CENTRE, c] = value
            continue
        middle, spread = cells[CENTRE, c], cells[SPREAD, c]
        width = max(spread, floor[c], abs(middle) * RELATIVE_FLOOR)
        deviation = value - middle
        clipped = deviation
        if count > WARM_UP_TICKS / 2:
            clipped = min(max(deviation, -CLIP * width), CLIP * width)
            reach, run = max(cells[REACH, c], 1.0), cells[RUN, c]
            if abs(deviation) > REACH_Z * width * reach:
                cells[RUN, c] = min(run + 1.0, 2.0 * BURST_TICKS)
            else:
                reach *= 1.0 - REACH_STEP * REACH_SHARE
                if 0.0 < run <= BURST_TICKS:  # an excursion that ended by itself
                    reach *= (1.0 + REACH_STEP * (1.0 - REACH_SHARE)) ** run
                cells[REACH, c] = min(max(reach, 1.0), REACH_MOST)
                cells[RUN, c] = 0.0
        gain = max(2.0 / (count + 1.0), 1.0 / memory)
        cells[CENTRE, c] = middle + gain * clipped
        cells[SPREAD, c] = spread + gain * (abs(clipped) * CLIPPED_TO_SIGMA - spread)


def _empty(rows: int, states: int, columns: int) -> Float32:
    """All zero: (rows, states, LAYERS, columns)."""
    return np.zeros((rows, states, LAYERS, columns), dtype=np.float32)
