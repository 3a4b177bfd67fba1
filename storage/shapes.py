"""How a record becomes rows of a table: one row, one per item, one per item of a communicator's member.

A shape names its columns once, from the record class, and expands a batch of records into what those columns are
read from. What is measured in matrices has shapes of its own (`storage.readings`).
"""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from schemas.collective import Communicator
from schemas.matrix import Float32
from schemas.record import Natural, Record
from storage.fields import Column, Part, element_of, fields, itself, of_field, scalars
from storage.values import stored


class Rows(NamedTuple):
    """A batch, expanded: per part one object per row, the readings of shape (rows, reading columns), and how often
    each column or section was met that no column is for."""

    parts: dict[Part, Sequence[Any]]
    readings: Float32 | None
    unknown: Counter[str]


class Shape(Protocol):
    """How records of one class become rows."""

    def columns(self, record: type[Record]) -> tuple[Column, ...]: ...
    def expand(self, records: Sequence[Any]) -> Rows: ...
    def size(self, record: Any) -> int: ...


class One:
    """One row per record: scalars, words and maps as they are, a struct's fields in line, tuples of structs as
    ClickHouse's nested columns (`evidence.text`)."""

    def __init__(self, *extra: Column, without: Sequence[str] = ()) -> None:
        self._extra, self._without = extra, without

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        own = [field for field in fields(record) if field.name not in self._without]
        return (*(column for field in own for column in of_field(record, field)), *self._extra)

    def expand(self, records: Sequence[Any]) -> Rows:
        return Rows({"record": records}, None, Counter())

    def size(self, record: Any) -> int:
        return 1


class Items:
    """One row per item of the record's tuple `field`.

    `place` is the item's place in its record: with the record's identity it makes the row's.
    """

    def __init__(self, field: str, without: Sequence[str] = ()) -> None:
        self._field, self._without = field, without
        self._items = attrgetter(field)

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        item = scalars(element_of(record, self._field), "item", self._without)
        return (*scalars(record, "record"), *item, Column("place", "place", stored(Natural, "place"), itself))

    def expand(self, records: Sequence[Any]) -> Rows:
        items = self._items
        return Rows(
            {
                "record": [r for r in records for _ in items(r)],
                "item": [i for r in records for i in items(r)],
                "place": [n for r in records for n in range(len(items(r)))],
            },
            None,
            Counter(),
        )

    def size(self, record: Any) -> int:
        return len(self._items(record))


class Scores(Items):
    """Items with a map beside them: their rows of the record's matrix of that name, rows in the items' order."""

    def __init__(self, field: str, matrix: str) -> None:
        super().__init__(field)
        self._matrix, self._of = matrix, attrgetter(matrix)

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        kind = stored(dict[str, float], self._matrix, narrow=True)
        return (*super().columns(record), Column(self._matrix, "map", kind, itself))

    def expand(self, records: Sequence[Any]) -> Rows:
        rows = super().expand(records)
        places, owners = rows.parts["place"], rows.parts["record"]
        rows.parts["map"] = [self._of(r).row(n) for r, n in zip(owners, places, strict=True)]
        return rows


class Members(Items):
    """Items that name a communicator of their record (`member`), joined with it."""

    def __init__(self, field: str) -> None:
        super().__init__(field, without=["member"])

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        return (*super().columns(record), *scalars(Communicator, "member"))

    def expand(self, records: Sequence[Any]) -> Rows:
        rows = super().expand(records)
        owners, items = rows.parts["record"], rows.parts["item"]
        rows.parts["member"] = [r.communicators[i.member] for r, i in zip(owners, items, strict=True)]
        return rows
