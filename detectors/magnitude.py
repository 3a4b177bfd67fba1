"""How far from usual a GPU is, whatever its metrics are: the features of the forest.

An axis-parallel forest cannot extrapolate and does not see scale, so raw values score badly; on the magnitudes of
robust z-scores, and of what their fellows do not explain of them (`detectors.coupling`), it does better:
`bench/quality` shows by how much. The features do not depend on which metrics there are, so one model serves every
kind of GPU.
"""

import numpy as np

from detectors.compile import compiled
from detectors.condition import Float32

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

JUDGED_METRICS = 5
"""With fewer judged metrics a row has no p-value, and teaches a forest nothing."""

Z_LIMIT = 1e6
"""Larger deviations are taken for this one: features stay finite."""


def magnitudes(z: Float32, residual: Float32, missing_share: Float32) -> Float32:
    """Features (rows, len(NAMES)) of deviations `z` and their residuals (rows, metrics both), and the share of metrics
    that should be here and are not.

    A NaN in `z` is "not judged" and counts for nothing; a row without any judged metric has zeros. Never NaN.
    """
    out = np.zeros((len(z), len(NAMES)), dtype=np.float32)
    _fill(np.ascontiguousarray(z, dtype=np.float32), np.ascontiguousarray(residual, dtype=np.float32), out)
    out[:, MISSING] = np.where(np.isnan(missing_share), 0, missing_share)
    return out


@compiled
def _fill(z: Float32, residual: Float32, out: Float32) -> None:
    for r in range(z.shape[0]):
        first = second = third = squares = left = 0.0
        judged = large = 0
        for c in range(z.shape[1]):
            size = abs(z[r, c])
            if np.isnan(size):
                continue
            size = min(size, Z_LIMIT)
            judged += 1
            large += size > LARGE
            squares += min(size, RMS_CLIP) ** 2
            left += residual[r, c] ** 2
            if size > first:
                first, second, third = size, first, second
            elif size > second:
                second, third = size, second
            elif size > third:
                third = size
        out[r, 0], out[r, 1], out[r, 2] = np.log1p(first), np.log1p(second), np.log1p(third)
        out[r, 3] = np.log1p(np.sqrt(squares / max(judged, 1)))
        out[r, 4] = np.log1p(np.sqrt(left / max(judged, 1)))
        out[r, 5] = large


def shares(z: Float32, residual: Float32) -> Float32:
    """Each metric's part in how far a row is from usual: of the sum of squares of its deviations (none counts for more
    than 20 spreads) and residuals. Every row adds up to 1, one in which nothing deviates to 0."""
    size = np.square(np.minimum(np.abs(np.nan_to_num(z)), np.float32(RMS_CLIP))) + np.square(np.nan_to_num(residual))
    out: Float32 = size / np.maximum(size.sum(axis=1, keepdims=True), np.float32(1e-30))
    return out


def strongest(share: Float32, names: tuple[str, ...], limit: int = 3) -> list[tuple[str, ...]]:
    """For each row of `shares` the names of the largest, most first."""
    order = np.argsort(-share, axis=1, kind="stable")[:, :limit].tolist()
    return [tuple(names[i] for i in best if part[i] > 0) for best, part in zip(order, share.tolist(), strict=True)]
