"""Reading back what a detector saved.

Each detector's state is a msgspec struct with its own `version: Literal[n]`; a state of another version or shape is
refused, and the caller starts that detector anew rather than guess.
"""

from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Saved = TypeVar("Saved", bound=msgspec.Struct)


class StateError(ValueError):
    """A saved state that this version cannot continue from; the message says why in one line."""


def unpack(data: bytes, of: type[Saved]) -> Saved:
    """The struct in `data`; raises StateError where it is damaged or of another version."""
    try:
        return msgspec.msgpack.decode(data, type=of)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise StateError(f"a saved state of {len(data)} bytes that cannot be continued: {error}") from None


def floats(data: bytes, *shape: int) -> NDArray[np.float32]:
    """The float32 array of `shape` in little-endian `data`; raises StateError where it is of another size."""
    if len(data) != 4 * int(np.prod(shape)):
        raise StateError(f"a saved array of {len(data)} bytes where {shape} numbers are expected")
    return np.frombuffer(data, dtype="<f4").astype(np.float32).reshape(shape)


def to_bytes(array: NDArray[np.float32]) -> bytes:
    """The reverse of `floats`."""
    return np.ascontiguousarray(array, dtype="<f4").tobytes()
