"""What the drift of GPUs is read from: one row of numbers a GPU, once a minute of event time."""

import math

import numpy as np

from detectors.condition import Columns, Float32, Index, Ranges, blank
from detectors.drift.ladder import HOUR_MS
from detectors.drift.limits import BIT_ERRORS, FEC, GPU_LIMITS
from detectors.drift.trend import Floats
from detectors.node.link_base import FEC as HIGH_BINS
from detectors.node.reading_rules import DRAWING_SHARE
from schemas.matrix import Matrix

MARGIN_AT, BER_AT, FEC_AT, REPLAYS_AT, CORRECTED_AT = range(len(GPU_LIMITS))
BESIDE_AT = len(GPU_LIMITS)
COLUMNS = BESIDE_AT + 1
"""The series of GPU_LIMITS in their order, and the thermal margin less that of the node's other GPUs."""

COUNTED_PER_HOUR = (REPLAYS_AT, CORRECTED_AT)

READ = (
    "thermal_margin_c", "power_w", "power_limit_w", "remap_pending", "pcie_replay_count", "ecc_sbe_count",
    "remapped_uncorrectable_count",
)  # fmt: skip
_MARGIN, _POWER, _POWER_LIMIT, PENDING, *_TOTALS = range(len(READ))
REMAPPED = READ.index("remapped_uncorrectable_count")
REMAPS_AT = 2
"""Which of the counters are row remaps; those before it are the counted series."""

Past = tuple[tuple[float, ...], tuple[float, ...]]
"""Of one GPU's counters: when each was read last (ms), and what it said; NaN where never."""

_NEVER = (math.nan,) * len(_TOTALS)
MOST_AWAY = 16


class Totals:
    """Counters of GPUs, and how they grow. A fall is a new epoch (a reset, another driver): no increase. What grew
    while nobody looked is spread over that time."""

    def __init__(self) -> None:
        self._gpus: tuple[str, ...] = ()
        self._last = np.full((0, 2, len(_TOTALS)), np.nan)
        self._away: dict[str, Past] = {}

    def rates(self, ts_ms: int, gpus: tuple[str, ...], raw: Float32) -> tuple[Floats, Floats]:
        """Increases an hour by GPU and counter, NaN where there is none to say; and the totals read before."""
        if gpus != self._gpus:
            self._layout(gpus)
        now, at, before = raw[:, _TOTALS].astype(np.float64), self._last[:, 0], self._last[:, 1]
        grown = np.where((now >= before) & (ts_ms > at), now - before, np.nan)
        rates = grown * (HOUR_MS / np.maximum(ts_ms - at, 1.0))
        told = ~np.isnan(now)
        self._last = np.where(told[:, None], np.stack([np.full_like(now, ts_ms), now], axis=1), self._last)
        return rates, before

    def give(self, gpu: str) -> Past | None:
        """What is known of one GPU, which is forgotten here."""
        known = self.save()
        past = known.pop(gpu, None)
        self.restore(known)
        return past

    def adopt(self, gpu: str, past: Past) -> None:
        self.restore(self.save() | {gpu: past})

    def save(self) -> dict[str, Past]:
        here = {
            gpu: (tuple(at), tuple(total)) for gpu, (at, total) in zip(self._gpus, self._last.tolist(), strict=True)
        }
        return self._away | here

    def restore(self, saved: dict[str, Past]) -> None:
        self._gpus, self._away = tuple(saved), {}
        self._last = np.array(list(saved.values()), dtype=np.float64).reshape(len(saved), 2, len(_TOTALS))

    def _layout(self, gpus: tuple[str, ...]) -> None:
        """Rows for these GPUs in this order; those that are not here now are remembered, as many as a node may have."""
        known, nothing = self.save(), (_NEVER, _NEVER)
        self.restore({gpu: known.pop(gpu, nothing) for gpu in gpus})
        self._away = dict(list(known.items())[-MOST_AWAY:])


class LinkMinute:
    """The worst NVLink of each GPU, of what came since it was last taken."""

    def __init__(self) -> None:
        names = ("effective_ber_log10", *HIGH_BINS)
        self._names = frozenset(names)
        self._columns, self._ranges = Columns(names), Ranges("nvlink", names)
        self._rows: tuple[str, ...] = ()
        self._gpus: list[str] = []
        self._of: Index = np.zeros(0, dtype=np.intp)
        self._worst = blank(0, 2)

    def add(self, matrix: Matrix) -> None:
        if self._names.isdisjoint(matrix.columns):
            return
        values, _ = self._ranges.apply(self._columns.select(matrix))
        told = ~np.isnan(values)
        if not told.any():
            return
        if matrix.rows != self._rows:
            owners = [row.rpartition("/")[0] for row in matrix.rows]
            self._gpus = list(dict.fromkeys(owners))
            self._of = np.array([self._gpus.index(owner) for owner in owners], dtype=np.intp)
            self._rows, self._worst = matrix.rows, blank(len(self._gpus), 2)
        often = np.where(told[:, 1:].any(axis=1), np.nansum(values[:, 1:], axis=1), np.nan)
        pair = np.stack([values[:, 0], np.log10(np.maximum(often, 1e-9))], axis=1)
        np.fmax.at(self._worst, self._of, np.maximum(pair, (BIT_ERRORS.floor, FEC.floor)).astype(np.float32))

    def take(self) -> dict[str, tuple[float, float]]:
        """Logarithms of bit error rate and of codewords a second, by GPU; what was said is forgotten."""
        if not self._gpus:
            return {}
        out = dict(zip(self._gpus, map(tuple, self._worst.tolist()), strict=True))
        self._worst.fill(np.nan)
        return out


def margins(raw: Float32) -> Float32:
    """(rows, 2): the margin of each GPU at work, by itself and less the median of the other ones at work; NaN for one
    that draws little: its margin says nothing of cooling."""
    working = raw[:, _POWER] > DRAWING_SHARE * raw[:, _POWER_LIMIT]
    own = np.where(working, raw[:, _MARGIN], np.float32(np.nan))
    out = blank(len(raw), 2)
    out[:, 0] = own
    there = sorted((margin, i) for i, margin in enumerate(own.tolist()) if margin == margin)
    if len(there) > 2:
        half, odd = divmod(len(there) - 1, 2)
        for place, (margin, i) in enumerate(there):
            upper = there[half + (place <= half)][0]  # of the others in order, the one at `half`
            lower = upper if odd else there[half - 1 + (place <= half - 1)][0]
            out[i, 1] = margin - (lower + upper) / 2
    return out
