"""The forest that ships: trained on deviations of a healthy fleet, so that a new installation scores from the start.

`deviations_of` takes them from frames, recorded or simulated; `simulated_deviations` draws them as noise with heavier
tails than a simulator's, which is calmer than any real fleet. A model's header says what it was trained on.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from detectors.condition import Float32
from detectors.deviation import SCORED, Deviations
from detectors.forest import Forest, Training, train
from detectors.magnitude import JUDGED_METRICS
from schemas.frame import NodeFrame

METRICS = int(SCORED.sum())
"""As many deviations as the catalogue has; fewer are drawn as well."""

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


class Healthy(NamedTuple):
    """Deviations z (rows, metrics), missing shares (rows,) and the window they are from."""

    z: Float32
    missing_share: Float32
    from_ms: int
    to_ms: int


def deviations_of(frames: Iterable[NodeFrame]) -> Healthy:
    """What healthy frames deviate by, each node's in order; rows with hardly a judged metric are left out."""
    nodes: dict[str, Deviations] = {}
    z, missing = [np.zeros((0, METRICS), dtype=np.float32)], [np.zeros(0, dtype=np.float32)]
    window: list[int] = []
    for frame in frames:
        node = nodes.setdefault(frame.node, Deviations())
        tick = node.update(frame)
        node.learn(np.ones(len(tick.uuids), dtype=bool))
        judged = (~np.isnan(tick.z[:, SCORED])).sum(axis=1) >= JUDGED_METRICS
        z.append(tick.z[judged][:, SCORED])
        missing.append(tick.missing_share[judged])
        window = [min([*window[:1], frame.ts_ms]), max([*window[1:], frame.ts_ms])]
    return Healthy(np.concatenate(z), np.concatenate(missing), *(window or [0, 0]))


def fleet_forest(frames: Iterable[NodeFrame], source: str, seed: int, name: str = "fleet") -> Forest:
    """A forest on healthy frames, and as many rows of heavy-tailed noise: no tighter than a real fleet is.

    Raises ModelError with fewer than 5000 judged rows.
    """
    random = np.random.default_rng(seed)
    healthy = deviations_of(frames)
    noise, gaps = simulated_deviations(random, len(healthy.z))
    training = Training(
        source=f"{source}; and as many rows of heavy-tailed noise", from_ms=healthy.from_ms, to_ms=healthy.to_ms
    )
    z, missing_share = np.concatenate([healthy.z, noise]), np.concatenate([healthy.missing_share, gaps])
    return train(z, missing_share, training, random, name)


def simulated_forest(seed: int, rows: int = 200_000) -> Forest:
    """A forest on simulated healthy deviations."""
    random = np.random.default_rng(seed)
    training = Training(source="simulated healthy deviations (heavy-tailed noise)")
    return train(*simulated_deviations(random, rows), training, random)
