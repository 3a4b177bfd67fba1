"""Baselines: robust, slow, kept apart by activity, and saved by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.node.baseline import WARM_UP_TICKS, Baseline, floor_of
from detectors.state import StateError

COLUMNS = ("power_w", "temperature_c")
ZERO = np.zeros(1, dtype=np.intp)
YES = np.ones(1, dtype=bool)


def feed(baseline: Baseline, values: np.ndarray, usual: bool = True, state: int = 0) -> None:
    """(ticks, columns) into the one row."""
    for row in values.astype(np.float32):
        baseline.learn(row[None], np.full(1, state), np.full(1, usual))


def noise(seed: int, ticks: int, spread: float = 1.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.array([700.0, 60.0]) + spread * np.array([20.0, 1.5]) * random.standard_normal((ticks, 2))


def test_learns_centre_and_spread_of_noise() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(1, 3000))
    np.testing.assert_allclose(baseline.centre(ZERO)[0], [700, 60], rtol=0.01)
    np.testing.assert_allclose(baseline.spread(ZERO)[0], [20, 1.5], rtol=0.1)


def test_is_robust_against_outliers() -> None:
    baseline = Baseline(COLUMNS, 1)
    values = noise(2, 3000)
    values[::25] *= 10
    feed(baseline, values)
    np.testing.assert_allclose(baseline.centre(ZERO)[0], [700, 60], rtol=0.02)
    usual = np.array([[700 + 5 * 20, 60 + 5 * 1.5]], dtype=np.float32)
    assert (np.abs(baseline.centre(ZERO)[0] - [700, 60]) < [5, 0.5]).all()
    assert (baseline.compare(usual * 10, ZERO)[0][0] > 2).all()


def test_a_rare_mode_that_comes_and_goes_is_usual() -> None:
    """Power polled once a second: three readings of every 24 meet the communication phase."""
    baseline = Baseline(COLUMNS, 1)
    values = noise(12, 3600, 0.2)
    values[np.arange(3600) % 24 < 3, 0] = 430.0
    feed(baseline, values)
    z = baseline.compare(np.array([[430, 80]], dtype=np.float32), ZERO)[0][0]
    assert -3 < z[0] < -1.5
    assert z[1] > 15


def test_is_slow_a_fault_of_ten_minutes_is_not_unlearned() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(3, 4000))
    feed(baseline, noise(4, 600) + np.array([-200.0, 20.0]))
    z = baseline.compare(np.array([[500, 80]], dtype=np.float32), ZERO)[0][0]
    assert z[0] < -4
    assert z[1] > 4


def test_frozen_where_not_usual() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(5, 500))
    before = baseline.state()
    feed(baseline, noise(6, 100) * 2, usual=False)
    assert baseline.state() == before


def test_judges_nothing_before_the_warm_up() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(7, WARM_UP_TICKS - 1))
    assert np.isnan(baseline.compare(np.array([[0, 0]], dtype=np.float32), ZERO)[0]).all()
    feed(baseline, noise(8, 1))
    assert not np.isnan(baseline.compare(np.array([[0, 0]], dtype=np.float32), ZERO)[0]).any()


def test_states_do_not_share_what_they_learn() -> None:
    baseline = Baseline(COLUMNS, 1, states=2)
    feed(baseline, noise(9, 200), state=1)
    assert np.isnan(baseline.centre(ZERO)).all()
    assert not np.isnan(baseline.centre(ZERO + 1)).any()
    baseline.forget(1, YES)
    assert np.isnan(baseline.centre(ZERO + 1)).all()


def test_a_constant_has_the_floor_of_its_unit_as_spread() -> None:
    baseline = Baseline(("sm_clock_mhz", "ecc_sbe_count"), 1)
    feed(baseline, np.tile([1900.0, 0.0], (200, 1)))
    np.testing.assert_allclose(baseline.spread(ZERO)[0], [19.0, 1.0])
    z = baseline.compare(np.array([[1900, 0]], dtype=np.float32), ZERO)[0]
    assert (z == 0).all()


def test_missing_readings_teach_nothing() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(10, 200))
    before = baseline.state()
    feed(baseline, np.full((50, 2), np.nan))
    assert baseline.state() == before
    assert np.isnan(baseline.compare(np.full((1, 2), np.nan, dtype=np.float32), ZERO)[0]).all()


def test_checkpoints_match_columns_by_name() -> None:
    baseline = Baseline(COLUMNS, 1)
    feed(baseline, noise(11, 200))
    other = Baseline(("temperature_c", "new_c", "power_w"), 0)
    other.restore(baseline.state())
    centre = other.centre(ZERO)[0]
    np.testing.assert_array_equal(centre[[2, 0]], baseline.centre(ZERO)[0])
    assert np.isnan(centre[1])


@pytest.mark.parametrize("bad", [b"", b"\x00", b"garbage", Baseline(COLUMNS, 1, states=3).state()])
def test_a_foreign_checkpoint_is_refused(bad: bytes) -> None:
    with pytest.raises(StateError):
        Baseline(COLUMNS, 1).restore(bad)


def test_every_unit_of_the_catalogue_has_a_floor() -> None:
    from detectors.node.gpu_columns import COMPARED

    assert [name for name in COMPARED if floor_of(name) <= 1e-6] == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(range(5)))
def test_rows_are_independent_of_each_other_and_of_their_order(seed: int, order: list[int]) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(50, 5, (90, 5, 2)).astype(np.float32)
    values[random.random(values.shape) < 0.1] = np.nan
    states = random.integers(0, 2, (90, 5))
    usual = random.random((90, 5)) < 0.9
    plain, mixed = Baseline(COLUMNS, 5, states=2), Baseline(COLUMNS, 5, states=2)
    for tick in range(90):
        plain.learn(values[tick], states[tick], usual[tick])
        mixed.learn(values[tick][order], states[tick][order], usual[tick][order])
    np.testing.assert_array_equal(mixed.centre(states[-1][order]), plain.centre(states[-1])[order])
    mixed.take(np.argsort(order))
    assert mixed.state() == plain.state()
