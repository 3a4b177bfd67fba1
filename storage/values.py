"""How a field of a record is stored: ClickHouse type, codec, and how a column of its values is packed.

One rule per annotation. Missing numbers are NaN, missing integers and times NULL, missing words "". Integers are as
wide as the wire's, so that no value from outside overflows: T64 makes the unused bytes free. Codecs are the measured
ones: ZSTD(1) everywhere, differences where values rise steadily.
"""

import types
from array import array
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from schemas.record import Natural, TimeMs
from storage.native import Lists, Maybe, Numbers, Packed, Texts, lists, words

WORD = "LowCardinality(String)"
TIME = "DateTime64(3, 'UTC')"

PROSE = frozenset(
    {"text", "summary", "action", "sql", "note", "detail", "response", "id", "incident", "boot_id", "findings"}
)
"""Strings that rarely repeat: a dictionary would only cost."""

RISING = frozenset({"seq", "sn", "block", "last_sn", "kmsg_seq", "number", "step"})
"""Integers that rise row by row within a sort key."""

Pack = Callable[[list[Any]], Packed]


class Stored(NamedTuple):
    """One way of storing: `pack` makes the column of a batch's values. It raises TypeError, ValueError or OverflowError
    for a value that the type cannot hold. `missing` stands for None inside an array, where a column of its own would
    have `pack` see to it."""

    type: str
    codec: str
    pack: Pack
    missing: Any = None


def stored(annotation: Any, name: str, *, narrow: bool = False) -> Stored:
    """How a field of this annotation and column name is stored; TypeError where no rule fits.

    `narrow` floats are float32: 7 digits in half the bytes.
    """
    inner, optional = unwrapped(annotation)
    if inner == TimeMs:
        return Stored(f"Nullable({TIME})" if optional else TIME, "Delta(8), ZSTD(1)", _whole("q", optional))
    inner_type = _bare(inner)
    if inner_type is bool:
        return Stored("Bool", "ZSTD(1)", lambda values: Numbers(np.array(values, np.bool_)))
    if inner_type is int:
        number = "UInt64" if inner == Natural else "Int64"
        codec = "Delta(8), ZSTD(1)" if name in RISING else "T64, ZSTD(1)"
        kind = "Q" if number == "UInt64" else "q"
        return Stored(f"Nullable({number})" if optional else number, codec, _whole(kind, optional))
    if inner_type is float:
        return Stored("Float32" if narrow else "Float64", "ZSTD(1)", _floats(narrow, optional), np.nan)
    if inner_type is str or get_origin(inner_type) is Literal:
        prose = name in PROSE and inner_type is str
        return Stored("String" if prose else WORD, "ZSTD(1)", _strings(Texts if prose else words, optional), "")
    if inner_type is bytes:
        return Stored("String", "ZSTD(1)", Texts)
    if get_origin(inner_type) is tuple:
        return array_of(stored(get_args(inner_type)[0], name))
    if get_origin(inner_type) is dict:
        element = stored(get_args(inner_type)[1], name, narrow=narrow)
        return Stored(f"Map({WORD}, {element.type})", "ZSTD(1)", _maps(element.pack))
    raise TypeError(f"no rule to store {name}: {annotation}")


def array_of(element: Stored) -> Stored:
    """Sequences of what is stored as `element`."""
    return Stored(f"Array({element.type})", element.codec, lambda values: lists(values, element.pack), element.missing)


READING = Stored("Float32", "ZSTD(1)", lambda values: Numbers(np.array(values, np.float32)))
"""A value of a matrix; its column is cut from the matrix, never packed one by one."""

NAME = Stored(WORD, "ZSTD(1)", words)
"""A name that many rows share."""


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        given = [part for part in get_args(annotation) if part is not type(None)]
        if len(given) == 1:
            return given[0], True
    return annotation, False


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _whole(kind: str, optional: bool) -> Pack:
    """Integers; an array of the standard library is strict about what it takes, and fast."""

    def numbers(values: list[Any]) -> Numbers:
        return Numbers(np.frombuffer(array(kind, values), kind))

    def maybe(values: list[Any]) -> Maybe:
        missing = np.array([value is None for value in values], np.bool_)
        return Maybe(missing, numbers([0 if value is None else value for value in values]).values)

    return maybe if optional else numbers


def _floats(narrow: bool, optional: bool) -> Pack:
    kind = np.float32 if narrow else np.float64

    def pack(values: list[Any]) -> Numbers:
        if optional:
            values = [np.nan if value is None else value for value in values]
        with np.errstate(over="ignore"):
            return Numbers(np.array(values, dtype=kind))

    return pack


def _strings(pack: Callable[[list[Any]], Packed], optional: bool) -> Pack:
    return (lambda values: pack([value or "" for value in values])) if optional else pack


def _maps(pack: Pack) -> Pack:
    def maps(values: list[Any]) -> Lists:
        keys = lists(values, words)
        inner = [value for one in values for value in one.values()]
        return Lists(keys.sizes, (*keys.inner, pack(inner)))

    return maps
