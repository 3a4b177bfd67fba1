"""Exact scores of an isolation forest, a microsecond a row.

scikit-learn's own scoring costs 3 ms a call however few rows it gets. Here every tree is a complete heap of depth 8
(short branches padded), walked without branches: `i = 2 i + 1 + (x[feature] > threshold)`. Thresholds are float32,
rounded down from scikit-learn's float64, which decides every float32 value alike. A row with a NaN has no score (NaN).
"""

import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled
from detectors.forest.calibration import Rarity, least

DEPTH = 8
"""Levels of a tree: scikit-learn grows to log2(256) with its default 256 samples per tree."""

INNER = 2**DEPTH - 1
LEAVES = 2**DEPTH

JUDGED_METRICS = 5
"""With fewer judged metrics a row has no p-value, and teaches a forest nothing."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

_BLOCK = 32
"""Rows walked together, so that a tree is in the cache once for all of them."""


def forest_scores(
    rows: Float32, floor: Float32, feature: NDArray[np.uint8], threshold: Float32, leaf: Float32, expected: float
) -> Float64:
    """2 to the power of - mean path length of each row over the trees / `expected`: `rows` (n, features), of which
    those below `floor` (features,) are taken for it, `feature` and `threshold` (trees, INNER), `leaf` (trees, LEAVES)
    holding depth plus the expected rest."""
    out = np.empty(len(rows), dtype=np.float64)
    walk(np.ascontiguousarray(rows, dtype=np.float32), floor, feature, threshold, leaf, expected, out)
    return out


def judged_scores(
    rows: Float32,
    judged: NDArray[np.int32],
    floor: Float32,
    feature: NDArray[np.uint8],
    threshold: Float32,
    leaf: Float32,
    expected: float,
    rarity: Rarity,
    smallest: float,
) -> tuple[Float64, Float64, float]:
    """`forest_scores` and their p-values in one pass; NaN where too few metrics were `judged`: without any there is no
    score, with fewer than JUDGED_METRICS no p-value. Then the lowest of the p-values, 1 where there is none."""
    score, p = np.empty(len(rows), dtype=np.float64), np.empty(len(rows), dtype=np.float64)
    lowest = _judge(
        rows, judged, floor, feature, threshold, leaf, expected, rarity.columns, rarity.lengths, rarity.knots,
        rarity.log_shares, rarity.tails, smallest, score, p,
    )  # fmt: skip
    return score, p, lowest


@compiled
def _judge(
    rows: Float32,
    judged: NDArray[np.int32],
    floor: Float32,
    feature: NDArray[np.uint8],
    threshold: Float32,
    leaf: Float32,
    expected: float,
    columns: NDArray[np.intp],
    lengths: NDArray[np.intp],
    knots: Float64,
    log_shares: Float64,
    tails: Float64,
    smallest: float,
    score: Float64,
    p: Float64,
) -> float:
    lowest = 1.0
    walk(rows, floor, feature, threshold, leaf, expected, score)
    least(score, rows, columns, lengths, knots, log_shares, tails, smallest, p)
    for r in range(len(rows)):
        if judged[r] < JUDGED_METRICS:
            p[r] = np.nan
        if judged[r] == 0:
            score[r] = np.nan
        if p[r] < lowest:
            lowest = p[r]
    return lowest


@compiled
def walk(
    given: Float32,
    floor: Float32,
    feature: NDArray[np.uint8],
    threshold: Float32,
    leaf: Float32,
    expected: float,
    out: Float64,
) -> None:  # pragma: no cover - compiled
    rows = np.empty(given.shape, dtype=np.float32)
    for r in range(len(given)):
        for c in range(len(floor)):
            rows[r, c] = floor[c] if given[r, c] < floor[c] else given[r, c]  # NaN stays NaN
    one, inner = np.uint64(1), np.uint64(INNER)  # unsigned: an index that is never counted from the end
    for start in range(0, len(rows), _BLOCK):
        stop = min(start + _BLOCK, len(rows))
        for r in range(start, stop):
            out[r] = 0.0
        for t in range(len(feature)):
            of, at, end = feature[t], threshold[t], leaf[t]
            for r in range(start, stop - 3, 4):  # each waits for its own last step only: four beside each other
                a, b, c, d = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
                i = j = k = m = np.uint64(0)
                for _ in range(DEPTH):
                    i = i + i + one + np.uint64(a[of[i]] > at[i])
                    j = j + j + one + np.uint64(b[of[j]] > at[j])
                    k = k + k + one + np.uint64(c[of[k]] > at[k])
                    m = m + m + one + np.uint64(d[of[m]] > at[m])
                out[r] += end[i - inner]
                out[r + 1] += end[j - inner]
                out[r + 2] += end[k - inner]
                out[r + 3] += end[m - inner]
            for r in range(stop - (stop - start) % 4, stop):
                row, i = rows[r], np.uint64(0)
                for _ in range(DEPTH):
                    i = i + i + one + np.uint64(row[of[i]] > at[i])
                out[r] += end[i - inner]
    for r in range(len(rows)):
        out[r] = np.exp2(-(out[r] / len(feature)) / expected)
        for column in range(len(floor)):
            if np.isnan(rows[r, column]):
                out[r] = np.nan
