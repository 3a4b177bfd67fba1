"""How far from usual a GPU is, whatever its metrics are: the features of the forest.

An axis-parallel forest cannot extrapolate and does not see scale, so raw values score badly (SMD: VUS-PR .293); on
the magnitudes of robust z-scores it does better (.505). The features do not depend on which metrics there are, so one
model serves every kind of GPU.
"""

import numpy as np

from detectors.condition import Float32

NAMES = (
    "log_largest_1",
    "log_largest_2",
    "log_largest_3",
    "log_rms",
    "count_over_3",
    "missing_share",
)
"""The schema of a forest: a model trained for another one is refused."""

LARGEST = 3

RMS_CLIP = 20.0
"""Beyond this a single metric says no more (the RMS of z clipped there was the best plain score on SMD)."""

LARGE = 3.0

JUDGED_METRICS = 5
"""With fewer judged metrics a row has no p-value, and teaches a forest nothing."""

Z_LIMIT = 1e6
"""Larger deviations are taken for this one: features stay finite."""


def magnitudes(z: Float32, missing_share: Float32) -> Float32:
    """Features (rows, len(NAMES)) of deviations `z` (rows, metrics) and the share of metrics that should be here.

    A NaN in `z` is "not judged" and counts for nothing; a row without any judged metric has zeros. Never NaN.
    """
    judged = ~np.isnan(z)
    size = np.where(judged, np.minimum(np.abs(z), np.float32(Z_LIMIT)), np.float32(0))
    count = judged.sum(axis=1, dtype=np.float32)
    large = (size > LARGE).sum(axis=1, dtype=np.float32)
    out = np.zeros((len(z), len(NAMES)), dtype=np.float32)
    largest = -np.sort(-size, axis=1)[:, :LARGEST]
    out[:, : largest.shape[1]] = largest
    out[:, LARGEST] = np.sqrt(np.square(np.minimum(size, np.float32(RMS_CLIP))).sum(axis=1) / np.maximum(count, 1))
    out[:, : LARGEST + 1] = np.log1p(out[:, : LARGEST + 1])
    out[:, LARGEST + 1] = large
    out[:, LARGEST + 2] = np.where(np.isnan(missing_share), 0, missing_share)
    return out


def strongest(z: Float32, names: tuple[str, ...], limit: int = 3) -> list[tuple[str, ...]]:
    """For each row the names of its largest deviations, most first."""
    size = np.where(np.isnan(z), np.float32(0), np.abs(z))
    order = np.argsort(-size, axis=1, kind="stable")[:, :limit].tolist()
    return [tuple(names[i] for i in best if sizes[i] > 0) for best, sizes in zip(order, size.tolist(), strict=True)]
