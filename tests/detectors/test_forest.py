"""The forest: exact against scikit-learn, calibrated, portable, and closed to anything that is not one."""

import struct
from functools import cache
from hashlib import blake2b

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import IsolationForest

from detectors.forest.calibration import calibrate
from detectors.forest.magnitude import NAMES, magnitudes
from detectors.forest.model import MAGIC, Forest, ModelError, Training, from_sklearn, train
from detectors.train.fleet import simulated_deviations, simulated_forest

COLUMNS = len(NAMES)


@cache
def forest() -> Forest:
    return simulated_forest(seed=5, rows=20_000)


@cache
def healthy() -> np.ndarray:
    return magnitudes(*simulated_deviations(np.random.default_rng(77), 50_000))


@cache
def grown(seed: int, samples: int) -> tuple[IsolationForest, Forest]:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(600, COLUMNS)).astype(np.float32)
    rows[:, -1] = random.integers(0, 3, 600)  # ties, as counts have them
    model = IsolationForest(n_estimators=20, max_samples=samples, random_state=seed).fit(rows)
    return model, from_sklearn(model, Training(source="test"), floor=[-1e9] * COLUMNS)


@pytest.mark.parametrize("samples", [256, 200, 17, 2])
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 500])
def test_scores_are_scikit_learns(samples: int, rows: int) -> None:
    model, ours = grown(samples, samples)
    x = np.random.default_rng(rows).normal(0, 2, (rows, COLUMNS)).astype(np.float32)
    np.testing.assert_allclose(ours.score(x), -model.score_samples(x), atol=1e-6, rtol=0)


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3, width=32), min_size=COLUMNS, max_size=COLUMNS), st.integers(-2, 2))
def test_scores_are_scikit_learns_at_and_beside_every_threshold(row: list[float], nudge: int) -> None:
    """The float32 next to a float64 threshold falls on the side scikit-learn puts it."""
    model, ours = grown(1, 256)
    x = np.tile(np.array(row, dtype=np.float32), (40, 1))
    cuts = [tree.tree_ for tree in model.estimators_]
    for i in range(len(x)):
        cut = cuts[i % len(cuts)]
        node = i % max(1, cut.node_count)
        if cut.children_left[node] >= 0:
            value = np.float32(cut.threshold[node])
            for _ in range(abs(nudge)):
                value = np.nextafter(value, np.float32(np.inf if nudge > 0 else -np.inf))
            x[i, cut.feature[node]] = value
    np.testing.assert_allclose(ours.score(x), -model.score_samples(x), atol=1e-6, rtol=0)


def test_a_row_with_a_nan_has_no_score_and_spoils_no_other() -> None:
    x = healthy()[:70].copy()
    clean = forest().score(x)
    x[33, 2] = np.nan
    scores = forest().score(x)
    assert np.isnan(scores[33])
    np.testing.assert_array_equal(np.delete(scores, 33), np.delete(clean, 33))
    assert np.isnan(forest().p_value(x, scores)[33])


def test_rows_may_come_in_any_memory_layout() -> None:
    x = healthy()[:50]
    np.testing.assert_array_equal(forest().score(np.asfortranarray(x)), forest().score(x))
    np.testing.assert_array_equal(forest().score(x.astype(np.float64)), forest().score(x))
    assert forest().score(x[:0]).shape == (0,)


def test_p_values_keep_the_budget_on_healthy_rows() -> None:
    p = forest().p_value(healthy(), forest().score(healthy()))
    for budget in (0.1, 0.01, 0.001):
        assert (p <= budget).mean() <= 1.2 * budget
    assert (p <= 0.1).mean() > 0.03


def test_p_values_fall_with_the_deviation_without_an_end() -> None:
    z = np.full((6, 28), 0.5, dtype=np.float32)
    z[:, 0] = [3, 6, 10, 20, 60, 1000]
    x = magnitudes(z, z, np.zeros(6, dtype=np.float32))
    p = forest().p_value(x, forest().score(x))
    assert (np.diff(p) <= 0).all()
    assert p[0] > 0.05
    assert p[3] < 1e-4
    assert p[4] < 1e-6


