"""Readings become a matrix: what is absent, blank or out of range is NaN and counted by its reason."""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from collectors.rates import Value
from schemas.matrix import LONGEST_NAME, Matrix
from schemas.metrics import Section, metric


def table(
    section: Section, names: Sequence[str], columns: tuple[str, ...], rows: Sequence[Mapping[str, Value]]
) -> tuple[Matrix, dict[str, int]]:
    """The matrix of `rows` (one mapping by column for each of `names`), and missing values by reason.

    A value outside the catalogue's range is a broken sensor's: missing{out_of_range}, neither kept nor clipped. A row
    whose name no record carries (none, or a controller's of more than 256 letters) is missing{unnamed}.
    """
    # Value by value: most tables have one row, and for those each step of numpy costs as much as all of this.
    missing: dict[str, int] = {}
    limits = _limits(section, columns)
    values: list[float] = []
    if unnamed := _unnamed(names):
        missing["unnamed"] = len(unnamed)
        rows = [row for i, row in enumerate(rows) if i not in unnamed]
        names = [name for i, name in enumerate(names) if i not in unnamed]
    for row in rows:
        for column, low, high in limits:
            value = row[column]
            if isinstance(value, str):
                missing[value] = missing.get(value, 0) + 1
                value = math.nan
            elif not low <= value <= high and value == value:
                missing["out_of_range"] = missing.get("out_of_range", 0) + 1
                value = math.nan
            values.append(value)
    return Matrix.of(names, columns, values), missing


def table_of_columns(
    section: Section, names: Sequence[str], columns: Mapping[str, Sequence[Value]]
) -> tuple[Matrix, dict[str, int]]:
    """The same from whole columns, each with a value for each of `names`."""
    missing: dict[str, int] = {}
    values = np.full((len(names), len(columns)), np.nan)
    for j, column in enumerate(columns.values()):
        _fill(values[:, j], column, missing)
    limits = _limits(section, tuple(columns))
    wrong = (values < [low for _, low, _ in limits]) | (values > [high for _, _, high in limits])
    if wrong.any():
        missing["out_of_range"] = int(wrong.sum())
        values[wrong] = np.nan
    if unnamed := _unnamed(names):
        missing["unnamed"] = len(unnamed)
        values = np.delete(values, sorted(unnamed), axis=0)
        names = [name for i, name in enumerate(names) if i not in unnamed]
    return Matrix.of(names, tuple(columns), values), missing


def _unnamed(names: Sequence[str]) -> set[int]:
    return {i for i, name in enumerate(names) if not 0 < len(name) <= LONGEST_NAME}


def _fill(into: NDArray[np.float64], values: Sequence[Value], missing: dict[str, int]) -> None:
    try:
        into[:] = values
    except ValueError:  # a reason among them
        for i, value in enumerate(values):
            if isinstance(value, str):
                missing[value] = missing.get(value, 0) + 1
                into[i] = np.nan
            else:
                into[i] = value


@cache
def _limits(section: Section, columns: tuple[str, ...]) -> tuple[tuple[str, float, float], ...]:
    """Each column with the least and the most that it can be."""
    declared = {column: metric(section, column) for column in columns}
    for column, found in declared.items():
        if found is None:
            raise ValueError(f"section {section} has no metric {column}")
    return tuple((column, found.low, found.high) for column, found in declared.items() if found is not None)
