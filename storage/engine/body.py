"""Bodies in and out of bounded memory: small ones stay in memory, large ones go through a file in the data folder."""

from collections.abc import AsyncIterable, Callable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TypeAlias

from storage.engine.answer import CHUNK
from storage.engine.compress import Decoder, Encoder

IN_MEMORY = 8 << 20

Spool: TypeAlias = "SpooledTemporaryFile[bytes]"


def spool(folder: Path) -> Spool:
    """An empty body; above IN_MEMORY bytes it is a file in `folder` without a name."""
    return SpooledTemporaryFile(IN_MEMORY, dir=str(folder))


async def receive(chunks: AsyncIterable[bytes], decoder: Decoder, body: Spool) -> None:
    """Take a whole request into `body`. Nothing runs before it is here: a broken upload inserts nothing."""
    async for chunk in chunks:
        body.write(decoder.feed(chunk))
    decoder.finish()
    body.seek(0)


def collect(following: Callable[[], bytes | None], encoder: Encoder, body: Spool) -> int:
    """Take a whole answer into `body`: an error on the way is raised before anything is sent. Its size in bytes."""
    while (chunk := following()) is not None:
        for start in range(0, len(chunk), CHUNK):
            body.write(encoder.compress(chunk[start : start + CHUNK]))
    body.write(encoder.flush())
    size = body.tell()
    body.seek(0)
    return size
