"""Readings become a matrix: what is absent, blank or out of range is NaN and counted by its reason."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from collectors.rates import Value
from schemas.matrix import Matrix
from schemas.metrics import Section, metric


def table(
    section: Section, names: Sequence[str], columns: tuple[str, ...], rows: Sequence[Mapping[str, Value]]
) -> tuple[Matrix, dict[str, int]]:
    """The matrix of `rows` (one mapping by column for each of `names`), and missing values by reason.

    A value outside the catalogue's range is a broken sensor's: missing{out_of_range}, neither kept nor clipped.
    """
    missing: dict[str, int] = {}
    values = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        _fill(values[i], [row[column] for column in columns], missing)
    return _checked(section, names, columns, values, missing)


def table_of_columns(
    section: Section, names: Sequence[str], columns: Mapping[str, Sequence[Value]]
) -> tuple[Matrix, dict[str, int]]:
    """The same from whole columns, each with a value for each of `names`."""
    missing: dict[str, int] = {}
    values = np.full((len(names), len(columns)), np.nan)
    for j, column in enumerate(columns.values()):
        _fill(values[:, j], column, missing)
    return _checked(section, names, tuple(columns), values, missing)


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


def _checked(
    section: Section,
    names: Sequence[str],
    columns: tuple[str, ...],
    values: NDArray[np.float64],
    missing: dict[str, int],
) -> tuple[Matrix, dict[str, int]]:
    low, high = _range(section, columns)
    wrong = (values < low) | (values > high)
    if wrong.any():
        missing["out_of_range"] = int(wrong.sum())
        values[wrong] = np.nan
    return Matrix.of(names, columns, values), missing


@cache
def _range(section: Section, columns: tuple[str, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    declared = [metric(section, column) for column in columns]
    if None in declared:
        raise ValueError(f"section {section} has no metric {columns[declared.index(None)]}")
    return np.array([m.low for m in declared if m]), np.array([m.high for m in declared if m])
