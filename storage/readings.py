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
from storage.shapes import Rows
from storage.values import READING, WORD, Stored

_NAME = Stored(WORD, "ZSTD(1)", list)


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
            found += [Column(name, "row", _NAME, _cut(i, len(self._row))) for i, name in enumerate(self._row)]
        return (*found, *(Column(name, "reading", READING, None) for name in self.metrics))

    def expand(self, records: Sequence[Any]) -> Rows:
        unknown: Counter[str] = Counter()
        owners: list[Any] = []
        rows: list[str] = []
        blocks: list[Float32] = []
        by_layout: dict[tuple[str, ...], list[tuple[Any, tuple[str, ...], bytes]]] = {}
        for record in records:
            matrix: Matrix | None = record.sections.get(self.section)
            if matrix is not None and matrix.rows:
                by_layout.setdefault(matrix.columns, []).append((record, matrix.rows, matrix.data))
            if bare := self._bare(record, matrix):
                by_layout.setdefault((), []).append((record, bare, b""))
        for layout, members in by_layout.items():
            start = len(owners)
            for record, matrix_rows, _ in members:
                owners += [record] * len(matrix_rows)
                rows += matrix_rows
            data = b"".join(data for _, _, data in members)
            here = np.frombuffer(data, dtype="<f4").reshape(len(owners) - start, len(layout))
            blocks.append(self._aligned(layout, here, unknown))
        readings = np.concatenate(blocks) if blocks else np.empty((0, len(self.metrics)), np.float32)
        parts: dict[Part, Sequence[Any]] = {"record": owners, "row": rows}
        if self._describe:
            parts["item"] = self._described(owners, rows)
        return Rows(parts, readings, unknown)

    def size(self, record: Any) -> int:
        matrix = record.sections.get(self.section)
        return (len(matrix.rows) if matrix is not None else 0) + len(self._bare(record, matrix))

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

    def _bare(self, record: Any, matrix: Matrix | None) -> tuple[str, ...]:
        if not self._describe:
            return ()
        listed = tuple([item.uuid for item in getattr(record, self._describe)])
        if matrix is None or listed == matrix.rows:
            return () if matrix is not None else listed
        here = frozenset(matrix.rows)
        return tuple(uuid for uuid in listed if uuid not in here)

    def _described(self, owners: list[Any], rows: list[str]) -> list[Any]:
        out, last, known = [], None, {}
        for owner, row in zip(owners, rows, strict=True):
            if owner is not last:
                last, known = owner, {item.uuid: item for item in getattr(owner, self._describe)}
            out.append(known.get(row) or Gpu(uuid=row))
        return out


class Centres:
    """One row per GPU and metric of a `Baselines` record."""

    def columns(self, record: type[Record]) -> tuple[Column, ...]:
        return (
            *scalars(record, "record"),
            Column("gpu", "row", _NAME, itself),
            Column("metric", "item", _NAME, itself),
            Column("centre", "reading", READING, None),
            Column("spread", "reading", READING, None),
        )

    def expand(self, records: Sequence[Any]) -> Rows:
        owners: list[Any] = []
        rows: list[str] = []
        metrics: list[str] = []
        blocks: list[Float32] = []
        for record in records:
            centre: Matrix = record.centre
            owners += [record] * (len(centre.rows) * len(centre.columns))
            rows += [row for row in centre.rows for _ in centre.columns]
            metrics += centre.columns * len(centre.rows)
            spread = _rows_of(record.spread, centre.rows).select(centre.columns)
            blocks.append(np.stack([centre.values().ravel(), spread.ravel()], axis=1))
        readings = np.concatenate(blocks) if blocks else np.empty((0, 2), np.float32)
        return Rows({"record": owners, "row": rows, "item": metrics}, readings, Counter())

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
