"""Records to the columns of one table: a batch at a time, readings never touched one by one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.matrix import Matrix
from schemas.record import Record
from storage.native import Numbers, Packed
from storage.readings import Readings
from storage.tables import BY_RECORD, Table


class Columns(NamedTuple):
    """What is inserted: one packed column per column of the table, `rows` long each. `unknown` counts readings of
    a newer agent that the table has no column for."""

    data: list[Packed]
    rows: int
    unknown: Counter[str]


def columns(table: Table, records: Sequence[Record], known: dict[str, Packed] | None = None) -> Columns:
    """The rows of `records`, all of the table's record class. `known` keeps what all tables of that class say of these
    records, from one table to the next.

    Raises ValueError, TypeError, OverflowError or LookupError where a record's values cannot be stored (an index
    that points nowhere, a number beyond 64 bits): which one it was, the caller finds by halving.
    """
    rows = table.shape.expand(records)
    readings = map(Numbers, rows.readings.T if rows.readings is not None else ())
    data: list[Packed] = []
    known = {} if known is None else known
    for column in table.columns:
        if column.get is None:
            data.append(next(readings))
            continue
        objects, which = rows.parts[column.part]
        packed = known.get(column.name) if column.part == "record" else None
        if packed is None:
            packed = column.stored.pack(list(map(column.get, objects)))
        if column.part == "record":
            known[column.name] = packed
        data.append(packed if which is None else packed.take(which))
    return Columns(data, rows.total, rows.unknown)


def row_count(record: Record) -> int:
    """About how many rows, over all tables, a record becomes (GPUs without readings do not count)."""
    known = _SECTIONS.get(type(record))
    if not known:
        return sum([shape.size(record) for shape in _SHAPES.get(type(record), ())])
    sections: Mapping[str, Matrix] = getattr(record, "sections", {})
    return 1 + sum([len(matrix.rows) for name, matrix in sections.items() if name in known])


def unknown_sections(record: Record) -> tuple[str, ...]:
    """Sections of a newer agent's frame that no table is for."""
    known = _SECTIONS.get(type(record))
    sections = getattr(record, "sections", {})
    return () if known is None or sections.keys() <= known else tuple(n for n in sections if n not in known)


_SHAPES = {record: [table.shape for table in tables] for record, tables in BY_RECORD.items()}
_SECTIONS = {
    record: frozenset(shape.section for shape in shapes if isinstance(shape, Readings))
    for record, shapes in _SHAPES.items()
}
