"""Ranges, counters and averages: missing stays missing, a reset is no error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.condition import Averages, Columns, Increases, Ranges, take, tick_of
from schemas.matrix import Matrix

NAN = float("nan")


def test_values_outside_the_catalogues_range_are_missing_and_counted() -> None:
    ranges = Ranges("gpu", ["temperature_c", "gpu_utilization_pct", "not_in_the_catalogue"])
    clean, out = ranges.apply(np.array([[255.0, 4294967295.0, 7.0], [60.0, NAN, np.inf]], dtype=np.float32))
    np.testing.assert_array_equal(clean, [[NAN, NAN, 7.0], [60.0, NAN, NAN]])
    assert out == 3


def test_columns_are_found_by_name_whatever_the_layout() -> None:
    columns = Columns(["b", "c", "a"])
    np.testing.assert_array_equal(columns.select(Matrix.of(["r"], ["a", "b"], [[1, 2]])), [[2, NAN, 1]])
    np.testing.assert_array_equal(columns.select(Matrix.of(["r"], ["c"], [[3]])), [[NAN, 3, NAN]])


def test_a_counter_that_falls_starts_a_new_epoch() -> None:
    increases = Increases(1, 1)
    seen = [float(increases.apply(np.array([[total]], dtype=np.float32))[0, 0]) for total in (7, 7, 10, NAN, 12, 2, 3)]
    np.testing.assert_array_equal(seen, [NAN, 0, 3, NAN, 2, NAN, 1])


def test_a_restarted_agent_gives_no_increase() -> None:
    increases = Increases(1, 1)
    increases.apply(np.array([[5]], dtype=np.float32))
    increases.restart()
    assert np.isnan(increases.apply(np.array([[9]], dtype=np.float32))[0, 0])


def test_averages_take_what_is_there_of_three_ticks() -> None:
    averages = Averages(1, 1)
    seen = [float(averages.apply(np.array([[x]], dtype=np.float32))[0, 0]) for x in (3, 5, NAN, 9, NAN, NAN, NAN)]
    np.testing.assert_array_equal(seen, [3, 4, 4, 7, 9, 9, NAN])


def test_rows_move_with_their_state() -> None:
    rows = np.array([[1.0], [2.0]], dtype=np.float32)
    np.testing.assert_array_equal(take(rows, np.array([1, -1, 0])), [[2], [NAN], [1]])
    np.testing.assert_array_equal(take(rows[:0], np.array([-1])), [[NAN]])


@pytest.mark.parametrize(("ts_ms", "tick"), [(1999, 1000), (2000, 2000), (2001, 2000)])
def test_ticks_are_aligned(ts_ms: int, tick: int) -> None:
    assert tick_of(ts_ms) == tick


@given(st.lists(st.one_of(st.floats(0, 1e6, width=32), st.just(NAN)), min_size=1, max_size=40))
def test_increases_are_never_negative_and_sum_to_the_total(totals: list[float]) -> None:
    increases = Increases(1, 1)
    grown = [float(increases.apply(np.array([[total]], dtype=np.float32))[0, 0]) for total in sorted(totals)]
    read = [total for total in sorted(totals) if total == total]
    assert all(value >= 0 for value in grown if value == value)
    if len(read) > 1 and not any(np.isnan(totals)):
        assert np.nansum(grown) == pytest.approx(read[-1] - read[0], rel=1e-3, abs=1.0)
