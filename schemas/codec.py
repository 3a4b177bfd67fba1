"""Records to bytes and back.

MessagePack maps with a `type` and a schema version `v`. A reader ignores fields it does not know and fills the ones
it misses, so old and new processes run side by side; a version from the future is refused by name instead of guessed.
"""

from functools import cache
from typing import Any

import msgspec

from schemas.frames import FrameDecoder
from schemas.record import Record


class WireError(Exception):
    """A payload that is no record: `reason` is one of REASONS (it is counted), `detail` says what and where."""

    REASONS = ("not_msgpack", "unknown_type", "future_version", "invalid_field", "wrong_topic")

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _Header(msgspec.Struct):
    type: str
    v: int = 1


_encoder = msgspec.msgpack.Encoder()
_header = msgspec.msgpack.Decoder(_Header)


def encode(record: Record) -> bytes:
    """The bytes of `record`, its class's schema version in them."""
    return _encoder.encode(record)


def decode(payload: bytes, topic: str | None = None) -> Record:
    """The record in `payload`; raises WireError. With `topic`, a record of another topic is refused too."""
    try:
        header = _header.decode(payload)
    except msgspec.ValidationError as error:
        raise WireError("unknown_type", f"no record header: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError("not_msgpack", f"{error} ({len(payload)} bytes)") from None
    cls = _classes().get(header.type)
    if cls is None:
        raise WireError("unknown_type", f"record type {header.type!r} is not known here")
    if header.v > cls.version:
        raise WireError(
            "future_version",
            f"{header.type} version {header.v}; this reader knows up to {cls.version}: upgrade it",
        )
    if topic is not None and cls.topic != topic:
        raise WireError("wrong_topic", f"{header.type} belongs on {cls.topic}, not on {topic}")
    try:
        record: Record = _decoder(cls).decode(payload)
    except msgspec.ValidationError as error:
        raise WireError("invalid_field", f"{header.type}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError("not_msgpack", f"{header.type}: {error}") from None
    return record


def to_json(record: Record) -> dict[str, Any]:
    """Plain values for a person or a machine: matrices become rows of numbers by name, missing ones null."""
    from schemas.readable import readable

    plain = readable(record)
    assert isinstance(plain, dict)
    return plain


@cache
def _classes() -> dict[str, type[Record]]:
    from schemas import RECORDS

    return {str(cls.__struct_config__.tag): cls for cls in RECORDS}


@cache
def _decoder(cls: type[Record]) -> msgspec.msgpack.Decoder[Any] | FrameDecoder[Any]:
    return FrameDecoder(cls) if "sections" in cls.__struct_fields__ else msgspec.msgpack.Decoder(cls)
