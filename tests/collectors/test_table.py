"""Readings that become a matrix."""

import math

import pytest

from collectors.table import table, table_of_columns
from schemas.matrix import Matrix

NAMES = ("fan1", "x" * 257, "", "fan2")


@pytest.mark.parametrize("by", ["rows", "columns"])
def test_a_row_whose_name_no_record_carries_costs_itself_and_nothing_else(by: str) -> None:
    speeds = [10.0, 20.0, 30.0, math.nan]
    if by == "rows":
        found: tuple[Matrix, dict[str, int]] = table(
            "fan", NAMES, ("speed_pct",), [{"speed_pct": speed} for speed in speeds]
        )
    else:
        found = table_of_columns("fan", NAMES, {"speed_pct": speeds})
    matrix, missing = found
    assert matrix.rows == ("fan1", "fan2")
    assert matrix.values()[0, 0] == 10.0
    assert math.isnan(matrix.values()[1, 0])
    assert missing == {"unnamed": 2}
