"""How matrices become rows: a section's readings one row per named row, baselines one per GPU and metric."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schemas.frame import Gpu
from schemas.matrix import Float32, Matrix
from schemas.metrics import Section, names
from schemas.record import Record
from storage.fields import Column, Part, element_of, itself, scalars
from storage.shapes import Rows, Shared, lengths
from storage.values import NAME, READING


class Readings:
    """One row per row of a section's matrix. `row` names the columns its name is split into at the last "/";
    with `describe`, joined with the record's struct of that UUID, a GPU without readings included."""

    def __init__(self, section: Section, row: Sequence[str] = (), describe: str = "") -> None:
        self.section, self._row, self._describe = section, tuple(row), describe
        self.metrics = names(section)
        self._layouts: dict[tuple[str, ...], tuple[list[int], list[int]]] = {}

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        found = [*scalars(record, "record")]
        if self._describe:
            found += scalars(element_of(record, self._describe), "item")
        else:
            found += [Column(name, "row", NAME, _cut(i, len(self._row))) for i, name in enumerate(self._row)]
        return (*found, *(Column(name, "reading", READING, None) for name in self.metrics))

    def expand(self, records: Sequence[Any]) -> Rows:
        unknown: Counter[str] = Counter()
        # By identity: a decoder gives frames of one layout the same names, and of others the answer is the same.
        by_layout: dict[int, list[tuple[int, Sequence[Any], Matrix]]] = {}
        described: dict[tuple[int, int], tuple[Sequence[Any], Sequence[Any]]] = {}
        for place, record in enumerate(records):
            matrix: Matrix = record.sections.get(self.section, _NONE)
            group: Sequence[Any] = matrix.rows
            if self._describe:
                items = getattr(record, self._describe)
                both = id(items), id(matrix.rows)
                if both not in described:
                    described[both] = _with_rows(items, matrix.rows)
                group, bare = described[both]
                if bare:
                    by_layout.setdefault(id(_NONE.columns), []).append((place, bare, _NONE))
            if group:
                by_layout.setdefault(id(matrix.columns), []).append((place, group, matrix))
        owners: list[int] = []
        groups: list[Sequence[Any]] = []
        blocks = [np.empty((0, len(self.metrics)), np.float32)]
        for members in by_layout.values():
            places, rows, matrices = zip(*members, strict=True)
            owners += places
            groups += rows
            layout = matrices[0].columns
            data = b"".join([matrix.data for matrix in matrices])
            values = np.frombuffer(data, dtype="<f4").reshape(sum(map(len, rows)), len(layout))
            blocks.append(self._aligned(layout, values, unknown))
        readings = np.concatenate(blocks)
        names = Shared.of(groups)
        whose = Shared(records, np.repeat(np.array(owners, np.int64), lengths(groups)))
        parts: dict[Part, Shared] = {"record": whose, "row": names, "item": names}
        return Rows(len(readings), parts, readings, unknown)

    def size(self, record: Any) -> int:
        matrix: Matrix = record.sections.get(self.section, _NONE)
        return len(matrix.rows)

    def _aligned(self, layout: tuple[str, ...], values: Float32, unknown: Counter[str]) -> Float32:
        """`values` in the table's columns, NaN where the sender has none."""
        if layout == self.metrics:
            return values
        if layout not in self._layouts:
            known = [i for i, name in enumerate(layout) if name in self.metrics]
            self._layouts[layout] = known, [self.metrics.index(layout[i]) for i in known]
        source, target = self._layouts[layout]
        if len(source) < len(layout):
            unknown.update({f"{self.section}.{name}": len(values) for name in layout if name not in self.metrics})
        out = np.full((len(values), len(self.metrics)), np.nan, dtype=np.float32)
        out[:, target] = values[:, source]
        return out


_NONE = Matrix((), (), b"")


def _with_rows(items: Sequence[Any], rows: Sequence[str]) -> tuple[Sequence[Any], Sequence[Any]]:
    """What describes the rows of these names, and the items that have no row."""
    if tuple([item.uuid for item in items]) == rows:
        return items, ()
    known = {item.uuid: item for item in items}
    return [known.get(name) or Gpu(uuid=name) for name in rows], [known[name] for name in known if name not in rows]


class Centres:
    """One row per GPU and metric of a `Baselines` record."""

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        return (
            *scalars(record, "record"),
            Column("gpu", "row", NAME, itself),
            Column("metric", "item", NAME, itself),
            Column("centre", "reading", READING, None),
            Column("spread", "reading", READING, None),
        )

    def expand(self, records: Sequence[Any]) -> Rows:
        rows: list[str] = []
        metrics: list[str] = []
        blocks: list[Float32] = []
        for record in records:
            centre: Matrix = record.centre
            rows += [row for row in centre.rows for _ in centre.columns]
            metrics += centre.columns * len(centre.rows)
            spread = _rows_of(record.spread, centre.rows).select(centre.columns)
            blocks.append(np.stack([centre.values().ravel(), spread.ravel()], axis=1))
        readings = np.concatenate(blocks) if blocks else np.empty((0, 2), np.float32)
        owners = Shared.repeated(records, np.array(list(map(self.size, records)), np.int64))
        return Rows(
            len(readings), {"record": owners, "row": Shared(rows), "item": Shared(metrics)}, readings, Counter()
        )

    def size(self, record: Any) -> int:
        return len(record.centre.rows) * len(record.centre.columns)


def _rows_of(matrix: Matrix, rows: tuple[str, ...]) -> Matrix:
    if matrix.rows == rows:
        return matrix
    where = {name: i for i, name in enumerate(matrix.rows)}
    values = matrix.values()
    blank = np.full(len(matrix.columns), np.nan, dtype=np.float32)
    return Matrix.of(rows, matrix.columns, [values[where[r]] if r in where else blank for r in rows])


def _cut(place: int, count: int) -> Callable[[str], str]:
    def get(name: str) -> str:
        parts = name.rsplit("/", count - 1)
        return parts[place] if place < len(parts) else ""

    return get
