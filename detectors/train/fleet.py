"""The forest that ships: trained on deviations of a healthy fleet, so that a new installation scores from the start.

`deviations_of` takes them from frames, recorded or simulated; `simulated_deviations` draws them as noise with heavier
tails than a simulator's, which is calmer than any real fleet. A model's header says what it was trained on.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from detectors.condition import Float32
from detectors.forest.model import Forest, Training, train
from detectors.forest.scoring import JUDGED_METRICS
from detectors.node.coupling import Couplings
from detectors.node.deviation import Deviations
from detectors.node.gpu_columns import SCORED_NAMES
from schemas.frame import NodeFrame

METRICS = len(SCORED_NAMES)
"""As many deviations as the catalogue has; fewer are drawn as well."""

TAIL_FREEDOM = 8
"""Degrees of freedom of the noise: heavier than normal, as telemetry is."""

FLAT_SHARE = 0.35
"""The part of the metrics that hardly moves on a healthy GPU (error counters, throttle shares, limits)."""

LIFE = 1000
"""Simulated ticks of one thing: long enough to learn how its metrics move together."""

MISSING_SHARE = 0.03
"""The part of the rows that miss a metric or two."""


def simulated_deviations(random: np.random.Generator, rows: int) -> tuple[Float32, Float32, Float32]:
    """Deviations z and residuals (rows, metrics both) and missing shares (rows,) of healthy GPU ticks: heavy-tailed,
    with a common factor (load), spreads that a baseline got wrong by a quarter, metrics that hardly move and metrics
    not judged."""
    noise = random.standard_t(TAIL_FREEDOM, (rows, METRICS))
    common = random.standard_t(TAIL_FREEDOM, (rows, 1))
    weight = random.uniform(0, 0.7, (rows, METRICS))
    z = np.sqrt(1 - weight**2) * noise + weight * common
    z *= random.lognormal(-0.1, 0.25, (rows, METRICS))
    z *= np.where(random.random((rows, METRICS)) < FLAT_SHARE, 0.05, 1.0)
    z[random.random((rows, METRICS)) < random.uniform(0, 0.5, (rows, 1))] = np.nan
    missing = np.where(random.random(rows) < MISSING_SHARE, random.integers(1, 3, rows) / METRICS, 0.0)
    deviations: Float32 = z.astype(np.float32)
    return deviations, _residuals(deviations), missing.astype(np.float32)


def _residuals(z: Float32) -> Float32:
    """As one thing after the other would have learned them, each `LIFE` ticks long."""
    things = -(-len(z) // LIFE)
    couplings = Couplings(SCORED_NAMES, things)
    padded = np.full((things * LIFE, z.shape[1]), np.nan, dtype=np.float32)
    padded[: len(z)] = z
    out = np.empty_like(padded).reshape(things, LIFE, -1)
    everybody = np.ones(things, dtype=bool)
    for tick, rows in enumerate(padded.reshape(things, LIFE, -1).transpose(1, 0, 2)):
        out[:, tick] = couplings.residual(np.ascontiguousarray(rows))
        couplings.learn(np.ascontiguousarray(rows), everybody)
    flat: Float32 = out.reshape(padded.shape)[: len(z)]
    return flat


class Healthy(NamedTuple):
    """Deviations z and residuals (rows, metrics both), missing shares (rows,) and the window they are from."""

    z: Float32
    residual: Float32
    missing_share: Float32
    from_ms: int
    to_ms: int


def deviations_of(frames: Iterable[NodeFrame]) -> Healthy:
    """What healthy frames deviate by, each node's in order; rows with hardly a judged metric are left out."""
    nodes: dict[str, Deviations] = {}
    z, missing = [np.zeros((0, METRICS), dtype=np.float32)], [np.zeros(0, dtype=np.float32)]
    residual = list(z)
    window: list[int] = []
    for frame in frames:
        node = nodes.setdefault(frame.node, Deviations())
        tick = node.update(frame)
        node.learn(np.ones(len(tick.uuids), dtype=bool))
        judged = tick.judged >= JUDGED_METRICS
        z.append(tick.scored[judged])
        residual.append(tick.residual[judged])
        missing.append(tick.missing_share[judged])
        window = [min([*window[:1], frame.ts_ms]), max([*window[1:], frame.ts_ms])]
    return Healthy(np.concatenate(z), np.concatenate(residual), np.concatenate(missing), *(window or [0, 0]))


def fleet_forest(frames: Iterable[NodeFrame], source: str, seed: int, name: str = "fleet") -> Forest:
    """A forest on healthy frames, and as many rows of heavy-tailed noise: no tighter than a real fleet is.

    Raises ModelError with fewer than 5000 judged rows.
    """
    random = np.random.default_rng(seed)
    healthy = deviations_of(frames)
    simulated = simulated_deviations(random, len(healthy.z))
    training = Training(
        source=f"{source}; and as many rows of heavy-tailed noise", from_ms=healthy.from_ms, to_ms=healthy.to_ms
    )
    z, residual, missing_share = (np.concatenate(pair) for pair in zip(healthy[:3], simulated, strict=True))
    return train(z, residual, missing_share, training, random, name)


def simulated_forest(seed: int, rows: int = 200_000) -> Forest:
    """A forest on simulated healthy deviations."""
    random = np.random.default_rng(seed)
    training = Training(source="simulated healthy deviations (heavy-tailed noise)")
    return train(*simulated_deviations(random, rows), training, random)
