"""Scoring rows with the compiled forest, side by side in one run: scikit-learn's and treelite's own scoring of the same
trees, and river's half-space trees, which are another forest and stand for what a streaming library costs.

    python -m bench.forest [--format json]

All on one thread. treelite and river are no dependencies: one that is not installed is left out, and said so.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before scikit-learn is imported

import numpy as np
from sklearn.ensemble import IsolationForest

from bench.quality import half_space
from detectors.condition import Float32
from detectors.forest.magnitude import magnitudes
from detectors.forest.model import Training, from_sklearn
from detectors.train.fleet import simulated_deviations

COUNTS = (1, 64, 16_384)
BATCHES, FEW = 15, 3
"""Batches that the best is taken of; few of the largest, which runs for seconds."""

LEARNED = 1000
"""Rows that the half-space trees have seen before they are timed: four of their windows."""


class Scorer(NamedTuple):
    """`exact`: it scores our trees, and must say what we say."""

    name: str
    score: Callable[[Float32], Any]
    exact: bool


def best_us(work: Callable[[], object], repeats: int, batches: int) -> float:
    """Microseconds of one call: the best of some batches, which other work on the machine disturbs least."""
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best * 1e6


def scorers(trees: IsolationForest, rows: Float32) -> Iterator[Scorer | str]:
    """Who else scores, or who is left out and why."""
    yield Scorer("scikit-learn", lambda batch: -trees.score_samples(batch), True)
    try:
        import treelite
    except ImportError:
        yield "treelite: left out, not installed (pip install treelite)"
    else:
        model = treelite.sklearn.import_model(trees)
        yield Scorer("treelite", lambda batch: treelite.gtil.predict(model, batch, nthread=1).ravel(), True)
    forest = half_space.trees(seed=1)
    if forest is None:
        yield f"half-space trees: {half_space.LEFT_OUT}"
        return
    scale = rows.max(axis=0)
    for row in (rows[:LEARNED] / scale).tolist():
        forest.learn_one(dict(enumerate(row)))
    yield Scorer("river", lambda batch: [forest.score_one(dict(enumerate(row))) for row in batch.tolist()], False)


def measured() -> Iterator[dict[str, Any]]:
    """One line for each other scorer and number of rows; `note` where one is left out."""
    rows = magnitudes(*simulated_deviations(np.random.default_rng(1), 20_000))
    trees = IsolationForest(n_estimators=100, max_samples=256, random_state=1).fit(rows)
    ours = from_sklearn(trees, Training(source="bench"))
    ours.score(rows[:1])  # compiles
    mine = {n: best_us(partial(ours.score, rows[:n]), max(1, 4096 // n), BATCHES) / n for n in COUNTS}
    for other in scorers(trees, rows):
        if isinstance(other, str):
            yield {"note": other}
            continue
        for count in COUNTS:
            batch = rows[:count]
            theirs = best_us(partial(other.score, batch), 1, BATCHES if count < COUNTS[-1] else FEW) / count
            line: dict[str, Any] = {"other": other.name, "rows": count, "us_a_row": theirs, "our_us_a_row": mine[count]}
            if other.exact:
                line["largest_difference"] = float(np.abs(ours.score(batch) - other.score(batch)).max())
            yield line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.forest", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    lines = measured()
    if parser.parse_args().format == "json":
        print(json.dumps(list(lines), indent=1))
        return
    print("100 trees of 256 samples, 7 features, one thread")
    print(f"{'':<14}{'rows':>7}{'its us/row':>13}{'ours':>8}{'ratio':>9}")
    for line in lines:
        if "note" in line:
            print(line["note"])
            continue
        theirs, mine = line["us_a_row"], line["our_us_a_row"]
        exact = f"  differs by {line['largest_difference']:.1e}" if "largest_difference" in line else ""
        print(f"{line['other']:<14}{line['rows']:>7}{theirs:>13.2f}{mine:>8.2f}{theirs / mine:>8.1f}x{exact}")


if __name__ == "__main__":
    main()
