"""The detector of anything: it learns, judges, stands still while unusual, and never looks ahead."""

from functools import cache

import numpy as np

from detectors.forest.model import Forest
from detectors.node.series import SeriesDetector
from detectors.train.fleet import simulated_forest

COLUMNS = tuple(f"metric_{i}" for i in range(8))


@cache
def model() -> Forest:
    return simulated_forest(seed=3, rows=20_000)


def readings(seed: int, ticks: int, rows: int = 1) -> np.ndarray:
    """All metrics follow a common load; (ticks, rows, metrics)."""
    random = np.random.default_rng(seed)
    common = random.standard_normal((ticks, rows, 1))
    values = 0.5 + 0.1 * common + 0.03 * random.standard_normal((ticks, rows, len(COLUMNS)))
    return values.astype(np.float32)


def taught(rows: int = 1) -> SeriesDetector:
    detector = SeriesDetector(COLUMNS, rows, model(), floor=0.02)
    for values in readings(1, 600, rows):
        detector.learn(values)
    return detector


def test_a_metric_that_leaves_its_fellows_is_found_and_named() -> None:
    detector = taught()
    usual = [detector.update(values) for values in readings(2, 200)]
    apart = readings(3, 10)
    apart[:, 0, 5] += 0.25
    found = [detector.update(values) for values in apart][-1]
    assert found.distance[0] > max(j.distance[0] for j in usual)
    assert found.share[0].argmax() == 5
    assert found.share[0, 5] > 0.5
    assert found.p[0] < np.median([j.p[0] for j in usual]) / 10


def test_all_moving_together_as_they_do_is_less_strange_than_one_apart() -> None:
    together, apart = readings(3, 10), readings(3, 10)
    together += np.float32(0.15)
    apart[:, 0, 5] += 0.15
    one, other = taught(), taught()
    assert [one.update(v) for v in together][-1].distance[0] < [other.update(v) for v in apart][-1].distance[0]


def test_it_stands_still_while_unusual() -> None:
    detector = taught()
    wrong = readings(4, 200)
    wrong[:, 0, :4] -= np.float32(0.4)
    distances = [detector.update(values).distance[0] for values in wrong]
    assert np.median(distances[-50:]) > 0.8 * np.median(distances[5:55])


def test_what_comes_later_changes_nothing_before() -> None:
    long, short = readings(5, 80), readings(5, 80)[:40]
    one, other = taught(), taught()
    first = [one.update(values).distance[0] for values in long][:40]
    assert first == [other.update(values).distance[0] for values in short]


def test_rows_are_judged_as_if_alone() -> None:
    values = readings(6, 150, rows=3)
    together = SeriesDetector(COLUMNS, 3, model())
    alone = [SeriesDetector(COLUMNS, 1, model()) for _ in range(3)]
    for tick in values:
        rows = together.update(tick)
        for i, one in enumerate(alone):
            single = one.update(tick[i : i + 1])
            assert single.distance[0] == rows.distance[i]
            assert single.p[0] == rows.p[i]


def test_missing_readings_are_not_judged() -> None:
    detector = taught()
    nothing = np.full((1, len(COLUMNS)), np.nan, dtype=np.float32)
    for _ in range(5):
        judged = detector.update(nothing)
    assert np.isnan(judged.z).all()
    assert judged.distance[0] == 0
    assert (judged.share == 0).all()
