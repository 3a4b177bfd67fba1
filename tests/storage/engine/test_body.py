"""Bodies on their way in: whatever is sent, the engine goes on answering others."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zstandard

from storage.engine.body import IN_MEMORY, PIECE, receive, spool
from storage.engine.compress import Decoder
from storage.engine.errors import ClickHouseError


async def chunks(*bodies: bytes) -> AsyncIterator[bytes]:
    for body in bodies:
        yield body


class Waiting(Decoder):
    """Takes its time: until the others were served."""

    def __init__(self) -> None:
        super().__init__("gzip")
        self.served = threading.Event()

    def feed(self, data: bytes) -> bytes:
        assert self.served.wait(10), "nobody else was served meanwhile"
        return super().feed(data)


def test_others_are_served_while_a_body_is_decompressed(tmp_path: Path) -> None:
    async def both() -> bytes:
        decoder = Waiting()
        with spool(tmp_path) as body:
            sent = gzip.compress(bytes(range(256)) * 40, compresslevel=0)
            taking = asyncio.ensure_future(receive(chunks(sent), decoder, body))
            await asyncio.sleep(0.01)
            decoder.served.set()
            await taking
            return body.read()

    assert asyncio.run(both()) == bytes(range(256)) * 40


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_that_grows_a_thousandfold_passes_in_parts(encoding: str, tmp_path: Path) -> None:
    plain = bytes(64 << 20)
    sent = gzip.compress(plain) if encoding == "gzip" else zstandard.ZstdCompressor().compress(plain)
    parts: list[int] = []

    class Counting(Decoder):
        def feed(self, data: bytes) -> bytes:
            parts.append(len(data))
            return super().feed(data)

    async def take() -> int:
        with spool(tmp_path) as body:
            await receive(chunks(sent), Counting(encoding), body)
            return body.seek(0, 2)

    assert asyncio.run(take()) == len(plain)
    assert max(parts) <= PIECE


def test_a_body_that_would_fill_the_disk_is_refused_while_half_of_it_is_free(tmp_path: Path) -> None:
    sent = gzip.compress(bytes(128 << 20))
    with spool(tmp_path, free=lambda: 20 << 20) as body:
        with pytest.raises(ClickHouseError, match="more than 24 MiB, unpacked") as refused:
            asyncio.run(receive(chunks(sent), Decoder("gzip"), body))
        assert refused.value.code == 243
        assert body.tell() <= 26 << 20, "not unpacked to its end"
    with spool(tmp_path, free=lambda: 0) as body:
        body.write(bytes(IN_MEMORY - 1))  # in memory: whatever the disk has
