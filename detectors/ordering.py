"""Ticks in order: hold each until all nodes have passed it or the watermark has, then hand it out sorted.

Within a tick the order is (node, run_id, seq, lane), so the answer does not depend on how the records of different
nodes interleaved, and a replay gives the same one. A record that comes after its tick was handed out is "late": it is
not handed out at all, because whether it is late depends on transport, and detection must not. Raw records reach the
tables without passing here, so nothing is lost by that; the caller counts and acknowledges it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Generic, Literal, NamedTuple, TypeVar

Item = TypeVar("Item")

CAPACITY = 100_000
"""Records held at most; beyond it the oldest tick goes out early. About ten seconds of 10,000 records a second."""

JOINING_MS = 10_000
"""While nodes are still being discovered, "all known nodes" means little: only the watermark releases."""

RETIRE_MS = 60_000
"""A lane this far behind the last tick handed out is no longer waited for."""

_NOTHING = -1
"""Where a lane is that has sent nothing yet."""

Disposition = Literal["held", "duplicate", "late"]


class Tick(NamedTuple, Generic[Item]):
    """All items of one tick, in order."""

    tick_ms: int
    items: list[Item]


_Order = tuple[str, int, int, str]


class TickOrder(Generic[Item]):
    """Buffers items by tick. An item may carry anything, such as the token with which its record is acknowledged.

    A lane is a stream that a node feeds (a topic): its records arrive in tick order, one per tick. `nodes` names the
    nodes known beforehand, whose lane is `lane`; others are discovered. `released_ms` continues after a restart.
    """

    def __init__(
        self,
        nodes: Iterable[str] = (),
        lane: str = "",
        released_ms: int | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        self._held: dict[int, dict[_Order, Item]] = {}
        self._count = 0
        self._capacity = capacity
        self._first_ms: int | None = None
        self._lanes: dict[tuple[str, str], int] = {(node, lane): _NOTHING for node in nodes}
        self._lanes_at = Counter(self._lanes.values())  # how many lanes have come to each tick
        self._told = bool(self._lanes)
        self.released_ms = released_ms
        """The newest tick handed out."""

    def __len__(self) -> int:
        return self._count

    def add(self, tick_ms: int, node: str, run_id: int, seq: int, item: Item, lane: str = "") -> Disposition:
        """Hold the item of one record; "duplicate" and "late" ones are not kept and can be acknowledged at once."""
        key = (node, lane)
        if tick_ms > self._lanes.get(key, _NOTHING):
            self._move(key, tick_ms)
        if self._first_ms is None:
            self._first_ms = tick_ms
        if self.released_ms is not None and tick_ms <= self.released_ms:
            return "late"
        tick = self._held.setdefault(tick_ms, {})
        order = (node, run_id, seq, lane)
        if order in tick:
            return "duplicate"
        tick[order] = item
        self._count += 1
        return "held"

    def release(self, watermark_ms: int | None, passed: bool = True) -> list[Tick[Item]]:
        """The ticks that are over, oldest first. With `passed` False the watermark alone releases: for a caller who
        knows that lanes are still to come which have not been heard of yet."""
        limit = self._limit(watermark_ms) if passed else float("-inf") if watermark_ms is None else watermark_ms
        out: list[Tick[Item]] = []
        for tick_ms in sorted(self._held):
            if tick_ms > limit and self._count <= self._capacity:
                break
            tick = self._held.pop(tick_ms)
            self._count -= len(tick)
            self.released_ms = tick_ms
            out.append(Tick(tick_ms, [tick[order] for order in sorted(tick)]))
        if out:
            self._retire()
        return out

    def _limit(self, watermark_ms: int | None) -> float:
        by_watermark = float("-inf") if watermark_ms is None else watermark_ms
        passed = min(self._lanes_at, default=_NOTHING)
        if passed == _NOTHING or self._first_ms is None:
            return by_watermark
        discovering = not self._told and passed < self._first_ms + JOINING_MS
        return by_watermark if discovering else max(by_watermark, passed)

    def _move(self, key: tuple[str, str], tick_ms: int | None) -> None:
        """Take a lane to a tick; None takes it out."""
        before = self._lanes.pop(key, None)
        if before is not None:
            self._lanes_at[before] -= 1
            if not self._lanes_at[before]:
                del self._lanes_at[before]
        if tick_ms is not None:
            self._lanes[key] = tick_ms
            self._lanes_at[tick_ms] += 1

    def _retire(self) -> None:
        """Stop waiting for lanes that have fallen silent, or were named and never spoke."""
        if self.released_ms is None or self._first_ms is None:
            return
        oldest_ms = self.released_ms - RETIRE_MS
        if self._first_ms < oldest_ms and min(self._lanes_at, default=oldest_ms) < oldest_ms:
            for key in [key for key, tick in self._lanes.items() if tick < oldest_ms]:
                self._move(key, None)
