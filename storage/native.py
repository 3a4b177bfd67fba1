"""ClickHouse's Native format: a batch of rows as one block of columns, each of them one piece of memory.

A packed column is made once from the different values of a batch, takes from them what stands in each row, and writes
itself. Numbers are numpy arrays and words are numbered once per batch: a row costs no Python object. The layout is
that of ClickHouse's docs (interfaces/formats/Native) and of its serializations for LowCardinality, Nullable, Array
and Map.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, Protocol

import lz4.frame
import msgspec
import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""For each row, which value of a column stands there."""


class Packed(Protocol):
    """A column, ready to be written."""

    @property
    def head(self) -> bytes:
        """What is written before the column, and before the sizes of an array around it."""

    def __len__(self) -> int: ...
    def take(self, which: Places) -> "Packed": ...
    def tolist(self) -> list[Any]: ...
    def body(self) -> Iterable[bytes]: ...


class Numbers(msgspec.Struct, frozen=True):
    """Integers, floats, times and truths."""

    values: NDArray[Any]
    head: ClassVar[bytes] = b""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, which: Places) -> "Numbers":
        return Numbers(self.values[which])

    def tolist(self) -> list[Any]:
        found: list[Any] = self.values.tolist()
        return found

    def body(self) -> Iterable[bytes]:
        return (self.values.tobytes(),)


class Maybe(msgspec.Struct, frozen=True):
    """Numbers of which some are missing."""

    missing: NDArray[np.bool_]
    values: NDArray[Any]
    head: ClassVar[bytes] = b""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, which: Places) -> "Maybe":
        return Maybe(self.missing[which], self.values[which])

    def tolist(self) -> list[Any]:
        return [None if gone else value for gone, value in zip(self.missing, self.values.tolist(), strict=True)]

    def body(self) -> Iterable[bytes]:
        return (self.missing.tobytes(), self.values.tobytes())


class Words(msgspec.Struct, frozen=True):
    """LowCardinality(String): each word once, and which of them stands in which row."""

    keys: list[str]
    codes: NDArray[np.int64]
    head: ClassVar[bytes] = (1).to_bytes(8, "little")

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, which: Places) -> "Words":
        return Words(self.keys, self.codes[which])

    def tolist(self) -> list[Any]:
        return [self.keys[code] for code in self.codes]

    def body(self) -> Iterable[bytes]:
        if not len(self.codes):
            return ()
        width = 0 if len(self.keys) <= 1 << 8 else 1 if len(self.keys) <= 1 << 16 else 2
        # The dictionary comes with the block, and in whole.
        kind = (width | 1 << 9 | 1 << 10).to_bytes(8, "little")
        return (
            kind,
            len(self.keys).to_bytes(8, "little"),
            *Texts(self.keys).body(),
            len(self.codes).to_bytes(8, "little"),
            self.codes.astype(f"<u{1 << width}").tobytes(),
        )


class Texts(msgspec.Struct, frozen=True):
    """Strings that rarely repeat, and bytes; UnicodeEncodeError where one is no UTF-8."""

    values: Sequence[str | bytes]
    head: ClassVar[bytes] = b""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, which: Places) -> "Texts":
        return Texts([self.values[place] for place in which])

    def tolist(self) -> list[Any]:
        return list(self.values)

    def body(self) -> Iterable[bytes]:
        raw = [value.encode() if isinstance(value, str) else value for value in self.values]
        return chain.from_iterable((varint(len(value)), value) for value in raw)


class Lists(msgspec.Struct, frozen=True):
    """Arrays, and maps as arrays of pairs: how long each is, and the columns of what is in them."""

    sizes: NDArray[np.int64]
    inner: tuple[Packed, ...]

    @property
    def head(self) -> bytes:
        return b"".join(column.head for column in self.inner)

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, which: Places) -> "Lists":
        ends = np.cumsum(self.sizes)
        inside = np.concatenate([np.arange(ends[p] - self.sizes[p], ends[p]) for p in which]) if len(which) else which
        return Lists(self.sizes[which], tuple(column.take(inside) for column in self.inner))

    def tolist(self) -> list[Any]:
        values = [column.tolist() for column in self.inner]
        flat = list(zip(*values, strict=True)) if len(values) > 1 else values[0]
        ends = np.cumsum(self.sizes)
        found = [flat[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]
        return [dict(pairs) for pairs in found] if len(values) > 1 else found

    def body(self) -> Iterable[bytes]:
        ends = np.cumsum(self.sizes).astype("<u8").tobytes()
        return chain((ends,), *(column.body() for column in self.inner))


def words(values: Sequence[str]) -> Words:
    """Number the words of a column."""
    keys = list(dict.fromkeys(values))
    if len(keys) == 1:
        return Words(keys, np.zeros(len(values), np.int64))
    number = dict(zip(keys, range(len(keys)), strict=True))
    return Words(keys, np.fromiter(map(number.__getitem__, values), np.int64, len(values)))


def lists(values: Sequence[Sequence[Any]], pack: Callable[[list[Any]], Packed]) -> Lists:
    """A column of sequences, whose items are packed as one."""
    return Lists(np.array([len(value) for value in values], np.int64), (pack(list(chain.from_iterable(values))),))


def varint(number: int) -> bytes:
    """A length in as few bytes as it needs, seven bits each, lowest first.

    >>> varint(5), varint(300)
    (b'\\x05', b'\\xac\\x02')
    """
    if number < 128:
        return _SHORT[number]
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


_SHORT = [bytes([number]) for number in range(128)]


def block(names: Sequence[str], types: Sequence[str], columns: Sequence[Packed], rows: int) -> bytes:
    """One block of `rows` rows."""
    pieces = [varint(len(names)), varint(rows)]
    for name, kind, column in zip(names, types, columns, strict=True):
        pieces += Texts([name, kind]).body()
        pieces.append(column.head)
        pieces += column.body()
    return b"".join(pieces)


def compressed(block: bytes) -> bytes:
    """The block as it is sent: a frame of LZ4, which costs both sides less time than its bytes would."""
    packed: bytes = lz4.frame.compress(block, compression_level=-1, store_size=False)
    return packed
