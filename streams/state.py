"""What a worker must remember: pieces of bytes in a compacted changelog topic, one piece a record.

Two kinds: *decisions* are written through with the event that changed them, *learning* about once a minute of event
time, at a moment of its own for every key. The bytes are the detector's; this module names, frames and bounds them.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from runtime.errors import UserError
from streams.lane import Key, Write

VERSION = 1
LIMIT_BYTES = 512 * 1024
"""Above half of Kafka's default message limit nothing is stored in one piece (design)."""

CHECKPOINT_MS = 60_000
"""How much event time of learning a kill may lose."""

Kind = Literal["decisions", "learning", "position", "said"]
"""`position` is how far an order of ticks has come: written before the events it covers are acknowledged. `said` are
the records that a decision leads to, written ahead of it, so that a restart can send them."""


class StateTooLarge(Exception):
    """A piece above LIMIT_BYTES: its detector must split it."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One stored value. `ts_ms` is the event time at which it was true."""

    v: int
    ts_ms: int
    data: bytes


_Address = tuple[str, str, Kind, str]
_address = msgspec.msgpack.Decoder(_Address)
_piece = msgspec.msgpack.Decoder(Piece)
_encode = msgspec.msgpack.Encoder().encode


class Saved(msgspec.Struct):
    """All pieces of one key."""

    parts: dict[Kind, dict[str, bytes]] = {}
    ts_ms: int = 0

    def of(self, kind: Kind) -> dict[str, bytes]:
        return self.parts.get(kind, {})


def read(table: Iterable[tuple[bytes, bytes]]) -> dict[Key, Saved]:
    """The pieces of one partition's changelog, by key; raises UserError where a newer version wrote them."""
    found: dict[Key, Saved] = {}
    for raw_key, raw_value in table:
        cluster, name, kind, part = _address.decode(raw_key)
        piece = _piece.decode(raw_value)
        if piece.v > VERSION:
            raise UserError(
                f"the state of {name} has version {piece.v}, this worker knows up to {VERSION}: upgrade the worker, or "
                "delete its changelog topics to start from nothing"
            )
        saved = found.setdefault(Key(cluster, name), Saved())
        saved.parts.setdefault(kind, {})[part] = piece.data
        saved.ts_ms = max(saved.ts_ms, piece.ts_ms)
    return found


class States:
    """What is stored of one partition, and what must be written to keep it true."""

    def __init__(self, saved: Mapping[Key, Saved], checkpoint_ms: int = CHECKPOINT_MS) -> None:
        self._checkpoint_ms = checkpoint_ms
        self._minute: dict[Key, int] = {}
        self._stored: dict[Key, dict[tuple[Kind, str], int]] = {
            key: {(kind, part): hash(data) for kind, parts in one.parts.items() for part, data in parts.items()}
            for key, one in saved.items()
        }

    def due(self, key: Key, ts_ms: int) -> bool:
        """Whether the key's own moment has come since it was last asked. False at first: a new key waits its turn.

        Keys are spread over the interval by their hash, so that a thousand nodes do not write in one tick.
        """
        minute = (ts_ms + zlib.crc32("/".join(key).encode()) % self._checkpoint_ms) // self._checkpoint_ms
        last = self._minute.get(key, minute)
        self._minute[key] = minute
        return minute != last

    def write(self, key: Key, kind: Kind, parts: Mapping[str, bytes], ts_ms: int) -> tuple[Write, ...]:
        """The writes that make `parts` all that is stored of this kind; parts that did not change cost nothing.

        Raises StateTooLarge.
        """
        stored = self._stored.setdefault(key, {})
        writes = []
        for part, data in parts.items():
            if len(data) > LIMIT_BYTES:
                raise StateTooLarge(f"{kind} {part!r} of {key.name}: {len(data)} bytes, {LIMIT_BYTES} allowed")
            if stored.get((kind, part)) != hash(data):
                stored[kind, part] = hash(data)
                writes.append(Write(_encode((*key, kind, part)), _encode(Piece(VERSION, ts_ms, data))))
        for other in [address for address in stored if address[0] == kind and address[1] not in parts]:
            del stored[other]
            writes.append(Write(_encode((*key, *other)), None))
        return tuple(writes)

    def forget(self, key: Key) -> tuple[Write, ...]:
        """The writes that delete all of a key."""
        self._minute.pop(key, None)
        return tuple(Write(_encode((*key, *address)), None) for address in self._stored.pop(key, {}))
