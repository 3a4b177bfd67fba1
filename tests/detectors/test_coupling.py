"""Couplings: what the other metrics explain, learned row by row and saved by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.node.coupling import EXPLAINED_BY_NOISE, LIMIT_Z, REFRESH_TICKS, Couplings
from detectors.state import StateError

COLUMNS = ("power_w", "sm_clock_mhz", "temperature_c")
YES = np.ones(1, dtype=bool)


def load(seed: int, ticks: int) -> np.ndarray:
    """Power and clock move together, temperature by itself."""
    random = np.random.default_rng(seed)
    common = random.standard_normal((ticks, 1))
    own = random.standard_normal((ticks, 3))
    z = np.array([1, 1, 0]) * common + np.array([0.4, 0.4, 1]) * own
    return z.astype(np.float32)


def learned(ticks: int = 2000, seed: int = 1) -> Couplings:
    couplings = Couplings(COLUMNS, 1)
    for row in load(seed, ticks):
        couplings.learn(row[None], YES)
    return couplings


def size(couplings: Couplings, *z: float) -> float:
    return float(np.sqrt(np.nanmean(np.square(couplings.residual(np.array([z], dtype=np.float32))))))


def test_before_anything_is_learned_the_residual_is_the_deviation() -> None:
    z = np.array([[3, -2, 0]], dtype=np.float32)
    np.testing.assert_allclose(Couplings(COLUMNS, 1).residual(z), z / np.sqrt(1 + EXPLAINED_BY_NOISE), rtol=1e-6)


def test_moving_together_is_usual_and_moving_apart_is_not() -> None:
    couplings = learned()
    assert size(couplings, 3, 3, 0) < 1.5 * size(couplings, 0, 0, 3)
    assert size(couplings, 3, -3, 0) > 2 * size(couplings, 3, 3, 0)


def test_the_residual_of_usual_rows_has_about_the_size_of_noise() -> None:
    couplings = learned()
    rows = load(2, 500)
    residual = np.concatenate([couplings.residual(row[None]) for row in rows])
    np.testing.assert_allclose(residual.std(axis=0), 0.9, atol=0.25)
    np.testing.assert_allclose(np.corrcoef(residual.T), np.eye(3), atol=0.3)


def test_the_metric_that_left_its_fellows_has_the_largest_residual() -> None:
    residual = np.abs(learned().residual(np.array([[0, 0, 6], [0, 6, 0]], dtype=np.float32)[:1]))[0]
    assert residual.argmax() == 2


def test_what_is_not_judged_stays_so_and_spoils_no_other() -> None:
    couplings = learned()
    row = couplings.residual(np.array([[1, np.nan, 2]], dtype=np.float32))[0]
    assert np.isnan(row[1])
    np.testing.assert_array_equal(row[[0, 2]], couplings.residual(np.array([[1, 0, 2]], dtype=np.float32))[0, [0, 2]])
    before = couplings.state()
    couplings.learn(np.full((1, 3), np.nan, dtype=np.float32), YES)
    assert couplings.state() == before


def test_one_wild_reading_is_limited() -> None:
    couplings = learned()
    assert size(couplings, 0, 0, 1e6) == size(couplings, 0, 0, LIMIT_Z)


def test_unusual_rows_teach_nothing_and_forgotten_ones_start_anew() -> None:
    couplings = learned(400)
    before = couplings.state()
    couplings.learn(load(5, 1), ~YES)
    assert couplings.state() == before
    couplings.forget(YES)
    assert couplings.state() == Couplings(COLUMNS, 1).state()


def test_a_very_long_life_keeps_learning() -> None:
    couplings = learned(400)
    random = np.random.default_rng(8)
    for row in random.standard_normal((15_000, 3)).astype(np.float32):
        couplings.learn(row[None], YES)
    assert size(couplings, 3, -3, 0) < 1.3 * size(couplings, 3, 3, 0)


def test_a_restored_one_goes_on_the_same_even_between_two_drawings_of_the_root() -> None:
    couplings, other = learned(int(REFRESH_TICKS) + 77), Couplings(COLUMNS, 0)
    other.restore(couplings.state())
    for row in load(6, 400):
        np.testing.assert_array_equal(other.residual(row[None]), couplings.residual(row[None]))
        couplings.learn(row[None], YES)
        other.learn(row[None], YES)


def test_other_columns_are_learned_anew() -> None:
    other = Couplings(("power_w", "new_c"), 0)
    other.restore(learned(200).state())
    assert other.state() == Couplings(("power_w", "new_c"), 1).state()


@pytest.mark.parametrize("bad", [b"", b"\x00", b"garbage"])
def test_a_foreign_checkpoint_is_refused(bad: bytes) -> None:
    with pytest.raises(StateError):
        Couplings(COLUMNS, 1).restore(bad)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(range(4)))
def test_rows_are_independent_of_each_other_and_of_their_order(seed: int, order: list[int]) -> None:
    random = np.random.default_rng(seed)
    z = random.normal(0, 2, (120, 4, 3)).astype(np.float32)
    z[random.random(z.shape) < 0.1] = np.nan
    usual = random.random((120, 4)) < 0.9
    plain, mixed = Couplings(COLUMNS, 4), Couplings(COLUMNS, 4)
    for tick in range(120):
        plain.learn(z[tick], usual[tick])
        mixed.learn(z[tick][order], usual[tick][order])
    np.testing.assert_array_equal(mixed.residual(z[0][order]), plain.residual(z[0])[order])
    mixed.take(np.argsort(order))
    assert mixed.state() == plain.state()
