"""Own past: exact at first, slow afterwards, robust always, the same after a restart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.job.past import Past


def learned(values: np.ndarray, warm_up: int = 90) -> Past:
    past = Past(values.shape[1], warm_up)
    for row in values:
        past.learn(row)
    return past


def test_centre_and_spread_of_normal_noise() -> None:
    past = learned(np.random.default_rng(1).normal(100, 5, (90, 3)))
    assert past.centre == pytest.approx([100] * 3, abs=2)
    assert past.spread == pytest.approx([5] * 3, rel=0.35)


def test_a_fifth_of_outliers_moves_little() -> None:
    values = np.random.default_rng(1).normal(100, 5, (90, 1))
    values[::5] = 1e6
    assert learned(values).centre[0] == pytest.approx(100, abs=4)


def test_after_the_warm_up_it_moves_slowly() -> None:
    past = learned(np.random.default_rng(1).normal(100, 5, (90, 1)))
    for _ in range(50):
        past.learn(np.array([1000.0]))
    assert past.centre[0] < 115


def test_nan_and_what_is_not_usual_teach_nothing() -> None:
    past = learned(np.full((20, 2), 7.0))
    past.learn(np.array([np.nan, 900.0]), np.array([True, False]))
    assert past.centre.tolist() == [7.0, 7.0]


def test_a_series_that_joins_late_is_learned_too() -> None:
    past = learned(np.full((100, 1), 7.0))
    past.grow(2)
    past.learn(np.array([7.0, 50.0]))
    assert past.centre.tolist() == [7.0, 50.0]


@given(st.integers(1, 200), st.integers(1, 5))
def test_a_restart_continues_where_it_was(rounds: int, size: int) -> None:
    values = np.random.default_rng(rounds).normal(100, 5, (rounds, size))
    past = learned(values)
    again = Past.of(past.state())
    assert again.centre == pytest.approx(past.centre, rel=1e-6)
    again.learn(values[0])
    assert again.learned == rounds + 1
    assert np.isfinite(again.centre).all()
