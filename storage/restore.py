"""Rows back to records, for tables of one row per record."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from schemas.record import Record
from storage.fields import column_name, fields, is_struct
from storage.values import unwrapped

R = TypeVar("R", bound=Record)


def restored(cls: type[R], row: Mapping[str, Any]) -> R:
    """The record that `row` (column names to values) was made from; NaN, NULL and "" become None where allowed. What
    its table leaves out has its default."""
    held = (field for field in fields(cls) if not _left_out(cls, field, row))
    return msgspec.convert({field.name: _value(cls, field, row) for field in held}, cls)


def _left_out(cls: type[msgspec.Struct], field: msgspec.structs.FieldInfo, row: Mapping[str, Any]) -> bool:
    inner, _ = unwrapped(field.type)
    return inner is bytes and column_name(cls, field.name) not in row


def _value(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, row: Mapping[str, Any]) -> Any:
    inner, may_be_none = unwrapped(field.type)
    if is_struct(inner):
        return {part.name: _value(inner, part, row) for part in fields(inner)}
    name = column_name(struct, field.name)
    if get_origin(inner) is tuple and is_struct(get_args(inner)[0]):
        element = get_args(inner)[0]
        parts = fields(element)
        rows = zip(*(row[f"{name}.{column_name(element, part.name)}"] for part in parts), strict=True)
        return [
            {part.name: _plain(value, unwrapped(part.type)[1]) for part, value in zip(parts, values, strict=True)}
            for values in rows
        ]
    return _plain(row[name], may_be_none)


def _plain(value: Any, may_be_none: bool) -> Any:
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=value.tzinfo or UTC).timestamp() * 1000)
    if may_be_none and (value == "" or (isinstance(value, float) and math.isnan(value))):
        return None
    return value
