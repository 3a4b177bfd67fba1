"""From readings to numbers that may be compared: range checks, counters to increases, averages over ticks.

Arrays are float32 of shape (rows, columns); missing is NaN and stays NaN. Rows keep their state across ticks; when
the set of rows changes, `take` moves it along.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.compile import part
from schemas.matrix import Matrix
from schemas.metrics import Section, metric

Float32 = NDArray[np.float32]
Index = NDArray[np.intp]

AVERAGED_TICKS = 3
"""Readings are averaged over this many ticks before anything is compared: a 1 Hz poll beats against the training step
(MLPerf's 64 nodes, polled every 2 s at a step of 10.6 s: 9 % of noise per sample)."""


class Ranges:
    """The catalogue's limits of some columns of a section; a column it does not know passes if it is finite."""

    def __init__(self, section: Section, columns: Sequence[str]) -> None:
        known = [metric(section, name) for name in columns]
        self.low = np.array([m.low if m else -np.inf for m in known], dtype=np.float32)
        self.high = np.array([m.high if m else np.inf for m in known], dtype=np.float32)

    def apply(self, values: Float32) -> tuple[Float32, int]:
        """`values` with what lies outside as NaN, and how many those were: a broken sensor's, not a fault's."""
        inside = (values >= self.low) & (values <= self.high) & np.isfinite(values)
        clean: Float32 = np.where(inside, values, np.float32(np.nan))
        return clean, int(values.size - np.count_nonzero(inside) - np.count_nonzero(np.isnan(values)))


class Columns:
    """Picks named columns out of matrices that mostly have the same layout."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = tuple(wanted)
        self._layout: tuple[str, ...] | None = None
        self._from: Index = np.zeros(0, dtype=np.intp)
        self._to: Index = np.zeros(0, dtype=np.intp)

    def select(self, matrix: Matrix) -> Float32:
        """The wanted columns in order, (rows, wanted); NaN where the matrix has none of that name."""
        source, target = self.places(matrix.columns)
        out = blank(len(matrix.rows), len(self._wanted))
        out[:, target] = matrix.values()[:, source]
        return out

    def places(self, layout: tuple[str, ...]) -> tuple[Index, Index]:
        """Which columns of a matrix of this layout are wanted ones, and which of the wanted ones they are."""
        if layout != self._layout:
            here = {name: i for i, name in enumerate(layout)}
            known = [(here[name], i) for i, name in enumerate(self._wanted) if name in here]
            self._from, self._to = (np.array([pair[k] for pair in known], dtype=np.intp) for k in (0, 1))
            self._layout = layout
        return self._from, self._to


class Increases:
    """Counters to increases since the previous tick, within an epoch: a fall starts a new one and yields NaN."""

    def __init__(self, rows: int, columns: int) -> None:
        self.last = blank(rows, columns)

    def apply(self, totals: Float32) -> Float32:
        """Increases of `totals` (rows, columns). A missing total leaves the last one in place: its increase is in the
        next reading."""
        grown = totals - self.last
        self.last = np.where(np.isnan(totals), self.last, totals)
        out: Float32 = np.where(grown >= 0, grown, np.float32(np.nan))
        return out

    def restart(self) -> None:
        """A new epoch for all (the agent restarted)."""
        self.last.fill(np.nan)

    def take(self, index: Index) -> None:
        self.last = take(self.last, index)


class Averages:
    """The mean of each cell's readings in the last `AVERAGED_TICKS` ticks; NaN where there was none."""

    def __init__(self, rows: int, columns: int) -> None:
        self.ring = np.full((AVERAGED_TICKS, rows, columns), np.nan, dtype=np.float32)
        self.at = 0

    def step(self) -> int:
        """The layer of the ring that the next readings belong in."""
        step = self.at
        self.at = (self.at + 1) % AVERAGED_TICKS
        return step

    def apply(self, values: Float32) -> Float32:
        self.ring[self.step()] = values
        here = ~np.isnan(self.ring)
        count = here.sum(axis=0, dtype=np.float32)
        total = np.where(here, self.ring, np.float32(0)).sum(axis=0, dtype=np.float32)
        out: Float32 = np.where(count > 0, total / np.maximum(count, np.float32(1)), np.float32(np.nan))
        return out

    def restart(self) -> None:
        self.ring.fill(np.nan)

    def take(self, index: Index) -> None:
        self.ring = np.stack([take(layer, index) for layer in self.ring])


@part
def mean_row(ring: Float32, out: Float32) -> None:
    """The same of one row: of `ring` (ticks, columns) into `out` (columns,)."""
    for c in range(len(out)):
        total, count = np.float32(0.0), np.float32(0.0)
        for k in range(len(ring)):
            if not np.isnan(ring[k, c]):
                total += ring[k, c]
                count += np.float32(1.0)
        out[c] = total / count if count > 0 else np.nan


def tick_of(ts_ms: int, interval_ms: int = 1000) -> int:
    """The tick a time belongs to: the multiple of the interval at or before it."""
    return ts_ms - ts_ms % interval_ms


def blank(*shape: int) -> Float32:
    """All missing."""
    return np.full(shape, np.nan, dtype=np.float32)


def take(rows: Float32, index: Index) -> Float32:
    """Rows in a new order: `index` names the old row, -1 a new one (all NaN)."""
    out = rows[index] if len(rows) else blank(len(index), *rows.shape[1:])
    out[index < 0] = np.nan
    return out
