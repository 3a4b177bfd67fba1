"""What the agent and its sampler process say to each other: length-framed MessagePack over pipes."""

import struct
from typing import cast

import msgspec

from collectors.base import CollectorError, NoData, Reading
from schemas import codec
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.record import NodeRecord

_LENGTH = struct.Struct("<I")


class Request(msgspec.Struct, array_like=True):
    """Collect `name` for this tick."""

    id: int
    name: str
    tick_ms: int


class PackedReading(msgspec.Struct, array_like=True):
    """A Reading with its drafts as wire bytes."""

    sections: dict[str, Matrix]
    gpus: tuple[Gpu, ...]
    missing: dict[str, int]
    drafts: list[bytes]


class Fault(msgspec.Struct, array_like=True):
    """An exception of the collector; `kind` "" is NoData."""

    code: str
    text: str
    kind: str
    restart: bool


class Answer(msgspec.Struct, array_like=True):
    """The answer to a request: a reading, or a fault with what can still be said. Id 0 is the greeting."""

    id: int
    reading: PackedReading | None = None
    fault: Fault | None = None


def answer(id_: int, said: "Reading | NoData | CollectorError") -> Answer:
    """What a collector returned or raised, ready to send."""
    if isinstance(said, NoData):
        return Answer(id_, None, Fault("", str(said), "", False))
    if isinstance(said, CollectorError):
        partial = None if said.partial is None else _packed(said.partial)
        return Answer(id_, partial, Fault(said.code, said.text, said.kind, said.restart))
    return Answer(id_, _packed(said))


def result(got: Answer) -> Reading:
    """What the collector returned, or raise what it raised."""
    reading = None if got.reading is None else _unpacked(got.reading)
    fault = got.fault
    if fault is None:
        return reading or Reading()
    if not fault.kind:
        raise NoData(fault.text)
    raise CollectorError(fault.code, fault.text, fault.kind, reading, fault.restart)


def frame(message: msgspec.Struct) -> bytes:
    """A message with its length ahead."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Bytes in, whole messages out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        self._bytes += received
        bodies: list[bytes] = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            bodies.append(bytes(self._bytes[_LENGTH.size : end]))
            del self._bytes[:end]
        return bodies


def _packed(reading: Reading) -> PackedReading:
    drafts = [codec.encode(draft) for draft in reading.drafts]
    return PackedReading(reading.sections, reading.gpus, reading.missing, drafts)


def _unpacked(packed: PackedReading) -> Reading:
    drafts = tuple(cast(NodeRecord, codec.decode(draft)) for draft in packed.drafts)
    return Reading(packed.sections, packed.gpus, packed.missing, drafts)
