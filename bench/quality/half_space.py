"""river's half-space trees on the same machines: a forest that learns as it goes, as an ablation.

Its trees cut [0, 1], so metrics are scaled to the range that the history had, and what lies outside is at its edge.
river is no dependency: without it this is left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEFT_OUT = "left out: river is not installed (pip install river)"


def trees(seed: int) -> Any:
    """Half-space trees as river has them (25 trees of height 8, windows of 250); None without river."""
    try:
        from river.anomaly import HalfSpaceTrees
    except ImportError:
        return None
    return HalfSpaceTrees(seed=seed)


def scores(history: Floats, test: Floats, seed: int) -> Floats | None:
    """Scores of a test (ticks, metrics) after its history, each tick scored before it is learned; None without
    river."""
    model = trees(seed)
    if model is None:
        return None
    low, high = history.min(axis=0), history.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    for row in _rows(history, low, span):
        model.learn_one(row)
    out = np.empty(len(test))
    for tick, row in enumerate(_rows(test, low, span)):
        out[tick] = model.score_one(row)
        model.learn_one(row)
    return out


def _rows(values: Floats, low: Floats, span: Floats) -> list[dict[int, float]]:
    scaled = np.clip((values - low) / span, 0.0, 1.0)
    return [dict(enumerate(row)) for row in scaled.tolist()]
