"""HTTP compression both ways: gzip, deflate, zstd and LZ4 frames, a chunk at a time."""

import zlib
from collections.abc import Callable
from typing import Any, Protocol

import lz4.frame
import zstandard

from storage.engine.errors import CANNOT_DECOMPRESS, UNKNOWN_COMPRESSION_METHOD, ClickHouseError

ENCODINGS = ("lz4", "zstd", "gzip", "deflate")
"""In the order we choose: on one machine the processor's time is dearer than bytes."""


def accepted(header: str) -> str:
    """The encoding for an answer, "" for none, from an Accept-Encoding header.

    >>> accepted("gzip, deflate, br;q=0.5, zstd"), accepted("identity"), accepted("gzip;q=0")
    ('zstd', '', '')
    """
    offered = set()
    for part in header.split(","):
        name, _, quality = part.partition(";")
        if quality.strip().replace(" ", "") not in ("q=0", "q=0.0"):
            offered.add(name.strip().lower())
    return next((encoding for encoding in ENCODINGS if encoding in offered), "")


class Encoder(Protocol):
    """Compresses a stream: any number of `compress`, then `flush` once."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Lz4:
    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        head = b"" if self._begun else self._frame.begin()
        self._begun = True
        return bytes(head + self._frame.compress(data))

    def flush(self) -> bytes:
        return self.compress(b"") + bytes(self._frame.flush())


_GZIP, _ZLIB, _EITHER = 31, 15, 47
"""zlib's window sizes, which also say the container; 47 recognises either of the others."""

_FAST = 1
"""Compression level: an answer should not wait for a better ratio."""

_ENCODERS: dict[str, Callable[[], Encoder]] = {
    "": _Plain,
    "lz4": _Lz4,
    "zstd": lambda: zstandard.ZstdCompressor(level=_FAST).compressobj(),
    "gzip": lambda: zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP),
    "deflate": lambda: zlib.compressobj(_FAST, zlib.DEFLATED, _ZLIB),
}

_DECODERS: dict[str, Callable[[], Any]] = {
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    "gzip": lambda: zlib.decompressobj(_EITHER),
    "deflate": lambda: zlib.decompressobj(_EITHER),
}


def encoder(encoding: str) -> Encoder:
    """A compressor of one of ENCODINGS; "" passes bytes through."""
    return _ENCODERS[encoding]()


class Decoder:
    """Decompresses a body of one frame or many (clients send one per block). Raises ClickHouseError."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("", "identity", *_DECODERS):
            raise ClickHouseError(
                UNKNOWN_COMPRESSION_METHOD,
                f"Unknown compression method {encoding!r} in Content-Encoding: send one of {', '.join(ENCODINGS)}",
            )
        self._encoding = encoding
        self._make = _DECODERS.get(encoding)
        self._frame: Any = None

    @property
    def plain(self) -> bool:
        """Whether bytes come out as they go in."""
        return self._make is None

    def feed(self, data: bytes) -> bytes:
        """What `data` holds, as far as it is complete."""
        if self._make is None:
            return data
        held = []
        while data:
            self._frame = self._frame or self._make()
            try:
                held.append(self._frame.decompress(data))
            except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
                raise ClickHouseError(CANNOT_DECOMPRESS, f"The body is no {self._encoding}: {error}") from None
            data, self._frame = (self._frame.unused_data, None) if self._frame.eof else (b"", self._frame)
        return b"".join(held)

    def finish(self) -> None:
        """Say that the body is over: one cut off inside a frame is an error."""
        if self._frame is not None:
            raise ClickHouseError(CANNOT_DECOMPRESS, f"The {self._encoding} body ends inside a frame")
