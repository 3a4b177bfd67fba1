"""Any record as plain JSON values, for `topics tail`, dead letters and tests."""

import math
from typing import Any

import msgspec

from schemas.matrix import Matrix


def readable(value: Any) -> Any:
    """`value` with structs as dicts, matrices as {row: {column: number}}, NaN and infinity as null, bytes as hex."""
    if isinstance(value, Matrix):
        table = value.values().tolist()
        return {
            row: {column: readable(number) for column, number in zip(value.columns, numbers, strict=True)}
            for row, numbers in zip(value.rows, table, strict=True)
        }
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        head = {"type": tag} if tag is not None else {}
        return head | {name: readable(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [readable(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
