"""How a field of a record is stored: ClickHouse type, codec, and the column that the client inserts.

One rule per annotation. Missing numbers are NaN, missing integers and times NULL, missing words "". Integers are as
wide as the wire's, so that no value from outside overflows: T64 makes the unused bytes free. Codecs are the measured
ones: ZSTD(1) everywhere, differences where values rise steadily.
"""

import types
from array import array
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from schemas.record import Natural, TimeMs

WORD = "LowCardinality(String)"
TIME = "DateTime64(3, 'UTC')"

PROSE = frozenset(
    {"text", "summary", "action", "sql", "note", "detail", "response", "id", "incident", "boot_id", "findings"}
)
"""Strings that rarely repeat: a dictionary would only cost."""

RISING = frozenset({"seq", "sn", "block", "last_sn", "kmsg_seq", "number", "step"})
"""Integers that rise row by row within a sort key."""


class Stored(NamedTuple):
    """One way of storing: `pack` turns the values of a column into what the client inserts fastest; `missing` stands
    for None inside an array, where a column of its own would have `pack` see to it."""

    type: str
    codec: str
    pack: Callable[[list[Any]], Sequence[Any]]
    missing: Any = None


def stored(annotation: Any, name: str, *, narrow: bool = False) -> Stored:
    """How a field of this annotation and column name is stored; TypeError where no rule fits.

    `narrow` floats are float32: 7 digits in half the bytes.
    """
    inner, optional = unwrapped(annotation)
    if inner == TimeMs:
        return Stored(f"Nullable({TIME})" if optional else TIME, "Delta(8), ZSTD(1)", list if optional else _ticks)
    inner_type = _bare(inner)
    if inner_type is bool:
        return Stored("Bool", "ZSTD(1)", list)
    if inner_type is int:
        number = "UInt64" if inner == Natural else "Int64"
        codec = "Delta(8), ZSTD(1)" if name in RISING else "T64, ZSTD(1)"
        if optional:
            return Stored(f"Nullable({number})", codec, list)
        return Stored(number, codec, _unsigned if number == "UInt64" else _signed)
    if inner_type is float:
        return Stored("Float32" if narrow else "Float64", "ZSTD(1)", _floats(narrow, optional), np.nan)
    if inner_type is str or get_origin(inner_type) is Literal:
        prose = name in PROSE and inner_type is str
        return Stored("String" if prose else WORD, "ZSTD(1)", _words if optional else list, "")
    if inner_type is bytes:
        return Stored("String", "ZSTD(1)", list)
    if get_origin(inner_type) is tuple:
        element = stored(get_args(inner_type)[0], name)
        return Stored(f"Array({element.type})", element.codec, list)
    if get_origin(inner_type) is dict:
        element = stored(get_args(inner_type)[1], name, narrow=narrow)
        return Stored(f"Map({WORD}, {element.type})", "ZSTD(1)", list)
    raise TypeError(f"no rule to store {name}: {annotation}")


READING = Stored("Float32", "ZSTD(1)", list)
"""A value of a matrix; its column is cut from the matrix, never packed one by one."""


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        given = [part for part in get_args(annotation) if part is not type(None)]
        if len(given) == 1:
            return given[0], True
    return annotation, False


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _ticks(values: list[Any]) -> Sequence[Any]:
    return array("q", values)


def _unsigned(values: list[Any]) -> Sequence[Any]:
    return array("Q", values)


def _signed(values: list[Any]) -> Sequence[Any]:
    return array("q", values)


def _floats(narrow: bool, optional: bool) -> Callable[[list[Any]], Sequence[Any]]:
    kind = np.float32 if narrow else np.float64

    def pack(values: list[Any]) -> Any:
        if optional:
            values = [np.nan if value is None else value for value in values]
        with np.errstate(over="ignore"):
            return np.array(values, dtype=kind)

    return pack


def _words(values: list[Any]) -> Sequence[Any]:
    return [value or "" for value in values]
