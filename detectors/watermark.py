"""How far a partition's nodes have come, by the ticks of their records.

The watermark is the median over nodes of the newest tick, minus a grace: one node cannot move it or hold it up. A
node whose records lie more than 30 s off that median has a wrong clock and loses its vote, unless it is catching up
(its distance shrinks: a spool drains) or it went on second by second while the median stood still (the others fell
silent). The majority is right: where most nodes jump together, it was time that went on.
"""

from bisect import bisect_left, insort
from typing import Literal

import msgspec

from detectors.state import unpack

GRACE_MS = 2000
"""How long a tick waits for stragglers of transport."""

CLOCK_WRONG_MS = 30_000
"""Further than this from the median is a wrong clock: clocks kept by NTP are within milliseconds, records travel in
seconds."""

SMOOTH_MS = 5000
"""An advance of at most this much since a node's last record is time going on, not a clock that jumps."""

CATCH_UP_MS = 10_000
"""A node that is behind is given this much progress of the median to come closer by a fifth of it."""

FORGET_MS = 24 * 3_600_000
"""A node not heard of for a day of event time was taken out of service."""

SOLO_RECORDS = 10
"""So many records of one node in a row, with none of any other between, and it is the last one that speaks."""

ROUNDS = 10
"""Where only nodes taken for wrong speak for so many rounds, they are right: the trusted ones are gone."""

SOLO_WRONG_RECORDS = 600
"""The same for a single node, ten minutes: one wrong node may drain its spool in a burst."""

_FIRST_TICKS = 3

Standing = Literal["in_step", "late", "clock_wrong"]


