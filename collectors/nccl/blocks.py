"""Blocks of collectives: sums over fixed ranges of sequence numbers, comparable between ranks without clocks."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from schemas.collective import Block, Function


class BlockKey(NamedTuple):
    """What makes the blocks of two ranks the same block."""

    communicator: str
    function: Function
    size_class: int
    number: int


class Stream:
    """Where one communicator's operations of one function go: the block that took the last of them."""

    __slots__ = ("communicator", "function", "index", "newest", "size_bytes", "sums")

    def __init__(self, communicator: str, function: Function) -> None:
        self.communicator, self.function = communicator, function
        self.newest = self.index = self.size_bytes = -1
        self.sums: list[float] = []


class Blocks:
    """The open blocks of one rank. Block `index` holds sequence numbers [index * 2^k, (index + 1) * 2^k).

    >>> b, s = Blocks(1), Stream("c", "AllReduce")
    >>> for sn in (0, 1, 2): b.add(s, sn, 1024, 5.0)
    >>> [(key.number, sums[0]) for key, sums in b.take([s])]
    [(0, 2)]
    """

    def __init__(self, k: int) -> None:
        self.k = k
        self._open: dict[BlockKey, list[float]] = {}

    def add(self, stream: Stream, sn: int, size_bytes: int, exec_time_us: float) -> None:
        """Count one operation."""
        index = sn >> self.k
        # Thousands of times a second, and nearly each goes where the one before it went.
        if index != stream.index or size_bytes != stream.size_bytes:
            self._turn(stream, index, size_bytes)
        sums = stream.sums
        sums[0] += 1
        sums[1] += exec_time_us
        if exec_time_us < sums[2]:
            sums[2] = exec_time_us
        if exec_time_us > sums[3]:
            sums[3] = exec_time_us

    def restart(self, stream: Stream) -> None:
        """The sequence numbers of this stream began again: what is open belongs to the past."""
        stream.newest = stream.index = -1
        for key in [k for k in self._open if k[:2] == (stream.communicator, stream.function)]:
            del self._open[key]

    def take(self, streams: Iterable[Stream], everything: bool = False) -> list[tuple[BlockKey, list[float]]]:
        """The blocks of `streams` that are over (a later one has begun), or all at the end; each is given once.

        The values are [count, sum, min, max] of the execution times in microseconds.
        """
        newest: dict[tuple[str, str], int] = {}
        for stream in streams:
            newest[stream.communicator, stream.function] = stream.newest
            stream.index = -1
        over = [key for key in self._open if everything or key.number < newest[key.communicator, key.function]]
        return [(key, self._open.pop(key)) for key in over]

    def _turn(self, stream: Stream, index: int, size_bytes: int) -> None:
        key = BlockKey(stream.communicator, stream.function, max(size_bytes, 1).bit_length() - 1, index)
        stream.sums = self._open.setdefault(key, [0, 0.0, math.inf, -math.inf])
        stream.index, stream.size_bytes = index, size_bytes
        stream.newest = max(stream.newest, index)


def as_block(member: int, k: int, key: BlockKey, sums: list[float]) -> Block:
    """The record of one block; `member` indexes the frame's communicators."""
    return Block(member, key.function, key.size_class, k, key.number, int(sums[0]), sums[1], sums[2], sums[3])
