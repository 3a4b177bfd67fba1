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

from detectors.compile import compiled, part
from detectors.condition import Float32, Index, take
from detectors.node.baseline import MEMORY_TICKS
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

    Both matrices are symmetric and kept by their diagonals, each wrapped around to the full length (`shape_of`): half
    the memory of a square, and every loop runs over whole diagonals. `covariance`, `root` (rows, *shape) and `count`
    (rows,) are where to keep them, if not in memory of their own.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int = 0,
        memory: float = MEMORY_TICKS,
        kept: tuple[Float32, Float32, Float32] | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self._memory = memory
        if kept is None:
            shape = (rows, *shape_of(len(self.columns)))
            kept = np.empty(shape, np.float32), np.empty(shape, np.float32), np.zeros(rows, np.float32)
            start(*kept)
        self.covariance, self.root, self.count = kept

    def residual(self, z: Float32) -> Float32:
        """What of the deviations `z` (rows, columns) their fellows do not explain, in the same unit; NaN where z is.
        A metric not judged is taken to be where it belongs."""
        out = np.empty(z.shape, dtype=np.float32)
        _residual(self.root, z, out)
        return out

    def learn(self, z: Float32, usual: NDArray[np.bool_]) -> None:
        """Take in the deviations of the rows in `usual`; pairs with a metric not judged teach nothing."""
        due = np.zeros(len(z), dtype=np.bool_)
        if _learn(self.covariance, self.count, self._memory, z, usual, due):
            self.draw(due)

    def draw(self, due: NDArray[np.bool_]) -> None:
        """Draw the roots of these rows anew."""
        size = len(self.columns)
        i, j = _diagonals(size)
        self.root[due] = _roots(_square(self.covariance[due], size))[:, i, j]

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """What these rows do has changed."""
        if rows.any():
            blank = Couplings(self.columns, 1)
            self.covariance[rows], self.root[rows], self.count[rows] = blank.covariance, blank.root, 0

    def take(self, index: Index) -> None:
        """Rows in a new order; -1 is a new row."""
        self.covariance, self.root, self.count = (
            take(part, index) for part in (self.covariance, self.root, self.count)
        )
        self.forget(index < 0)

    def state(self) -> bytes:
        """A versioned checkpoint: the upper halves of both matrices, row after row, 4 bytes a pair of metrics."""
        size = len(self.columns)
        upper = np.triu_indices(size)
        covariance, root = (to_bytes(_square(part, size)[:, *upper]) for part in (self.covariance, self.root))
        rows, count = len(self.count), to_bytes(self.count)
        return msgspec.msgpack.encode(
            _State(columns=self.columns, rows=rows, covariance=covariance, root=root, count=count)
        )

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint; with other columns than ours it is learned anew. Raises StateError where it does
        not fit."""
        old = unpack(state, _State)
        self.__init__(self.columns, old.rows, self._memory)  # type: ignore[misc]
        size = len(old.columns)
        upper = np.triu_indices(size)
        covariance, root = (floats(data, old.rows, len(upper[0])) for data in (old.covariance, old.root))
        count = floats(old.count, old.rows)
        if old.columns == self.columns:
            square = np.zeros((2, old.rows, size, size), dtype=np.float32)
            for half, full in zip((covariance, root), square, strict=True):
                full[:, *upper] = full[:, upper[1], upper[0]] = half
            i, j = _diagonals(size)
            self.covariance, self.root, self.count = square[0][:, i, j], square[1][:, i, j], count


def shape_of(size: int) -> tuple[int, int]:
    """How a symmetric matrix of `size` columns is kept: entry (d, i) is that of columns i and (i + d) modulo size.

    With an even size the last diagonal meets itself and has every pair twice.
    """
    return size // 2 + 1, size


def _diagonals(size: int) -> tuple[Index, Index]:
    """The columns of each entry that is kept."""
    diagonal, column = np.indices(shape_of(size))
    return column, (column + diagonal) % size


def _square(kept: Float32, size: int) -> Float32:
    out = np.zeros((len(kept), size, size), dtype=np.float32)
    i, j = _diagonals(size)
    out[:, i, j] = out[:, j, i] = kept
    return out


def _roots(covariance: Float32) -> Float32:
    values, vectors = np.linalg.eigh(covariance.astype(np.float64))
    scale = 1 / np.sqrt(np.maximum(values, 0) + EXPLAINED_BY_NOISE)
    out: Float32 = ((vectors * scale[:, None, :]) @ vectors.transpose(0, 2, 1)).astype(np.float32)
    return np.maximum(out, out.transpose(0, 2, 1))  # exactly symmetric


def start(covariance: Float32, root: Float32, count: Float32) -> None:
    """`start_row` of all rows."""
    covariance[:], root[:], count[:] = 0.0, 0.0, 0.0
    covariance[:, 0], root[:, 0] = 1.0, 1.0 / np.sqrt(1.0 + EXPLAINED_BY_NOISE)


@compiled
def _residual(root: Float32, z: Float32, out: Float32) -> None:
    for r in range(len(z)):
        residual_row(root[r], z[r], out[r])


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
    any_due = False
    for r in range(len(z)):
        if usual[r]:
            count[r], due[r] = learn_row(covariance[r], count[r], memory, z[r])
            any_due |= due[r]
    return any_due


@part
def start_row(covariance: Float32, root: Float32) -> float:
    """Nothing is known yet: metrics know nothing of each other. Returns the count."""
    for d in range(len(root)):
        for i in range(root.shape[1]):
            covariance[d, i] = 1.0 if d == 0 else 0.0
            root[d, i] = 1.0 / np.sqrt(1.0 + EXPLAINED_BY_NOISE) if d == 0 else 0.0
    return 0.0


@part
def residual_row(root: Float32, z: Float32, out: Float32) -> None:
    """`Couplings.residual` of one row."""
    size, half = len(z), len(z) // 2
    value = _wrapped(z)
    ahead, behind = np.empty(size, dtype=np.float32), np.empty(size + half, dtype=np.float32)
    for i in range(size + half):
        behind[i] = 0.0
        ahead[min(i, size - 1)] = 0.0
    for d in range(half + 1):
        row, others, theirs = root[d], value[d : d + size], behind[d : d + size]
        for i in range(size):
            ahead[i] += row[i] * others[i]
        if d > 0 and 2 * d != size:
            for i in range(size):
                theirs[i] += row[i] * value[i]
    for i in range(size):
        total = ahead[i] + behind[i] + (behind[size + i] if i < half else np.float32(0.0))
        out[i] = np.nan if np.isnan(z[i]) else total


@part
def learn_row(covariance: Float32, count: float, memory: float, z: Float32) -> tuple[float, bool]:
    """`Couplings.learn` of one row; returns its new count, and whether its root is due to be drawn."""
    size = len(z)
    value = _wrapped(z)
    known = np.empty(len(value), dtype=np.float32)
    judged = 0
    for i in range(len(value)):
        here = not np.isnan(z[i if i < size else i - size])
        known[i] = 1.0 if here else 0.0
        judged += here
    if not judged:
        return count, False
    count = count + 1.0 if count < 2.0 * memory else memory + 1.0
    gain = np.float32(1.0 / min(count + PRIOR_TICKS, memory))
    for d in range(len(covariance)):
        row, others, judges = covariance[d], value[d : d + size], known[d : d + size]
        for i in range(size):
            row[i] += gain * known[i] * judges[i] * (value[i] * others[i] - row[i])
    return count, count % (YOUNG_REFRESH_TICKS if count < REFRESH_TICKS else REFRESH_TICKS) == 0.0


@part
def _wrapped(z: Float32) -> Float32:
    """What each metric says, within limits, and once more for half a round."""
    size = len(z)
    value = np.empty(size + size // 2, dtype=np.float32)
    for i in range(size):
        value[i] = 0.0 if np.isnan(z[i]) else min(max(z[i], -LIMIT_Z), LIMIT_Z)
    for i in range(size // 2):
        value[size + i] = value[i]
    return value
