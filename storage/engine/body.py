"""Bodies in and out of bounded memory: small ones stay in memory, large ones go through a file in the data folder."""

import asyncio
import shutil
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from tempfile import SpooledTemporaryFile

from storage.engine.answer import CHUNK
from storage.engine.compress import Decoder, Encoder
from storage.engine.errors import NOT_ENOUGH_SPACE, ClickHouseError

IN_MEMORY = 8 << 20

PIECE = 1024
"""Of what is compressed: 32 MiB at the worst (zstd, blocks of one letter repeated)."""


class Spool(SpooledTemporaryFile[bytes]):
    """A body: above IN_MEMORY bytes it is a file without a name. One that would take more than half of what its disk
    has left is refused (243): a few KB of zeros, packed, are as much as one likes, and tables need the rest."""

    def __init__(self, folder: Path, free: Callable[[], int]) -> None:
        super().__init__(IN_MEMORY, dir=str(folder))
        self._free = free

    def write(self, data: bytes) -> int:  # type: ignore[override]  # of any buffer, there
        count = super().write(data)
        size = self.tell()
        if size // IN_MEMORY > (size - count) // IN_MEMORY and size > self._free():
            raise ClickHouseError(
                NOT_ENOUGH_SPACE, f"A body of more than {size >> 20} MiB, unpacked, and the disk has no more than that"
            )
        return count


def spool(folder: Path, free: Callable[[], int] | None = None) -> Spool:
    """An empty body with its file in `folder`; `free` says how many bytes that disk has left, without it the disk."""
    return Spool(folder, free or (lambda: shutil.disk_usage(folder).free))


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
