"""Events that come back."""

import math

import numpy as np
import pytest

from detectors.drift.ladder import DAY_MS
from detectors.drift.recurrence import MOST_KEPT, WINDOW_MS, Marks, pace, too_often

HOUR_MS = 3_600_000


def test_the_third_within_a_month_is_too_many_where_a_healthy_part_has_one_in_a_thousand_days() -> None:
    assert [n for n in range(10) if too_often(n, 1_000.0)] == list(range(3, 10))
    assert [n for n in range(10) if too_often(n, 30.0)] == [9]


def test_chance_alone_is_as_rare_as_stated() -> None:
    """Ten million GPU-days of one event in 100 days (more often than health, so that something is there to count):
    windows of 30 days with six or more against the formula."""
    random = np.random.default_rng(1)
    counts = random.poisson(30 / 100, 300_000)
    expected = 1 - sum(math.exp(-0.3) * 0.3**n / math.factorial(n) for n in range(3))
    assert np.mean(counts >= 3) == pytest.approx(expected, rel=0.1)
    assert not too_often(3, 100.0)


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0.0, 2.996), (1, 0.0513, 4.744), (10, 5.425, 16.962)])
def test_the_bounds_of_a_pace_are_the_exact_ones(count: int, low: float, high: float) -> None:
    """Garwood's table for 90 %."""
    found = pace(count, 1.0)
    assert [found.low, found.high] == pytest.approx([low, high], abs=2e-3)


def test_the_true_pace_lies_within_its_bounds() -> None:
    random = np.random.default_rng(2)
    within = [pace(int(n), 10.0) for n in random.poisson(5.0, 400)]
    assert np.mean([p.low <= 0.5 <= p.high for p in within]) >= 0.9


def test_what_comes_close_together_is_one_and_what_is_old_is_forgotten() -> None:
    marks = Marks()
    for hour, value in ((0, 4.0), (0.5, 5.0), (30, 6.0), (30, 6.0), (29, 9.0)):
        marks.add(int(hour * HOUR_MS), value, HOUR_MS, before=3.0)
    assert (marks.at_ms, marks.value, marks.before) == ([0, 30 * HOUR_MS], [5.0, 6.0], 3.0)
    assert marks.within(WINDOW_MS) == 2
    assert marks.within(WINDOW_MS + 1) == 1
    assert marks.before == 5.0


def test_what_a_clock_ahead_said_is_forgotten() -> None:
    marks = Marks()
    for day in (1, 2, 9_000):
        marks.add(day * DAY_MS, 1.0, HOUR_MS)
    assert marks.within(3 * DAY_MS) == 2


def test_memory_is_bounded() -> None:
    marks = Marks()
    for day in range(100):
        marks.add(day * DAY_MS, float(day), HOUR_MS)
    assert len(marks.at_ms) == len(marks.value) == MOST_KEPT
    assert marks.before == marks.value[0] - 1
