"""How well a score ranks labelled points and ranges, without adjusting either.

VUS-PR is the volume under the precision-recall surface of Paparrizos et al., "Volume under the surface: a new accuracy
evaluation measure for time-series anomaly detection" (VLDB 2022): labels get soft shoulders of 0 to `window` points,
recall is weighted with the share of ranges that were met at all, and the areas are averaged over the shoulders. The
constants (250 thresholds, the window from the autocorrelation of the first column) are those of the benchmark TSB-AD
(Liu and Paparrizos, NeurIPS 2024), whose published figures this code reproduces to three digits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

Floats = NDArray[np.float64]
Labels = NDArray[np.integer]

THRESHOLDS = 250
LAGS, LEAST_LAG, MOST_LAG, NO_PERIOD = 400, 3, 300, 125
PERIOD_POINTS = 20_000


class Quality(NamedTuple):
    """`f1` is the best of all thresholds, of single points, without point adjustment."""

    vus_pr: float
    auc_pr: float
    f1: float
    auc_roc: float


def quality(score: Floats, label: Labels, window: int) -> Quality:
    """All figures of one score (n,) against labels (n,) of 0 and 1; higher scores are stranger."""
    precision, recall, _ = precision_recall_curve(label, score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return Quality(
        vus_pr(score, label, window),
        float(average_precision_score(label, score)),
        float(f1.max()),
        float(roc_auc_score(label, score)),
    )


def vus_pr(score: Floats, label: Labels, window: int) -> float:
    """The volume under the precision-recall surface over shoulders of 0 to `window` points."""
    ranges = ranges_of(label)
    if not ranges:
        raise ValueError("no labelled range: there is nothing to be found")
    descending = -np.sort(-score)
    cuts = descending[np.linspace(0, len(score) - 1, THRESHOLDS).astype(int)]
    first = np.searchsorted(-cuts, -score, side="left")  # the first cut that takes each point in
    taken = np.cumsum(np.bincount(first, minlength=THRESHOLDS))
    return float(np.mean([_area(first, taken, label, ranges, w) for w in range(window + 1)]))


def _area(
    first: NDArray[np.intp], taken: NDArray[np.intp], label: Labels, ranges: list[tuple[int, int]], w: int
) -> float:
    """The area under precision and recall with shoulders of `w` points."""
    soft = label.astype(np.float64)
    for start, end in ranges:
        after = np.arange(end + 1, min(end + w // 2 + 1, len(label)))
        before = np.arange(max(start - w // 2, 0), start)
        soft[after] += np.sqrt(1 - (after - end) / w) if w else 0.0
        soft[before] += np.sqrt(1 - (start - before) / w) if w else 0.0
    soft = np.minimum(soft, 1.0)
    positive = np.cumsum(np.bincount(first, weights=soft, minlength=THRESHOLDS))
    inside = np.cumsum(np.bincount(first, weights=soft * (label > 0), minlength=THRESHOLDS))
    hard = float(label.sum())
    # Half of the labels and half of the labels with those shoulders that were found, as the paper defines it.
    relevant = (hard + hard + positive - inside) / 2
    met = np.array([first[max(a, 0) : b + 1].min() for a, b in _merged(ranges, w, len(label))])
    existence = np.cumsum(np.bincount(met, minlength=THRESHOLDS)) / len(met)
    recall = np.minimum(positive / relevant, 1.0) * existence
    return float(np.dot(np.diff(recall, prepend=0.0), positive / taken))


def _merged(ranges: list[tuple[int, int]], w: int, length: int) -> list[tuple[int, int]]:
    """Ranges with their shoulders; those that touch are one."""
    out = [(max(ranges[0][0] - w // 2, 0), ranges[0][1] + w // 2)]
    for start, end in ranges[1:]:
        if out[-1][1] < start - w // 2:
            out.append((start - w // 2, end + w // 2))
        else:
            out[-1] = (out[-1][0], end + w // 2)
    out[-1] = (out[-1][0], min(out[-1][1], length - 1))
    return out


def ranges_of(label: Labels) -> list[tuple[int, int]]:
    """First and last index of each run of ones.

    >>> ranges_of(np.array([1, 0, 1, 1]))
    [(0, 0), (2, 3)]
    """
    edges = np.diff(np.concatenate([[0], (label > 0).astype(int), [0]]))
    return [(int(a), int(b) - 1) for a, b in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True)]


def period_of(column: Floats) -> int:
    """The lag of the highest local maximum of the autocorrelation, up to 300 points; 125 where there is none."""
    x = np.asarray(column[:PERIOD_POINTS], dtype=np.float64)
    x = x - x.mean()
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), size)[: LAGS + 1]
    if covariance[0] <= 0:
        return NO_PERIOD
    r = covariance[LEAST_LAG:] / covariance[0]
    peaks = np.flatnonzero((r[1:-1] > r[:-2]) & (r[1:-1] > r[2:])) + 1
    if not len(peaks):
        return NO_PERIOD
    best = int(peaks[np.argmax(r[peaks])])
    return best + LEAST_LAG if LEAST_LAG <= best <= MOST_LAG else NO_PERIOD
