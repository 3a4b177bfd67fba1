"""Records to the columns of one table: a batch at a time, readings never touched one by one."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.record import Record
from storage.readings import Readings
from storage.tables import BY_RECORD, Table


class Columns(NamedTuple):
    """What the client inserts: one sequence per column of the table, `rows` long each. `unknown` counts readings of
    a newer agent that the table has no column for."""

    data: list[Sequence[Any]]
    rows: int
    unknown: Counter[str]


def columns(table: Table, records: Sequence[Record]) -> Columns:
    """The rows of `records`, all of the table's record class.

    Raises ValueError, TypeError, OverflowError or LookupError where a record's values cannot be stored (an index
    that points nowhere, a number beyond 64 bits): which one it was, the caller finds by halving.
    """
    rows = table.shape.expand(records)
    readings = iter(np.ascontiguousarray(rows.readings.T) if rows.readings is not None else ())
    data: list[Sequence[Any]] = []
    for column in table.columns:
        if column.get is None:
            data.append(next(readings))
        else:
            data.append(column.stored.pack(list(map(column.get, rows.parts[column.part]))))
    return Columns(data, len(rows.parts["record"]), rows.unknown)


def row_count(record: Record) -> int:
    """How many rows, over all tables, a record becomes."""
    return sum(table.shape.size(record) for table in BY_RECORD.get(type(record), ()))


def unknown_sections(record: Record) -> tuple[str, ...]:
    """Sections of a newer agent's frame that no table is for."""
    known = _SECTIONS.get(type(record), frozenset())
    return tuple(name for name in getattr(record, "sections", ()) if name not in known)


_SECTIONS = {
    record: frozenset(table.shape.section for table in tables if isinstance(table.shape, Readings))
    for record, tables in BY_RECORD.items()
}
