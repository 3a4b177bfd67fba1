"""Which columns the fields of a record, or of a struct in it, become."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from schemas.collective import Block, CollectiveFrame, Communicator, Operation
from schemas.features import GpuScore
from schemas.frame import Gpu
from schemas.inventory import GpuDescription
from schemas.matrix import Matrix
from storage.values import Stored, array_of, stored

Part = Literal["record", "item", "member", "row", "map", "place", "reading"]
"""Where a column is read from: the record, an item of it, the item's communicator, a matrix row's name or its
values by column, the item's place in the record, or the matrix itself."""

RENAMED = {
    (Communicator, "id"): "communicator",
    (Communicator, "name"): "communicator_name",
    (Communicator, "size"): "communicator_size",
    (Communicator, "nodes"): "communicator_nodes",
    (Operation, "ts_ms"): "operation_at",
    (Block, "index"): "block",
    (Gpu, "uuid"): "gpu",
    (GpuDescription, "uuid"): "gpu",
    (GpuDescription, "name"): "product",
    (GpuScore, "uuid"): "gpu",
}
"""Fields whose name says enough inside their own struct only."""

NARROW = {(GpuScore, "score"), (GpuScore, "p_value"), (CollectiveFrame, "coverage")}
"""Statistics in tables of millions of rows, for which 7 digits are ample."""


class Column(NamedTuple):
    """One column: `get` reads its value from an object of its `part`; readings have none."""

    name: str
    part: Part
    stored: Stored
    get: Callable[[Any], Any] | None


def scalars(struct: type[msgspec.Struct], part: Part, without: Sequence[str] = ()) -> list[Column]:
    """The columns of a struct's own values; a record that is repeated over rows leaves its maps and tuples out."""
    found = []
    for field in fields(struct):
        column = next(iter(of_field(struct, field, part)), None)
        whole = part != "record" or get_origin(field.type) not in (tuple, dict)
        if column is not None and whole and "." not in column.name and field.name not in without:
            found.append(column)
    return found


def column_name(struct: type[msgspec.Struct], field: str) -> str:
    """The column of a field: times lose their unit, because ClickHouse's type has it (`onset_ms` -> `onset_at`)."""
    if (struct, field) in RENAMED:
        return RENAMED[struct, field]
    if field == "ts_ms":
        return "ts"
    return field.removesuffix("_ms") + "_at" if field.endswith("_ms") else field


def fields(struct: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(struct) if field.name != "v"]


def of_field(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, part: Part = "record") -> list[Column]:
    """The columns of one field: none for a matrix, several for a struct."""
    inner = field.type
    if inner is Matrix or (get_origin(inner) is dict and get_args(inner)[1] is Matrix):
        return []
    if is_struct(inner):
        return [
            Column(column_name(inner, f.name), part, stored(f.type, f.name), attrgetter(f"{field.name}.{f.name}"))
            for f in fields(inner)
        ]
    name = column_name(struct, field.name)
    if get_origin(inner) is tuple and is_struct(get_args(inner)[0]):
        element = get_args(inner)[0]
        return [_nested(name, field.name, column_name(element, f.name), f, part) for f in fields(element)]
    narrow = (struct, field.name) in NARROW
    return [Column(name, part, stored(inner, name, narrow=narrow), attrgetter(field.name))]


def _nested(name: str, field: str, inner: str, element: msgspec.structs.FieldInfo, part: Part) -> Column:
    kind = stored(element.type, inner)
    items, value, missing = attrgetter(field), attrgetter(element.name), kind.missing

    def get(record: Any) -> list[Any]:
        found = [value(item) for item in items(record)]
        return [missing if v is None else v for v in found]

    return Column(f"{name}.{inner}", part, array_of(kind), get)


def is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def element_of(struct: type[msgspec.Struct], field: str) -> type[msgspec.Struct]:
    found = next(f for f in msgspec.structs.fields(struct) if f.name == field)
    element: type[msgspec.Struct] = get_args(found.type)[0]
    return element


def itself(value: Any) -> Any:
    return value
