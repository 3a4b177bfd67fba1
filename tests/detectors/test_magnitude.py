"""Magnitude features: finite whatever comes, blind to the order and number of metrics."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from detectors.forest.magnitude import NAMES, largest_row, magnitudes, shares

NONE = np.zeros(1, dtype=np.float32)


def features(*z: float, missing: float = 0.0) -> dict[str, float]:
    deviations = np.array([z], dtype=np.float32)
    row = magnitudes(deviations, 2 * deviations, np.array([missing], dtype=np.float32))[0]
    return dict(zip(NAMES, row.tolist(), strict=True))


def strongest(z: np.ndarray, residual: np.ndarray, names: str) -> list[tuple[str, ...]]:
    found = np.empty((len(z), 3), dtype=np.intp)
    for row in range(len(z)):
        largest_row(z[row], residual[row], found[row])
    return [tuple(names[i] for i in row if i >= 0) for row in found.tolist()]


def test_the_features_of_a_row() -> None:
    row = features(-10.0, 1.0, 4.0, float("nan"), missing=0.25)
    assert row["log_largest_1"] == np.float32(np.log1p(10))
    assert row["log_largest_2"] == np.float32(np.log1p(4))
    assert row["log_rms"] == np.float32(np.log1p(np.sqrt(117 / 3)))
    assert row["log_residual"] == np.float32(np.log1p(np.sqrt(4 * 117 / 3)))
    assert row["count_over_3"] == 2
    assert row["missing_share"] == 0.25


def test_one_broken_metric_does_not_drown_the_rms() -> None:
    assert features(1e30, 1, 1, 1)["log_rms"] < np.log1p(11)


def test_nothing_judged_is_nothing_found() -> None:
    assert set(features(float("nan"), float("nan")).values()) == {0.0}
    assert set(features().values()) == {0.0}


def test_not_judged_metrics_count_for_nothing() -> None:
    assert features(1, -5, 2) == features(1, float("nan"), -5, 2, float("nan"))


def test_the_strongest_are_named_most_first() -> None:
    z = np.array([[1, 6, 0, -3], [0, 0, np.nan, 0]], dtype=np.float32)
    assert strongest(z, np.zeros_like(z), "abcd") == [("b", "d", "a"), ()]


@settings(deadline=None)
@given(
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-30, 30, width=32) | st.sampled_from([np.nan, 0, 1, 25])),
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32) | st.sampled_from([0, 1])),
)
def test_the_strongest_are_those_of_the_largest_share_and_the_first_of_equals(
    z: np.ndarray, residual: np.ndarray
) -> None:
    residual[np.isnan(z)] = np.nan
    size = np.square(np.minimum(np.abs(np.nan_to_num(z)), 20)) + np.square(np.nan_to_num(residual))
    order = np.argsort(-size, axis=1, kind="stable")[:, :3]
    expected = [tuple("abcde"[i] for i in best if size[row, i] > 0) for row, best in enumerate(order)]
    assert strongest(z, residual, "abcde") == expected


@settings(deadline=None)
@given(
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-1e6, 1e6, width=32) | st.just(np.nan)),
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32)),
)
def test_the_shares_of_a_row_add_up(z: np.ndarray, residual: np.ndarray) -> None:
    residual[np.isnan(z)] = np.nan
    share = shares(z, residual)
    assert (share >= 0).all()
    assert (share[np.isnan(z)] == 0).all()
    something = (np.square(np.nan_to_num(z)) + np.square(np.nan_to_num(residual))).sum(axis=1) > 1e-20
    np.testing.assert_allclose(share.sum(axis=1)[something], 1, rtol=1e-5)


def test_the_share_of_a_metric_grows_with_its_deviation_and_with_what_its_fellows_leave_unexplained() -> None:
    together = shares(np.array([[6, 6, 1]], dtype=np.float32), np.array([[1, 9, 1]], dtype=np.float32))[0]
    assert together[1] > together[0] > together[2]


@settings(deadline=None)
@given(
    arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(width=32)),
    st.randoms(use_true_random=False),
)
def test_features_are_finite_and_do_not_depend_on_the_order_of_metrics(z: np.ndarray, random: object) -> None:
    order = np.random.default_rng(len(z)).permutation(z.shape[1])
    missing = np.zeros(len(z), dtype=np.float32)
    residual = np.clip(z, -50, 100)
    rows = magnitudes(z, residual, missing)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(magnitudes(z[:, order], residual[:, order], missing), rows, rtol=1e-5)
