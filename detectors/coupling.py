"""How the metrics of one thing move together, and what of their deviations that does not explain.

Load moves power, clocks and traffic at once; a metric that leaves its fellows says more than all of them together. The
residual of deviations z is (C + EXPLAINED_BY_NOISE)^-1/2 z, with C the slow covariance of z: its root mean square is a
Mahalanobis distance (Mahalanobis 1936), shrunk where C has hardly any variance (Ledoit and Wolf 2004 give the reason,
a constant gives the amount). The symmetric root keeps metrics apart, so that each has its own residual. On the labelled
machines of SMD and ASD it ranks better than the RMS of z (which knows no neighbours) and than a principal-component
residual (which forgets the rest); `bench/quality` shows by how much.

Rows never learn from each other.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.baseline import MEMORY_TICKS
from detectors.compile import compiled
from detectors.condition import Float32, Index, take
from detectors.state import floats, to_bytes, unpack

EXPLAINED_BY_NOISE = 0.05
"""Variance, in spreads squared, that is nobody's: no combination of metrics is believed to be steadier than a fifth of
a spread. Between .03 and .2 the labelled machines hardly care."""

LIMIT_Z = 20.0
"""A single metric says no more beyond this (as for the RMS of z)."""

PRIOR_TICKS = 100.0
"""What is believed before anything is learned, as if seen so often: metrics that know nothing of each other."""

REFRESH_TICKS = 300.0
YOUNG_REFRESH_TICKS = 50.0
"""How often the root is drawn anew; a young one changes quickly."""


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    columns: tuple[str, ...]
    rows: int
    covariance: bytes
    root: bytes
    count: bytes


class Couplings:
    """The covariance of deviations of `rows` over the metrics `columns`; `memory` as in `Baseline`.

    Both matrices are symmetric and kept as their upper halves, row after row: 4 bytes a row and pair of metrics."""

    def __init__(self, columns: Sequence[str], rows: int = 0, memory: float = MEMORY_TICKS) -> None:
        self.columns = tuple(columns)
        self._memory = memory
        size = len(self.columns)
        self._half = np.triu_indices(size)
        self._covariance = np.tile(np.eye(size, dtype=np.float32)[self._half], (rows, 1))
        self._root = np.tile(_unknown(size)[self._half], (rows, 1))
        self._count = np.zeros(rows, dtype=np.float32)
        self._due = np.zeros(rows, dtype=np.bool_)

    def residual(self, z: Float32) -> Float32:
        """What of the deviations `z` (rows, columns) their fellows do not explain, in the same unit; NaN where z is.
        A metric not judged is taken to be where it belongs."""
        out = np.empty(z.shape, dtype=np.float32)
        _residual(self._root, z, out)
        return out

    def learn(self, z: Float32, usual: NDArray[np.bool_]) -> None:
        """Take in the deviations of the rows in `usual`; pairs with a metric not judged teach nothing."""
        if _learn(self._covariance, self._count, self._memory, z, usual, self._due):
            due, size = self._due, len(self.columns)
            self._root[due] = _roots(_square(self._covariance[due], size))[:, *self._half]

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """What these rows do has changed."""
        if rows.any():
            size = len(self.columns)
            self._covariance[rows], self._root[rows] = np.eye(size)[self._half], _unknown(size)[self._half]
            self._count[rows] = 0

    def take(self, index: Index) -> None:
        """Rows in a new order; -1 is a new row."""
        self._covariance, self._root, self._count = (
            take(part, index) for part in (self._covariance, self._root, self._count)
        )
        self._due = np.zeros(len(index), dtype=np.bool_)
        self.forget(index < 0)

    def state(self) -> bytes:
        """A versioned checkpoint, as large as what is kept."""
        return msgspec.msgpack.encode(
            _State(
                columns=self.columns,
                rows=len(self._count),
                covariance=to_bytes(self._covariance),
                root=to_bytes(self._root),
                count=to_bytes(self._count),
            )
        )

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint; with other columns than ours it is learned anew. Raises StateError where it does
        not fit."""
        old = unpack(state, _State)
        self.__init__(self.columns, old.rows, self._memory)  # type: ignore[misc]
        pairs = len(old.columns) * (len(old.columns) + 1) // 2
        covariance, root = (floats(data, old.rows, pairs) for data in (old.covariance, old.root))
        count = floats(old.count, old.rows)
        if old.columns == self.columns:
            self._covariance, self._root, self._count = covariance, root, count


