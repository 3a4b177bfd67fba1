"""Scoring a row with the compiled forest against scikit-learn's own scoring of the same trees, side by side.

python bench/forest.py
"""

import time
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import IsolationForest

from detectors.forest.magnitude import magnitudes
from detectors.forest.model import Training, from_sklearn
from detectors.train.fleet import simulated_deviations

BATCHES = 15


def best_us(work: Callable[[], object], repeats: int) -> float:
    """Microseconds of one call: the best of some batches, which other work on the machine disturbs least."""
    best = float("inf")
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best * 1e6


def main() -> None:
    rows = magnitudes(*simulated_deviations(np.random.default_rng(1), 20_000))
    trees = IsolationForest(n_estimators=100, max_samples=256, random_state=1).fit(rows)
    start = time.perf_counter()
    ours = from_sklearn(trees, Training(source="bench"))
    print(
        f"100 trees of 256 samples, {rows.shape[1]} features; conversion {(time.perf_counter() - start) * 1e3:.0f} ms"
    )
    ours.score(rows[:1])
    print(f"{'rows':>6} {'compiled us/row':>16} {'scikit-learn us/row':>20} {'ratio':>7} {'largest difference':>19}")
    for count in (1, 64, 16_384):
        batch = rows[:count]
        mine = best_us(lambda batch=batch: ours.score(batch), max(1, 4096 // count)) / count
        theirs = best_us(lambda batch=batch: trees.score_samples(batch), 1) / count
        difference = float(np.abs(ours.score(batch) + trees.score_samples(batch)).max())
        print(f"{count:>6} {mine:>16.2f} {theirs:>20.2f} {theirs / mine:>6.1f}x {difference:>19.1e}")


if __name__ == "__main__":
    main()
