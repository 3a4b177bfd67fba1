"""From scores to p-values: how rare a score is among healthy rows.

Scores of different models are not comparable; p-values are, and a false-alarm budget is set in them.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled

Float64 = NDArray[np.float64]

TAIL_SHARE = 0.01
"""The part of the healthy scores from which the tail is extrapolated."""

HEAVIEST_SHAPE = 0.5


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Healthy scores: `scores` rise with the share of healthy rows at or above each in `shares`; from `tail_from` on
    a generalised Pareto tail of `scale` and `shape` (0: exponential). `rows` is how many healthy rows there were."""

    rows: int
    scores: tuple[float, ...]
    shares: tuple[float, ...]
    tail_from: float
    tail_share: float
    scale: float
    shape: float

    def is_plausible(self) -> bool:
        """Whether these numbers can be a calibration at all."""
        return (
            0 < len(self.scores) == len(self.shares)
            and all(a < b for a, b in pairwise((*self.scores, self.tail_from)))
            and all(a >= b for a, b in pairwise((*self.shares, self.tail_share)))
            and self.tail_share > 0
            and self.shares[0] <= 1
            and self.scale > 0
            and 0 <= self.shape <= HEAVIEST_SHAPE
        )


class Rarity:
    """Reads shares off several calibrations at once: `fits[0]` is for a score of its own, the others for these
    `columns` of its row."""

    def __init__(self, fits: Sequence[Calibration], columns: Sequence[int] = ()) -> None:
        self.columns = np.array(columns, dtype=np.intp)
        self.lengths = np.array([len(fit.scores) + 1 for fit in fits], dtype=np.intp)
        self.knots = np.full((len(fits), self.lengths.max()), np.inf)
        self.log_shares = np.zeros_like(self.knots)
        for i, fit in enumerate(fits):
            self.knots[i, : self.lengths[i]] = (*fit.scores, fit.tail_from)
            self.log_shares[i, : self.lengths[i]] = np.log((*fit.shares, fit.tail_share))
        self.tails = np.array([(fit.scale, fit.shape) for fit in fits])

    def log(self, scores: NDArray[np.floating], rows: NDArray[np.floating]) -> Float64:
        """Logarithm of the least share of healthy things at or above each of `scores` and of its row's columns; NaN
        where any of them is."""
        return self._least(scores, rows, 0.0)

    def p_value(self, scores: NDArray[np.floating], rows: NDArray[np.floating], smallest: float) -> Float64:
        """That share times the number of calibrations (Bonferroni: never too small, whatever their dependence), at
        least `smallest` and at most 1."""
        return self._least(scores, rows, smallest)

    def _least(self, scores: NDArray[np.floating], rows: NDArray[np.floating], smallest: float) -> Float64:
        out = np.empty(len(scores), dtype=np.float64)
        least(
            np.ascontiguousarray(scores, dtype=np.float64), rows, self.columns, self.lengths, self.knots,
            self.log_shares, self.tails, smallest, out,
        )  # fmt: skip
        return out


class Shares:
    """Reads shares off a calibration, for arrays of scores."""

    def __init__(self, fit: Calibration) -> None:
        self._fit = fit
        self._scores = np.array((*fit.scores, fit.tail_from))
        self._log_shares = np.log((*fit.shares, fit.tail_share))
        self._rarity = Rarity([fit])

    def log(self, scores: NDArray[np.floating]) -> Float64:
        """Logarithm of the share of healthy rows at or above each of `scores`; NaN for NaN."""
        return self._rarity.log(scores, np.zeros((len(scores), 0), dtype=np.float32))

    def at(self, share: float) -> float:
        """The score that this share of healthy rows reaches: the reverse of `log`. Raises ValueError outside of (0, 1).

        A share smaller than one row in those that were calibrated on is extrapolated along the tail.
        """
        if not 0 < share < 1:
            raise ValueError(f"a share of {share:g}; it must lie between 0 and 1")
        fit = self._fit
        if share >= fit.tail_share:
            order = np.arange(len(self._scores))[::-1]
            return float(np.interp(np.log(share), self._log_shares[order], self._scores[order]))
        beyond = np.log(fit.tail_share / share)
        return fit.tail_from + fit.scale * float(np.expm1(fit.shape * beyond) / fit.shape if fit.shape > 0 else beyond)


@compiled
def least(
    scores: Float64,
    rows: NDArray[np.floating],
    columns: NDArray[np.intp],
    lengths: NDArray[np.intp],
    knots: Float64,
    log_shares: Float64,
    tails: Float64,
    smallest: float,
    out: Float64,
) -> None:
    """Logarithms of shares; with `smallest` above 0 p-values."""
    for i in range(len(scores)):
        out[i] = np.inf
        for k in range(len(lengths)):
            score = scores[i] if k == 0 else np.float64(rows[i, columns[k - 1]])
            last = lengths[k] - 1
            if np.isnan(score):
                out[i] = np.nan
                break
            elif score > knots[k, last]:
                beyond = (score - knots[k, last]) / tails[k, 0]
                shape = tails[k, 1]
                share = log_shares[k, last] - (np.log1p(shape * beyond) / shape if shape > 0 else beyond)
            elif score <= knots[k, 0]:
                share = log_shares[k, 0]
            else:
                at = 1
                while knots[k, at] < score:
                    at += 1
                part = (score - knots[k, at - 1]) / (knots[k, at] - knots[k, at - 1])
                share = log_shares[k, at - 1] + part * (log_shares[k, at] - log_shares[k, at - 1])
            out[i] = min(out[i], share)
        if smallest > 0.0:
            out[i] = min(max(np.exp(out[i]) * len(lengths), smallest), 1.0) if not np.isnan(out[i]) else np.nan


UNCALIBRATED = Calibration(rows=0, scores=(0.0,), shares=(1.0,), tail_from=0.5, tail_share=1.0, scale=1.0, shape=0.0)
"""Before any healthy row was seen: no score is rare."""


def calibrate(scores: Float64) -> Calibration:
    """Empirical shares up to the tail, then a generalised Pareto fit by probability-weighted moments (Hosking and
    Wallis 1987). A fitted tail that would end (negative shape) is taken for exponential: no p-value is too small.

    Raises ValueError where the scores have no tail (too few, or all alike).
    """
    start = float(np.quantile(scores, 1 - TAIL_SHARE)) if len(scores) else 0.0
    excess = np.sort(scores[scores > start] - start)
    n = len(excess)
    if n < 10:
        raise ValueError(f"{len(scores)} scores with {n} in their tail; at least 10 are needed")
    mean = float(excess.mean())
    weighted = float((excess * np.arange(n - 1, -1, -1)).mean()) / (n - 1)
    shape = 2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else 0.0
    shape = min(max(shape, 0.0), HEAVIEST_SHAPE)
    shares = np.concatenate([np.linspace(1.0, 0.1, 19), np.geomspace(0.09, TAIL_SHARE * 1.05, 12)])
    knots = np.quantile(scores, 1 - shares)
    keep = np.concatenate([[True], np.diff(knots) > 0]) & (knots < start)
    if not keep.any():
        raise ValueError("the scores are all alike")
    return Calibration(
        rows=len(scores),
        scores=tuple(float(knot) for knot in knots[keep]),
        shares=tuple(float(share) for share in shares[keep]),
        tail_from=start,
        tail_share=n / len(scores),
        scale=mean * (1 - shape),
        shape=shape,
    )