def _unknown(size: int) -> Float32:
    """The root before anything is learned."""
    out: Float32 = (np.eye(size) / np.sqrt(1 + EXPLAINED_BY_NOISE)).astype(np.float32)
    return out


def _square(upper: Float32, size: int) -> Float32:
    out = np.zeros((len(upper), size, size), dtype=np.float32)
    i, j = np.triu_indices(size)
    out[:, i, j] = out[:, j, i] = upper
    return out


def _roots(covariance: Float32) -> Float32:
    values, vectors = np.linalg.eigh(covariance.astype(np.float64))
    scale = 1 / np.sqrt(np.maximum(values, 0) + EXPLAINED_BY_NOISE)
    out: Float32 = ((vectors * scale[:, None, :]) @ vectors.transpose(0, 2, 1)).astype(np.float32)
    return np.maximum(out, out.transpose(0, 2, 1))  # exactly symmetric


@compiled
def _residual(root: Float32, z: Float32, out: Float32) -> None:
    size = z.shape[1]
    value = np.empty(size, dtype=np.float32)
    sums = np.empty(size, dtype=np.float32)
    for r in range(z.shape[0]):
        for c in range(size):
            value[c] = 0.0 if np.isnan(z[r, c]) else min(max(z[r, c], -LIMIT_Z), LIMIT_Z)
            sums[c] = 0.0
        start = 0
        for i in range(size):
            mine, total = value[i], np.float32(0.0)
            row, others, theirs = root[r, start + 1 : start + size - i], value[i + 1 :], sums[i + 1 :]
            for k in range(len(row)):
                theirs[k] += row[k] * mine
                total += row[k] * others[k]
            sums[i] += root[r, start] * mine + total
            start += size - i
        for c in range(size):
            out[r, c] = np.nan if np.isnan(z[r, c]) else sums[c]


@compiled
def _learn(
    covariance: Float32,
    count: Float32,
    memory: float,
    z: Float32,
    usual: NDArray[np.bool_],
    due: NDArray[np.bool_],
) -> bool:
    """Whose root is to be drawn anew is in `due`; whether there is any, is returned."""
    size = z.shape[1]
    known = np.empty(size, dtype=np.float32)
    value = np.empty(size, dtype=np.float32)
    any_due = False
    for r in range(z.shape[0]):
        due[r] = False
        if not usual[r]:
            continue
        judged = 0
        for c in range(size):
            judged += not np.isnan(z[r, c])
            known[c] = 0.0 if np.isnan(z[r, c]) else 1.0
            value[c] = 0.0 if np.isnan(z[r, c]) else min(max(z[r, c], -LIMIT_Z), LIMIT_Z)
        if not judged:
            continue
        count[r] = count[r] + 1.0 if count[r] < 2.0 * memory else memory + 1.0
        due[r] = count[r] % (YOUNG_REFRESH_TICKS if count[r] < REFRESH_TICKS else REFRESH_TICKS) == 0.0
        any_due |= due[r]
        gain = np.float32(1.0 / min(count[r] + PRIOR_TICKS, memory))
        start = 0
        for i in range(size):
            if known[i] > 0.0:
                mine, row, others, judges = value[i], covariance[r, start : start + size - i], value[i:], known[i:]
                for k in range(len(row)):
                    row[k] += gain * judges[k] * (mine * others[k] - row[k])
            start += size - i
    return any_due
