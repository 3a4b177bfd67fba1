"""Bodies in and out of bounded memory: small ones stay in memory, large ones go through a file in the data folder."""

import asyncio
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TypeAlias

from storage.engine.answer import CHUNK
from storage.engine.compress import Decoder, Encoder

IN_MEMORY = 8 << 20

PIECE = 1024
"""Of what is compressed: 32 MiB at the worst (zstd, blocks of one letter repeated)."""

Spool: TypeAlias = "SpooledTemporaryFile[bytes]"


def spool(folder: Path) -> Spool:
    """An empty body; above IN_MEMORY bytes it is a file in `folder` without a name."""
    return SpooledTemporaryFile(IN_MEMORY, dir=str(folder))


async def receive(chunks: AsyncIterable[bytes], decoder: Decoder, body: Spool) -> None:
    """Take a whole request into `body`. Nothing runs before it is here: a broken upload inserts nothing."""
    async for chunk in chunks:
        if decoder.plain or len(chunk) <= PIECE:
            body.write(decoder.feed(chunk))
        else:
            await asyncio.to_thread(_take, chunk, decoder, body)
    decoder.finish()
    body.seek(0)


def _take(chunk: bytes, decoder: Decoder, body: Spool) -> None:
    """Bytes that say little may hold a thousand times as many: those take their time, and pass through memory in
    parts."""
    for start in range(0, len(chunk), PIECE):
        body.write(decoder.feed(chunk[start : start + PIECE]))


def collect(following: Callable[[], bytes | None], encoder: Encoder, body: Spool) -> int:
    """Take a whole answer into `body`: an error on the way is raised before anything is sent. Its size in bytes."""
    while (chunk := following()) is not None:
        for start in range(0, len(chunk), CHUNK):
            body.write(encoder.compress(chunk[start : start + CHUNK]))
    body.write(encoder.flush())
    size = body.tell()
    body.seek(0)
    return size
