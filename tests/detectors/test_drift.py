"""Slopes that are sure, and noise that is none. All series here are simulated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.drift.ladder import RUNGS
from detectors.drift.trend import LEAST_CONCORDANCE, Z, arrival, concordance, rising


def correlated(random: np.random.Generator, rows: int, points: int, r: float) -> np.ndarray:
    """Noise of which each point keeps a share `r` of the one before it."""
    out = random.standard_normal((rows, points))
    for i in range(1, points):
        out[:, i] = r * out[:, i - 1] + (1 - r * r) ** 0.5 * out[:, i]
    return out


@pytest.mark.parametrize("r", [0.0, 0.5])
@pytest.mark.parametrize("points", [rung.points for rung in RUNGS])
def test_noise_is_no_slope(points: int, r: float) -> None:
    """By the normal law one in 1e7 each: none of 6 x 5,000."""
    series = correlated(np.random.default_rng(points), 5_000, points, r)
    promising = series[concordance(series) >= LEAST_CONCORDANCE / 2]
    assert len(promising) < len(series) / 2
    assert [values for values in promising if rising(values) is not None] == []


@given(st.integers(0, 10_000), st.integers(1, 20), st.floats(-30, 30), st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_what_never_reaches_the_concordance_is_never_sure(seed: int, ties: int, shift: float, scale: float) -> None:
    random = np.random.default_rng(seed)
    series = np.round(random.standard_normal(24) * ties) * scale + shift
    if concordance(series[None])[0] < LEAST_CONCORDANCE:
        assert rising(series) is None


@pytest.mark.parametrize("points", [rung.points for rung in RUNGS])
def test_a_true_slope_is_found_and_its_end_lies_within_the_stated_bounds(points: int) -> None:
    """Noise a tenth of the way: the bounds are said to hold in nine of ten cases."""
    random = np.random.default_rng(points)
    true = 10.0 / (points - 1)
    limit, after = 18.0, (18.0 - 10.0) / true
    found, within = 0, 0
    for _ in range(200):
        slope = rising(true * np.arange(points) + random.standard_normal(points))
        if slope is not None:
            when = arrival(slope, limit)
            found += 1
            within += when.soonest <= after <= when.latest
            assert when.soonest <= when.likely <= when.latest
            assert when.likely == pytest.approx(after, rel=0.6)
    assert found > 0.5 * 200
    assert within >= 0.85 * found


def test_a_drift_that_quickens_is_found() -> None:
    random = np.random.default_rng(3)
    shape = np.linspace(0, 1, 28) ** 2
    found = [rising(12 * shape + random.standard_normal(28)) for _ in range(50)]
    assert sum(slope is not None for slope in found) > 25


def test_a_step_is_no_drift() -> None:
    """Another load: half of the window on another level."""
    random = np.random.default_rng(4)
    for _ in range(200):
        assert rising(np.where(np.arange(28) >= 14, 8.0, 0.0) + random.standard_normal(28)) is None


@given(st.integers(0, 10_000), st.floats(-100, 100), st.sampled_from([0.25, 4.0, 1024.0]))
@settings(max_examples=40, deadline=None)
def test_units_do_not_matter(seed: int, shift: float, scale: float) -> None:
    values = 0.5 * np.arange(24) + np.random.default_rng(seed).standard_normal(24)
    one, other = rising(values), rising(values * scale + shift)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert other.slope == pytest.approx(scale * one.slope, rel=1e-6)
        assert other.z == pytest.approx(one.z, rel=1e-3)


def test_a_few_wild_points_do_not_move_it() -> None:
    values = np.arange(30.0) + np.random.default_rng(5).standard_normal(30) / 10
    values[[4, 11, 20]] = [900.0, -900.0, 900.0]
    slope = rising(values)
    assert slope is not None
    assert slope.slope == pytest.approx(1.0, abs=0.1)


def test_gaps_are_left_out_and_a_series_that_ended_says_nothing() -> None:
    values = np.arange(30.0)
    values[[3, 9, 10, 21]] = np.nan
    slope = rising(values)
    assert slope is not None
    assert slope.slope == 1.0
    assert slope.value == 29.0
    values[20:] = np.nan
    assert rising(values) is None


def test_few_points_are_never_sure() -> None:
    assert rising(np.arange(10.0)) is None
    assert rising(np.full(24, np.nan)) is None
    assert rising(np.full(24, 3.0)) is None
    assert rising(np.arange(24.0), Z) is not None


def test_where_it_is_already_it_arrives_now() -> None:
    slope = rising(np.arange(24.0))
    assert slope is not None
    assert arrival(slope, 20.0) == (0.0, 0.0, 0.0)
    assert arrival(slope, 33.0).likely == 10.0
