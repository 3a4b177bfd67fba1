"""Frames from their bytes, at a fifth of the price: what a node says every second about itself is read once.

The names of rows and columns, and the list of GPUs, are most of a frame's bytes and nearly always those of the frame
before. They are compared as bytes with what was last read from the same node, and where nothing changed the frame gets
the very same objects, the names of columns also from node to node; readers may count on that for speed, never for
truth. Numbers are taken as they are.
"""

from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import Raw

from schemas.matrix import Matrix
from schemas.record import Record

R = TypeVar("R", bound=Record)

NODES = 4096
"""Of so many nodes the last names are kept; where there are more, all are forgotten at once and read again."""

SECTIONS = 64
"""And of so many sections of a node: no frame has as many."""

_NAMES = msgspec.msgpack.Decoder(tuple[str, ...])


class _Sheet(msgspec.Struct, frozen=True, array_like=True):
    """A matrix whose names have not been looked at."""

    rows: Raw
    columns: Raw
    data: bytes


_Names = tuple[Raw, Raw, Matrix]
"""Of rows and columns as bytes, and a matrix that has them."""


class FrameDecoder(Generic[R]):
    """Reads records of one class that has `sections`."""

    def __init__(self, cls: type[R]) -> None:
        self._cls = cls
        self._whole = msgspec.msgpack.Decoder(cls)
        fields = msgspec.structs.fields(cls)
        self._lists = {f.name: msgspec.msgpack.Decoder(f.type) for f in fields if get_origin(f.type) is tuple}
        light = msgspec.defstruct(
            f"Light{cls.__name__}",
            [self._field(field) for field in fields],
            kw_only=True,
            frozen=True,
            tag_field=cls.__struct_config__.tag_field,
            tag=cls.__struct_config__.tag,
        )
        self._light = msgspec.msgpack.Decoder(light)
        self._columns: dict[bytes, tuple[str, ...]] = {}
        self._names: dict[str, dict[str, _Names]] = {}
        self._items: dict[str, tuple[Raw, Any]] = {}

    def decode(self, payload: bytes) -> R:
        """The record; raises what msgspec's decoder of the whole class raises."""
        try:
            return self._decoded(payload)
        except (msgspec.MsgspecError, ValueError):
            return self._whole.decode(payload)

    def _decoded(self, payload: bytes) -> R:
        given = msgspec.structs.asdict(self._light.decode(payload))
        node = given["node"]
        names = self._names.get(node)
        if names is None:
            names = {}
            _keep(self._names, node, names)
        given["sections"] = {name: self._matrix(names, name, sheet) for name, sheet in given["sections"].items()}
        for name in self._lists:
            given[name] = self._list(node, name, given[name])
        return self._cls(**given)

    def _matrix(self, names: dict[str, _Names], section: str, sheet: _Sheet) -> Matrix:
        known = names.get(section)
        if known is None or known[0] != sheet.rows or known[1] != sheet.columns:
            rows, columns = Raw(bytes(sheet.rows)), Raw(bytes(sheet.columns))
            named = self._columns.get(bytes(columns)) or _NAMES.decode(columns)
            _keep(self._columns, bytes(columns), named)
            known = rows, columns, Matrix(_NAMES.decode(rows), named, sheet.data)
            _keep(names, section, known, SECTIONS)
        return known[2].with_data(sheet.data)

    def _list(self, node: str, name: str, raw: Raw) -> Any:
        known = self._items.get(node)
        if known is None or known[0] != raw:
            known = Raw(bytes(raw)), self._lists[name].decode(raw)
            _keep(self._items, node, known)
        return known[1]

    def _field(self, field: msgspec.structs.FieldInfo) -> tuple[str, Any, Any] | tuple[str, Any]:
        if field.name in self._lists:
            return field.name, Raw, Raw(b"\x90")
        kind = dict[str, _Sheet] if get_args(field.type)[1:] == (Matrix,) else field.type
        if field.default is not msgspec.NODEFAULT:
            return field.name, kind, field.default
        if field.default_factory is not msgspec.NODEFAULT:
            return field.name, kind, msgspec.field(default_factory=field.default_factory)
        return field.name, kind


def _keep(known: dict[Any, Any], key: Any, value: Any, most: int = 8 * NODES) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = value
