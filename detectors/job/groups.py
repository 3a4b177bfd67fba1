"""Operations of many ranks put together: one round is one collective as all ranks of its communicator saw it."""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.bandwidth import SYNCHRONOUS
from schemas.collective import Block, CollectiveFrame, Communicator, Function, Operation

Floats = NDArray[np.float64]

DEADLINE_MS = 3_000
"""A group that is not complete this long after its first rank was heard is judged as it is (a node is silent after
three ticks)."""

WHOLE_UP_TO = 8
ENOUGH = 0.9
"""A group counts with all ranks up to 8, and with 90 % of them above (design section 3)."""

QUORUM = 0.75
"""With fewer, down to three quarters, it still tells who is late among those heard: a rank that three quarters of a
group wait for is late whoever is missing. It tells nothing of the transfer, whose shortest time may be the missing
one's."""

MANY_SIZES = 32
"""Message sizes of one communicator and function that are told apart; more fall together in classes of two."""

WIDEST = 2**17
"""No communicator has more ranks than this: a number above it is not believed, and nothing is allocated for it."""


class Group:
    """A communicator as its members describe it. `ranks[i]` is the global rank of member i, -1 while unknown."""

    def __init__(self, id_: str, name: str, size: int, nodes: int) -> None:
        self.id, self.name, self.size, self.nodes = id_, name, size, nodes
        self.ranks: NDArray[np.int64] = np.full(size, -1, np.int64)
        self.where: list[str] = [""] * size

    def label(self) -> str:
        """Its name where the application gave one, and its id: names need not be unique."""
        return f"{self.name} ({self.id})" if self.name and self.name != "unknown" else self.id

    def hosts(self) -> set[str]:
        """The nodes its known members are on."""
        return {node for node in self.where if node}


class Stream(NamedTuple):
    """Rounds that are comparable with each other. `size` is bytes, or -1 - class where sizes vary too much; `block`
    is True for means over blocks of sequence numbers."""

    communicator: str
    function: Function
    size: int
    block: bool = False


class Round(NamedTuple):
    """One collective: `exec_us[i]` is member i's time, NaN where it was not heard; `ts_ms` when the last one ended.
    `whole` says that enough members were heard to know the transfer's own time."""

    stream: Stream
    sn: int
    exec_us: Floats
    ts_ms: int
    whole: bool = True


class _Open:
    __slots__ = ("first_ms", "heard", "sizes", "ts_ms", "values")

    def __init__(self, size: int, first_ms: int) -> None:
        self.values = [math.nan] * size
        self.heard = 0
        self.first_ms = first_ms
        self.ts_ms = 0
        self.sizes: set[int] = set()


