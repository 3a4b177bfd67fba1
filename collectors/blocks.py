"""Blocks of collectives: sums over fixed ranges of sequence numbers, comparable between ranks without clocks."""

from typing import NamedTuple

from schemas.collective import Block, Function


class BlockKey(NamedTuple):
    """What makes the blocks of two ranks the same block."""

    communicator: str
    function: Function
    size_class: int
    number: int


class Blocks:
    """The open blocks of one rank. Block `index` holds sequence numbers [index * 2^k, (index + 1) * 2^k).

    >>> b = Blocks(1)
    >>> for sn in (0, 1, 2): b.add("c", "AllReduce", sn, 1024, 5.0)
    >>> [(key.number, sums[0]) for key, sums in b.take()]
    [(0, 2)]
    """

    def __init__(self, k: int) -> None:
        self.k = k
        self._open: dict[tuple[str, Function, int, int], list[float]] = {}
        self._newest: dict[tuple[str, str], int] = {}

    def add(self, communicator: str, function: Function, sn: int, size_bytes: int, exec_time_us: float) -> None:
        """Count one operation."""
        index = sn >> self.k
        # Thousands of times a second: a plain tuple is a quarter of a named one's price.
        key = (communicator, function, max(size_bytes, 1).bit_length() - 1, index)
        sums = self._open.get(key)
        if sums is None:
            self._open[key] = [1, exec_time_us, exec_time_us, exec_time_us]
            stream = (communicator, function)
            self._newest[stream] = max(index, self._newest.get(stream, -1))
            return
        sums[0] += 1
        sums[1] += exec_time_us
        if exec_time_us < sums[2]:
            sums[2] = exec_time_us
        elif exec_time_us > sums[3]:
            sums[3] = exec_time_us

    def restart(self, communicator: str, function: Function) -> None:
        """The sequence numbers of this stream began again: what is open belongs to the past."""
        self._newest.pop((communicator, function), None)
        for key in [k for k in self._open if k[:2] == (communicator, function)]:
            del self._open[key]

    def take(self, everything: bool = False) -> list[tuple[BlockKey, list[float]]]:
        """The blocks that are over (a later one has begun), or all at the end; each is given once.

        The values are [count, sum, min, max] of the execution times in microseconds.
        """
        over = [key for key in map(BlockKey._make, self._open) if everything or key.number < self._last(key)]
        return [(key, self._open.pop(key)) for key in over]

    def _last(self, key: BlockKey) -> int:
        return self._newest.get((key.communicator, key.function), key.number)


def as_block(member: int, k: int, key: BlockKey, sums: list[float]) -> Block:
    """The record of one block; `member` indexes the frame's communicators."""
    return Block(member, key.function, key.size_class, k, key.number, int(sums[0]), sums[1], sums[2], sums[3])