def test_a_gpu_is_not_strange_for_being_calm() -> None:
    calm = np.zeros((1, COLUMNS), dtype=np.float32)
    middle = np.median(healthy(), axis=0, keepdims=True)
    assert forest().score(calm) <= forest().score(middle) + 0.02
    assert forest().p_value(calm, forest().score(calm))[0] > 0.3


def test_a_model_travels_as_bytes_and_scores_the_same() -> None:
    again = Forest.from_bytes(forest().to_bytes())
    np.testing.assert_array_equal(again.score(healthy()[:200]), forest().score(healthy()[:200]))
    assert (again.name, again.training, again.calibration) == (forest().name, forest().training, forest().calibration)
    assert "simulated" in again.training.source
    assert len(forest().to_bytes()) < 512 * 1024


def test_training_twice_with_one_seed_gives_the_same_bytes() -> None:
    assert simulated_forest(seed=5, rows=20_000).to_bytes() == forest().to_bytes()


def _sealed(rest: bytes) -> bytes:
    return MAGIC + blake2b(rest, digest_size=32).digest() + rest


def _with_header(**changes: object) -> bytes:
    """A model whose checksum is right and whose header is not."""
    rest = forest().to_bytes()[len(MAGIC) + 32 :]
    length = int.from_bytes(rest[:4], "little")
    header = msgspec.json.encode(msgspec.json.decode(rest[4 : 4 + length]) | changes)
    return _sealed(struct.pack("<I", len(header)) + header + rest[4 + length :])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a Lockstep forest model"),
        (b"\x80\x04\x95pickle", "not a Lockstep forest model"),
        (MAGIC, "damaged"),
        (_sealed(b""), "header"),
        (_sealed(struct.pack("<I", 5) + b"{}"), "header"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(data: bytes, says: str) -> None:
    with pytest.raises(ModelError, match=says) as refused:
        Forest.from_bytes(data)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "upgrade"),
        ({"schema": ["other"]}, "other features"),
        ({"trees": 7}, "bytes of arrays"),
        ({"sample": 0}, "impossible numbers"),
        ({"calibration": {}}, "impossible numbers"),
    ],
)
def test_a_foreign_or_impossible_header_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        Forest.from_bytes(_with_header(**changes))


@settings(deadline=None)
@given(st.data())
def test_one_changed_byte_is_noticed(data: st.DataObject) -> None:
    model = bytearray(forest().to_bytes())
    at = data.draw(st.integers(0, len(model) - 1))
    model[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ModelError):
        Forest.from_bytes(bytes(model))


def test_too_few_or_equal_rows_are_refused() -> None:
    none = np.zeros(100, dtype=np.float32)
    few = np.zeros((100, 5), dtype=np.float32)
    with pytest.raises(ModelError, match="at least"):
        train(few, few, none, Training(source="t"), np.random.default_rng(0))
    with pytest.raises(ValueError, match="tail"):
        calibrate(np.full(20_000, 0.5))


@pytest.mark.parametrize("shape", [0.0, 0.3])
def test_the_tail_is_extrapolated_honestly(shape: float) -> None:
    """Exceedances far beyond the sample keep about their true rate."""
    random = np.random.default_rng(3)
    uniform = random.random(100_000)
    tail = -np.log(uniform) if shape == 0 else (uniform**-shape - 1) / shape
    fit = calibrate(0.4 + 0.02 * tail)
    assert fit.is_plausible()
    assert fit.shape == pytest.approx(shape, abs=0.15)
    true = 1e-6
    score = 0.4 + 0.02 * (-np.log(true) if shape == 0 else (true**-shape - 1) / shape)
    from detectors.forest.calibration import Shares

    assert np.exp(Shares(fit).log(np.array([score])))[0] == pytest.approx(true, rel=5)