class NodeClock(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of one node: `heard` counts its records, `seen_ms` is where the others were at the newest one; a
    `muted` node is silent and does not vote."""

    newest_ms: int
    heard: int = 0
    seen_ms: int = 0
    wrong: bool = False
    muted: bool = False
    behind_from_ms: int | None = None
    behind_ms: int = 0

    @property
    def votes(self) -> bool:
        return not (self.wrong or self.muted)


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    value_ms: int | None
    nodes: dict[str, NodeClock]


class Watermark:
    """The watermark of one partition. Feed every record's node and tick; read `value_ms`."""

    def __init__(self, grace_ms: int = GRACE_MS) -> None:
        self._grace_ms = grace_ms
        self._nodes: dict[str, NodeClock] = {}
        self._votes: list[int] = []  # sorted newest ticks of the nodes that vote
        self._all: list[int] = []  # the same with the nodes whose clock is wrong: who is judged by whom
        self._ready = False
        self._value_ms: int | None = None
        self._solo = ("", 0)  # who spoke last, and how often in a row
        self._wrong_run: dict[str, int] = {}  # records since a trusted node spoke, by node

    @property
    def value_ms(self) -> int | None:
        """Every tick up to here is over; None until a node has shown three records. Never goes back."""
        return self._value_ms

    @property
    def nodes(self) -> dict[str, NodeClock]:
        """All nodes heard of in the last day, by name. To read, not to change."""
        return self._nodes

    def median_ms(self) -> int | None:
        """The (lower) median of the newest ticks of the nodes that vote."""
        return _lower_median(self._votes)

    def front_ms(self) -> int | None:
        """The newest tick that two voting nodes have reached; one, where there are no more than two nodes or only one
        still speaks."""
        if not self._votes:
            return None
        one = len(self._nodes) <= 2 or len(self._votes) < 2 or self._solo[1] >= SOLO_RECORDS
        return self._votes[-1] if one else self._votes[-2]

    def observe(self, node: str, tick_ms: int) -> Standing:
        """Take one record. A caller keeps records of a node with a wrong clock out of what compares nodes."""
        clock = self._nodes.get(node)
        known = clock is not None
        if clock is None:
            clock = self._nodes[node] = NodeClock(newest_ms=tick_ms)
        alone = len(self._votes) == (1 if known and clock.votes else 0)
        standing: Standing = "in_step" if alone else self._standing(clock, known, tick_ms)
        if known:
            self._leave(clock)
        was_wrong, clock.wrong = clock.wrong, standing == "clock_wrong"
        clock.newest_ms = tick_ms if clock.wrong or was_wrong else max(clock.newest_ms, tick_ms)
        clock.heard += 1
        clock.muted = False
        insort(self._all, clock.newest_ms)
        if clock.votes:
            insort(self._votes, clock.newest_ms)
        self._solo = (node, self._solo[1] + 1 if self._solo[0] == node else 1)
        self._mistrust(node, clock.wrong)
        clock.seen_ms = self.front_ms() or 0
        self._ready |= clock.heard >= _FIRST_TICKS
        self._advance()
        return standing

    def mute(self, node: str) -> None:
        """Take the vote of a silent node until it is heard again, so that the others can go on."""
        clock = self._nodes[node]
        self._leave(clock)
        clock.muted = True
        self._advance()

    def forget(self) -> list[str]:
        """Drop and name the nodes not heard of for a day of event time."""
        front = self.front_ms()
        if front is None:
            return []
        gone = [node for node, clock in self._nodes.items() if clock.seen_ms < front - FORGET_MS]
        for node in gone:
            self.mute(node)
            del self._nodes[node]
        return gone

    def state(self) -> bytes:
        """A versioned checkpoint, about 50 bytes a node."""
        return msgspec.msgpack.encode(_State(value_ms=self._value_ms, nodes=self._nodes))

    def restore(self, state: bytes) -> None:
        """Continue from `state`; raises StateError where it is none."""
        old = unpack(state, _State)
        self._nodes = old.nodes
        self._votes = sorted(clock.newest_ms for clock in old.nodes.values() if clock.votes)
        self._all = sorted(clock.newest_ms for clock in old.nodes.values() if not clock.muted)
        self._value_ms = old.value_ms
        self._ready = old.value_ms is not None

    def _standing(self, clock: NodeClock, known: bool, tick_ms: int) -> Standing:
        median = _lower_median(self._all)
        assert median is not None
        offset = tick_ms - median
        if abs(offset) <= CLOCK_WRONG_MS:
            clock.behind_from_ms = None
            return "in_step"
        if offset > 0:
            went_on = known and not clock.wrong and 0 <= tick_ms - clock.newest_ms <= SMOOTH_MS
            return "in_step" if went_on else "clock_wrong"
        if clock.behind_from_ms is None:
            clock.behind_from_ms, clock.behind_ms = median, offset
        progress = median - clock.behind_from_ms
        if progress < CATCH_UP_MS:
            return "clock_wrong" if clock.wrong else "late"
        closer = offset - clock.behind_ms
        clock.behind_from_ms, clock.behind_ms = median, offset
        return "late" if closer * 5 >= progress else "clock_wrong"

    def _mistrust(self, node: str, wrong: bool) -> None:
        """Find out that the trusted nodes are gone and those that speak are right."""
        if not wrong:
            self._wrong_run.clear()
            return
        self._wrong_run[node] = self._wrong_run.get(node, 0) + 1
        needed = ROUNDS * len(self._nodes) if len(self._wrong_run) > 1 else SOLO_WRONG_RECORDS
        if sum(self._wrong_run.values()) < needed:
            return
        for name, clock in self._nodes.items():
            if clock.votes:
                self.mute(name)
        for name in self._wrong_run:
            self._nodes[name].wrong = False
            insort(self._votes, self._nodes[name].newest_ms)
        self._wrong_run.clear()

    def _leave(self, clock: NodeClock) -> None:
        if not clock.muted:
            del self._all[bisect_left(self._all, clock.newest_ms)]
        if clock.votes:
            del self._votes[bisect_left(self._votes, clock.newest_ms)]

    def _advance(self) -> None:
        median = self.median_ms()
        if self._ready and median is not None:
            value = median - self._grace_ms
            self._value_ms = value if self._value_ms is None else max(self._value_ms, value)


def _lower_median(ordered: list[int]) -> int | None:
    return ordered[(len(ordered) - 1) // 2] if ordered else None
