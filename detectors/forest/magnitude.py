"""How far from usual a GPU is, whatever its metrics are: the features of the forest.

An axis-parallel forest cannot extrapolate and does not see scale, so raw values score badly; on the magnitudes of
robust z-scores, and of what their fellows do not explain of them (`detectors.node.coupling`), it does better:
`bench/quality` shows by how much. The features do not depend on which metrics there are, so one model serves every
kind of GPU.
"""

import numpy as np

from detectors.compile import compiled, part
from detectors.condition import Float32, Index

NAMES = (
    "log_largest_1",
    "log_largest_2",
    "log_largest_3",
    "log_rms",
    "log_residual",
    "count_over_3",
    "missing_share",
)
"""The schema of a forest: a model trained for another one is refused."""

MISSING = len(NAMES) - 1

RMS_CLIP = 20.0
"""Beyond this a single metric says no more (the RMS of z clipped there was the best plain score on SMD)."""

LARGE = 3.0

Z_LIMIT = 1e6
"""Larger deviations are taken for this one: features stay finite."""


def magnitudes(z: Float32, residual: Float32, missing_share: Float32) -> Float32:
    """Features (rows, len(NAMES)) of deviations `z` and their residuals (rows, metrics both), and the share of metrics
    that should be here and are not.

    A NaN in `z` is "not judged" and counts for nothing; a row without any judged metric has zeros. Never NaN.
    """
    return measured(z, residual, missing_share)[0]


def measured(z: Float32, residual: Float32, missing_share: Float32) -> tuple[Float32, Index]:
    """`magnitudes`, and how many metrics of each row were judged."""
    out = np.empty((len(z), len(NAMES)), dtype=np.float32)
    judged = np.empty(len(z), dtype=np.intp)
    _measured(
        np.ascontiguousarray(z, dtype=np.float32), np.ascontiguousarray(residual, dtype=np.float32), missing_share,
        out, judged,
    )  # fmt: skip
    return out, judged


@compiled
def _measured(z: Float32, residual: Float32, missing_share: Float32, out: Float32, judged: Index) -> None:
    for r in range(len(z)):
        judged[r] = measure_row(z[r], residual[r], missing_share[r], out[r])


@part
def measure_row(z: Float32, residual: Float32, missing_share: float, out: Float32) -> int:
    """`magnitudes` of one row into `out`; how many of its metrics were judged is returned."""
    first = second = third = squares = left = 0.0
    judged = large = 0
    for c in range(len(z)):
        size = abs(z[c])
        if np.isnan(size):
            continue
        size = min(size, Z_LIMIT)
        judged += 1
        large += size > LARGE
        squares += min(size, RMS_CLIP) ** 2
        left += residual[c] ** 2
        if size > first:
            first, second, third = size, first, second
        elif size > second:
            second, third = size, second
        elif size > third:
            third = size
    out[0], out[1], out[2] = np.log1p(first), np.log1p(second), np.log1p(third)
    out[3] = np.log1p(np.sqrt(squares / max(judged, 1)))
    out[4] = np.log1p(np.sqrt(left / max(judged, 1)))
    out[5] = large
    out[MISSING] = 0.0 if np.isnan(missing_share) else missing_share
    return judged


def shares(z: Float32, residual: Float32) -> Float32:
    """Each metric's part in how far a row is from usual: of the sum of squares of its deviations (none counts for more
    than 20 spreads) and residuals. Every row adds up to 1, one in which nothing deviates to 0."""
    size = np.square(np.minimum(np.abs(np.nan_to_num(z)), np.float32(RMS_CLIP))) + np.square(np.nan_to_num(residual))
    out: Float32 = size / np.maximum(size.sum(axis=1, keepdims=True), np.float32(1e-30))
    return out


@part
def largest_row(z: Float32, residual: Float32, found: Index) -> None:
    """Places of the metrics with the largest `shares` of one row, most first, into `found`; -1 for none."""
    limit = len(found)
    sizes = np.empty(limit, dtype=np.float32)
    for k in range(limit):
        sizes[k], found[k] = 0.0, -1
    for c in range(len(z)):
        deviation = np.float32(0.0) if np.isnan(z[c]) else min(abs(z[c]), np.float32(RMS_CLIP))
        left = np.float32(0.0) if np.isnan(residual[c]) else residual[c]
        size = deviation * deviation + left * left
        at = limit
        while at > 0 and size > sizes[at - 1]:
            at -= 1
        for k in range(limit - 1, at, -1):
            sizes[k], found[k] = sizes[k - 1], found[k - 1]
        if at < limit:
            sizes[at], found[at] = size, c
