"""The forest that ships: trained on deviations of a healthy fleet, so that a new installation scores from the start.

`simulated_deviations` draws such deviations where no healthy fleet is at hand; the model's header says so.
"""

import numpy as np

from detectors.condition import Float32
from detectors.forest import Forest, Training, train

METRICS = 28
"""As many deviations as a data-centre GPU has; fewer are drawn as well."""

TAIL_FREEDOM = 8
"""Degrees of freedom of the noise: heavier than normal, as telemetry is."""

FLAT_SHARE = 0.35
"""The part of the metrics that hardly moves on a healthy GPU (error counters, throttle shares, limits)."""

MISSING_SHARE = 0.03
"""The part of the rows that miss a metric or two."""


def simulated_deviations(random: np.random.Generator, rows: int) -> tuple[Float32, Float32]:
    """Deviations z (rows, metrics) and missing shares (rows,) of healthy GPU ticks: heavy-tailed, with a common factor
    (load), spreads that a baseline got wrong by a quarter, metrics that hardly move and metrics not judged."""
    noise = random.standard_t(TAIL_FREEDOM, (rows, METRICS))
    common = random.standard_t(TAIL_FREEDOM, (rows, 1))
    weight = random.uniform(0, 0.7, (rows, METRICS))
    z = np.sqrt(1 - weight**2) * noise + weight * common
    z *= random.lognormal(-0.1, 0.25, (rows, METRICS))
    z *= np.where(random.random((rows, METRICS)) < FLAT_SHARE, 0.05, 1.0)
    z[random.random((rows, METRICS)) < random.uniform(0, 0.5, (rows, 1))] = np.nan
    missing = np.where(random.random(rows) < MISSING_SHARE, random.integers(1, 3, rows) / METRICS, 0.0)
    return z.astype(np.float32), missing.astype(np.float32)


def simulated_forest(seed: int, rows: int = 200_000) -> Forest:
    """A forest on simulated healthy deviations."""
    random = np.random.default_rng(seed)
    training = Training(source="simulated healthy deviations (heavy-tailed noise)")
    return train(*simulated_deviations(random, rows), training, random)
