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
        for j, column in enumerate(columns):
            value = row[column]
            if isinstance(value, str):
                missing[value] = missing.get(value, 0) + 1
            else:
                values[i, j] = value
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
