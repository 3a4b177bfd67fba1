"""The ladder is the means of the past, whatever the gaps; and constant in size."""

import msgspec
import numpy as np
import pytest

from detectors.drift.ladder import DAY_MS, FORGET_MS, HOUR_MS, LEAST_READINGS, MOST_ROWS, RUNGS, Ladder
from detectors.state import StateError

T0 = 20_000 * DAY_MS
EVERY_MS = 5 * 60_000


def fed(readings: np.ndarray, rows: tuple[str, ...] = ("a", "b"), counted: tuple[int, ...] = ()) -> Ladder:
    """`readings` (times, rows, columns), one every five minutes; NaN is none."""
    ladder = Ladder(readings.shape[2], counted)
    for i, values in enumerate(readings.astype(np.float32)):
        ladder.advance(T0 + i * EVERY_MS)
        ladder.add(T0 + i * EVERY_MS, rows, values)
    ladder.advance(T0 + len(readings) * EVERY_MS)
    return ladder


def test_points_are_means_of_hours_and_more() -> None:
    random = np.random.default_rng(1)
    readings = 20 + random.standard_normal((12 * 24 * 9, 2, 1))
    ladder = fed(readings)
    hours = readings.reshape(-1, 12, 2, 1).mean(axis=1)
    for rung, (_, width, points) in enumerate(RUNGS):
        whole = hours.reshape(-1, width, 2, 1).mean(axis=1)[-points:]
        got = ladder.points(rung)[:, :, -len(whole) :]
        np.testing.assert_allclose(got, np.moveaxis(whole, 0, -1), atol=0.04)
        assert np.isnan(ladder.points(rung)[:, :, : -len(whole)]).all()


def test_an_hour_with_too_few_readings_and_a_gap_are_missing_points() -> None:
    readings = np.ones((12 * 24, 1, 1))
    readings[12:24][LEAST_READINGS - 1 :] = np.nan  # the second hour has one reading too few
    readings[12 * 10 : 12 * 20] = np.nan
    points = fed(readings, ("a",)).points(0)[0, 0]
    assert np.flatnonzero(np.isnan(points)).tolist() == [1, *range(10, 20)]
    assert np.isnan(fed(readings, ("a",)).points(2)[0, 0, -4:]).tolist() == [False, False, True, False]


def test_what_grows_by_orders_of_magnitude_is_its_logarithm() -> None:
    points = fed(np.full((24, 1, 2), 99.0), ("a",), (1,)).points(0)[0, :, -1]
    assert points.tolist() == [99.0, 2.0]


def test_a_month_of_silence_leaves_nothing_and_costs_nothing() -> None:
    ladder = fed(np.ones((24, 1, 1)), ("a",))
    assert ladder.advance(T0 + 20 * DAY_MS) == (0, 1, 2, 3, 4)
    assert np.count_nonzero(~np.isnan(ladder.points(4))) == 1
    ladder.advance(T0 + 400 * DAY_MS)
    assert ladder.rows == ()


def test_time_does_not_go_back() -> None:
    ladder = fed(np.ones((24, 1, 1)), ("a",))
    before = ladder.points(0)
    assert ladder.advance(T0) == ()
    np.testing.assert_array_equal(ladder.points(0), before)


def test_saved_and_restored_it_goes_on_the_same() -> None:
    readings = 20 + np.random.default_rng(2).standard_normal((12 * 50 + 5, 2, 2))
    whole, first = fed(readings, counted=(1,)), fed(readings[: 12 * 20 + 5], counted=(1,))
    second = Ladder(2, (1,))
    second.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(first.save()), type=type(first.save())))
    for i in range(12 * 20 + 5, len(readings)):
        second.advance(T0 + i * EVERY_MS)
        second.add(T0 + i * EVERY_MS, ("a", "b"), readings[i].astype(np.float32))
    second.advance(T0 + len(readings) * EVERY_MS)
    for rung in range(len(RUNGS)):
        np.testing.assert_array_equal(second.points(rung), whole.points(rung))


def test_a_state_of_another_shape_is_refused() -> None:
    saved = fed(np.ones((24, 2, 1))).save()
    with pytest.raises(StateError, match="a saved ladder of"):
        Ladder(3).restore(saved)


def test_a_row_moves_with_its_past() -> None:
    readings = 20 + np.random.default_rng(3).standard_normal((12 * 30, 2, 1))
    old, new = fed(readings), fed(readings[:, :1], ("c",))
    kept = old.points(0)[1]
    later = T0 + 31 * HOUR_MS  # an hour after the last that the old place saw
    new.advance(later)
    new.adopt(old.give("b"), later)
    assert (old.rows, new.rows) == (("a",), ("c", "b"))
    np.testing.assert_array_equal(new.points(0)[1, 0, :-1], kept[0, 1:])
    assert new.seen_ms("b") == T0 + (12 * 30 - 1) * EVERY_MS
    assert old.seen_ms("b") is None


def test_rows_come_in_any_order_and_are_bounded() -> None:
    ladder = Ladder(1)
    ladder.advance(T0)
    names = [f"row-{i}" for i in range(MOST_ROWS + 10)]
    ladder.add(T0, names, np.arange(len(names), dtype=np.float32)[:, None])
    assert len(ladder.rows) == MOST_ROWS
    ladder.add(T0, ["row-5", "new"], np.ones((2, 1), dtype=np.float32))
    assert "new" not in ladder.rows
    ladder.add(T0 + FORGET_MS, ["row-5"], np.ones((1, 1), dtype=np.float32))
    ladder.advance(T0 + FORGET_MS + HOUR_MS)
    assert ladder.rows == ("row-5",)
