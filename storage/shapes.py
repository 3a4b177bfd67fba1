"""How a record becomes rows of a table: one row, one per item, one per item of a communicator's member.

A shape names its columns once, from the record class, and expands a batch of records into what those columns are
read from. What is measured in matrices has shapes of its own (`storage.readings`).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from schemas.collective import Communicator
from schemas.matrix import Float32
from schemas.record import Natural, Record
from storage.fields import Column, Part, element_of, fields, itself, of_field, scalars
from storage.native import Places
from storage.values import stored


class Rows(NamedTuple):
    """A batch, expanded: how many rows, what each has of each part, the readings of shape (rows, reading columns), and
    how often each column or section was met that no column is for."""

    total: int
    parts: dict[Part, "Shared"]
    readings: Float32 | None
    unknown: Counter[str]


class Shared(NamedTuple):
    """Objects of one part, and which of them each row has (None: each its own)."""

    objects: Sequence[Any]
    which: Places | None = None

    @classmethod
    def of(cls, groups: Sequence[Sequence[Any]]) -> "Shared":
        """One object per row, from the groups of rows that follow each other; the same group again is no new one."""
        known: dict[int, int] = {}
        objects: list[Any] = []
        begins: list[int] = []
        for group in groups:
            begin = known.get(id(group))
            if begin is None:
                begin = known[id(group)] = len(objects)
                objects += group
            begins.append(begin)
        sizes = lengths(groups)
        shift = np.array(begins, np.int64) - (np.cumsum(sizes) - sizes)
        return cls(objects, np.arange(sizes.sum()) + np.repeat(shift, sizes))

    @classmethod
    def repeated(cls, objects: Sequence[Any], counts: Places) -> "Shared":
        """Each object for as many rows as it counts."""
        return cls(objects, np.repeat(np.arange(len(objects)), counts))


def lengths(groups: Sequence[Sequence[Any]]) -> Places:
    return np.fromiter(map(len, groups), np.int64, len(groups))


class Shape(Protocol):
    """How records of one class become rows."""

    def columns(self, record: type[Record]) -> tuple[Column, ...]: ...
    def expand(self, records: Sequence[Any]) -> Rows: ...
    def size(self, record: Any) -> int:
        """About how many rows a record becomes: items without readings do not count."""


class One:
    """One row per record: scalars, words and maps as they are, a struct's fields in line, tuples of structs as
    ClickHouse's nested columns (`evidence.text`)."""

    def __init__(self, *extra: Column, without: Sequence[str] = ()) -> None:
        self._extra, self._without = extra, without

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        own = [field for field in fields(record) if field.name not in self._without]
        return (*(column for field in own for column in of_field(record, field)), *self._extra)

    def expand(self, records: Sequence[Any]) -> Rows:
        return Rows(len(records), {"record": Shared(records)}, None, Counter())

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
        items = list(map(self._items, records))
        counts = lengths(items)
        parts: dict[Part, Shared] = {
            "record": Shared.repeated(records, counts),
            "item": Shared(list(chain.from_iterable(items))),
            "place": Shared.of([range(count) for count in counts]),
        }
        return Rows(int(counts.sum()), parts, None, Counter())

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
        rows.parts["map"] = Shared([self._of(r).row(n) for r in records for n in range(len(self._items(r)))])
        return rows


class Members(Items):
    """Items that name a communicator of their record (`member`), joined with it."""

    def __init__(self, field: str) -> None:
        super().__init__(field, without=["member"])

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        return (*super().columns(record), *scalars(Communicator, "member"))

    def expand(self, records: Sequence[Any]) -> Rows:
        rows = super().expand(records)
        members = [record.communicators for record in records]
        named = np.array([item.member for item in rows.parts["item"].objects], np.int64)
        counts = lengths([self._items(record) for record in records])
        if (named >= np.repeat(lengths(members), counts)).any():
            raise LookupError("an item names a communicator that its record does not have")
        begins = np.cumsum(lengths(members)) - lengths(members)
        rows.parts["member"] = Shared(list(chain.from_iterable(members)), named + np.repeat(begins, counts))
        return rows