class Assembly:
    """Collects the frames of a job's nodes and gives back the rounds that are complete."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.absent: Counter[int] = Counter()
        self.incomplete = 0
        self.complete = 0
        self.pipelined = False
        """Whether ranks send to each other: then stages differ, and who comes last may be a matter of place."""
        self.mismatched: dict[tuple[str, Function, int], tuple[int, ...]] = {}
        self._open: dict[tuple[str, Function, int], _Open] = {}
        self._blocks: dict[tuple[str, Function, int, int, int], _Open] = {}
        self._singles: Counter[tuple[str, Function, int, int]] = Counter()
        self._ks: set[int] = set()
        self._sizes: dict[tuple[str, Function], set[int]] = {}

    def add(self, tick_ms: int, frame: CollectiveFrame) -> None:
        """Take one frame in. What names a member that does not fit its communicator is left out."""
        members = [self._member(frame.node, c) for c in frame.communicators]
        for op in frame.operations:
            self.pipelined |= op.function in ("Send", "Recv")
            if op.function in SYNCHRONOUS and op.member < len(members) and members[op.member] is not None:
                self._operation(tick_ms, members[op.member], op)  # type: ignore[arg-type]
        for block in frame.blocks:
            if block.function in SYNCHRONOUS and block.member < len(members) and members[block.member] is not None:
                self._block(tick_ms, members[block.member], block)  # type: ignore[arg-type]

    def ready(self, tick_ms: int) -> list[Round]:
        """Rounds that are complete, or at their deadline complete enough, oldest first within a stream."""
        rounds = []
        for key, held in list(self._open.items()):
            group = self.groups[key[0]]
            if held.heard < group.size and tick_ms - held.first_ms < DEADLINE_MS:
                continue
            del self._open[key]
            whole = self._whole(group, held)
            if held.heard < QUORUM * group.size:
                continue
            if len(held.sizes) > 1:
                self.mismatched[key] = tuple(sorted(held.sizes))
                continue
            id_, function, sn = key
            stream = self._stream(id_, function, next(iter(held.sizes)))
            rounds.append(Round(stream, sn, np.array(held.values), held.ts_ms, whole))
            for k in self._ks:
                self._singles[id_, function, k, sn >> k] += 1
        rounds += self._ready_blocks(tick_ms)
        rounds.sort(key=lambda r: (r.ts_ms, r.sn))
        return rounds

    def coverage(self) -> float:
        """The part of groups that could be judged since the start."""
        total = self.complete + self.incomplete
        return self.complete / total if total else 1.0

    def _member(self, node: str, c: Communicator) -> tuple[Group, int] | None:
        if not 1 <= c.size <= WIDEST or c.comm_rank >= c.size or c.rank >= WIDEST:
            return None
        group = self.groups.get(c.id)
        if group is None or group.size != c.size:
            if group is not None:
                self._open = {key: held for key, held in self._open.items() if key[0] != c.id}
                self._blocks = {key: held for key, held in self._blocks.items() if key[0] != c.id}
            group = self.groups[c.id] = Group(c.id, c.name, c.size, c.nodes)
        group.ranks[c.comm_rank] = c.rank
        group.where[c.comm_rank] = node
        return group, c.comm_rank

    def _operation(self, tick_ms: int, member: tuple[Group, int], op: Operation) -> None:
        group, index = member
        key = (group.id, op.function, op.sn)
        held = self._open.get(key)
        if held is None:
            held = self._open[key] = _Open(group.size, tick_ms)
        if held.values[index] != held.values[index]:
            held.values[index] = op.exec_time_us
            held.heard += 1
            held.sizes.add(op.size_bytes)
            held.ts_ms = max(held.ts_ms, op.ts_ms)

    def _block(self, tick_ms: int, member: tuple[Group, int], block: Block) -> None:
        group, index = member
        if block.count < 1 or block.k > 32:
            return
        self._ks.add(block.k)
        key = (group.id, block.function, block.size_class, block.k, block.index)
        held = self._blocks.get(key)
        if held is None:
            held = self._blocks[key] = _Open(group.size, tick_ms)
        if held.values[index] != held.values[index]:
            held.values[index] = block.sum_us / block.count
            held.heard += 1
            held.ts_ms = tick_ms

    def _ready_blocks(self, tick_ms: int) -> list[Round]:
        """Means over blocks, where the single operations of the block were mostly not here (sampled, or lost)."""
        rounds = []
        for key, held in list(self._blocks.items()):
            group = self.groups[key[0]]
            if held.heard < group.size and tick_ms - held.first_ms < DEADLINE_MS:
                continue
            del self._blocks[key]
            id_, function, size_class, k, index = key
            if self._singles.pop((id_, function, k, index), 0) > 2**k // 2:
                continue
            whole = self._whole(group, held)
            if held.heard < QUORUM * group.size:
                continue
            stream = Stream(id_, function, -1 - size_class, True)
            rounds.append(Round(stream, index << k, np.array(held.values), held.ts_ms, whole))
        while len(self._singles) > 4096:
            del self._singles[next(iter(self._singles))]
        return rounds

    def _whole(self, group: Group, held: _Open) -> bool:
        """Whether the group counts; keeps count of both, and of who is missing."""
        needed = group.size if group.size <= WHOLE_UP_TO else math.ceil(ENOUGH * group.size)
        if held.heard < group.size:
            for i, value in enumerate(held.values):
                if value != value and group.ranks[i] >= 0:
                    self.absent[int(group.ranks[i])] += 1
        if held.heard >= needed:
            self.complete += 1
            return True
        self.incomplete += 1
        return False

    def _stream(self, id_: str, function: Function, size: int) -> Stream:
        known = self._sizes.setdefault((id_, function), set())
        if size in known or len(known) < MANY_SIZES:
            known.add(size)
            return Stream(id_, function, size)
        return Stream(id_, function, -max(size, 1).bit_length())
