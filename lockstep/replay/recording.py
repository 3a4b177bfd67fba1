"""A recording: records as they were on the topics, each with its length ahead (4 bytes, little-endian).

`lockstep topics tail TOPIC --format record > FILE.records` writes one.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import UserError
from schemas import Record
from schemas.codec import WireError, decode

_LENGTH = struct.Struct("<I")
LONGEST = 16 * 1024 * 1024
"""More than any record may have (Kafka's own limit is 1 MiB): a larger length means that this is no recording."""


def frame(payload: bytes) -> bytes:
    """One record of a recording."""
    return _LENGTH.pack(len(payload)) + payload


def read_recording(path: Path) -> Iterator[Record]:
    """The records of a file; UserError with the byte where it is broken. A torn last record is left out."""
    with path.open("rb") as file:
        position = 0
        while head := file.read(_LENGTH.size):
            if len(head) < _LENGTH.size:
                return
            (length,) = _LENGTH.unpack(head)
            if length > LONGEST:
                raise UserError(f"{path}: no recording, or broken at byte {position}")
            payload = file.read(length)
            if len(payload) < length:
                return
            try:
                yield decode(payload)
            except WireError as error:
                raise UserError(f"{path}: record at byte {position} cannot be read: {error}") from None
            position += _LENGTH.size + length


def is_recording(start: bytes) -> bool:
    """Whether a file that begins so is a recording: a length, then a MessagePack map whose first key is `type`."""
    if len(start) < 12:
        return False
    (length,) = _LENGTH.unpack(start[:4])
    body = start[5:] if 0x80 <= start[4] <= 0x8F else start[7:] if start[4] == 0xDE else b""
    return 0 < length <= LONGEST and body.startswith(b"\xa4type")
