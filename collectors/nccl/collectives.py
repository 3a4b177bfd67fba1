"""NCCL operations of a node's ranks, reduced to one frame per job and tick.

What leaves the node is bounded whatever the job does: sampled operations (alike on every rank, `schemas.sampling`),
sums over blocks, and the last sequence number of every communicator each interval even when nothing moved. That last
part is what a hang is seen from.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from collectors.agent.node import Node
from collectors.base import UNSTAMPED, Collector, LineSource, NoData, Reading
from collectors.nccl.blocks import Blocks, Stream, as_block
from collectors.nccl.inspector import IGNORED, DumpStats, InspectorReader, Member, Perf, Process, Rejected
from schemas import sampling
from schemas.collective import Block, CollectiveFrame, Communicator, Function, Operation, Progress
from schemas.jobkey import job_key

BLOCK_K = 4
"""Blocks of 16: a few a second where a communicator does hundreds of operations, and 16 average out single jitters."""

BUDGET = 64
"""Operations per rank and tick that travel singly; above it the sampling level rises."""

SETTLE_MS = 10_000
"""How long a process's records wait for its job key (design section 3) before the widest communicator names it."""

RING = 2048
"""A sequence number this far back is no late record (the writer's rings hold 1024) but a new process's first ones."""

PENDING = 20_000
"""Operations kept of a process that nobody has named yet; older ones go, and coverage says so."""


class Claim(NamedTuple):
    """For whom a process works. `rank` None: take it from the widest communicator."""

    job: str
    rank: int | None = None
    gpu: str = ""


Identify = Callable[[Process], Claim | None]

MOST_FILES = 1024
"""So many files are known by their headers, those that were written to last: process ids need not come back."""


class _Stream(Stream):
    """One communicator's operations of one function: the last of them, and where they go."""

    __slots__ = ("last",)

    def __init__(self, first: Perf) -> None:
        super().__init__(first.member.id, first.function)
        self.last = first


class _Rank:
    """One process: its communicators, its streams, and what came since the last frame."""

    def __init__(self, k: int) -> None:
        self.claim: Claim | None = None
        self.since_ms: int | None = None
        self.members: dict[str, Member] = {}
        self.streams: dict[tuple[str, Function], _Stream] = {}
        self.blocks = Blocks(k)
        self.pending: deque[Perf] = deque(maxlen=PENDING)
        self.seen = 0
        self.missed = 0
        self._member: Member | None = None

    @property
    def widest(self) -> Member:
        return max(self.members.values(), key=lambda m: (m.size, m.id))

    def add(self, perf: Perf) -> None:
        member, function, sn = perf.member, perf.function, perf.sn
        if member is not self._member:
            self._member = self.members[member.id] = member
        stream = self.streams.get((member.id, function))
        if stream is None:
            stream = self.streams[member.id, function] = _Stream(perf)
        before = stream.last.sn
        if sn > before:
            if sn - before > 1 and function not in ("Send", "Recv"):
                self.missed += sn - before - 1
            stream.last = perf
        elif perf is not stream.last and (sn == 0 or sn + RING < before):
            stream.last = perf
            self.blocks.restart(stream)
        self.blocks.add(stream, sn, perf.size_bytes, perf.exec_time_us)
        self.pending.append(perf)
        self.seen += 1

    def settle(self, process: Process, identify: Identify, tick_ms: int, settle_ms: int) -> Claim | None:
        """Who this process works for, pinned once known; None while that may still be found out."""
        if self.claim is None:
            self.claim = identify(process)
        if self.claim is None and self.members and self.since_ms is not None and tick_ms - self.since_ms >= settle_ms:
            w = self.widest
            job = job_key({}, communicators=(_communicator(w, w.rank, ""),))
            self.claim = Claim(job) if job else None
        return self.claim


class CollectiveReducer:
    """Operations of all processes of one node in, frames out; pure, so that simulator and `analyze` use it too."""

    def __init__(
        self,
        identify: Identify = lambda _: None,
        *,
        settle_ms: int = SETTLE_MS,
        alive: Callable[[Process], bool] = lambda _: True,
        budget: int = BUDGET,
        block_k: int = BLOCK_K,
    ) -> None:
        self._identify, self._settle_ms, self._alive = identify, settle_ms, alive
        self._budget, self._k = budget, block_k
        self._ranks: dict[Process, _Rank] = {}
        self._last: tuple[Process, _Rank] = Process("", -1), _Rank(block_k)

    def __len__(self) -> int:
        """Processes known."""
        return len(self._ranks)

    def add(self, found: Perf | DumpStats) -> None:
        """Take in what one line said."""
        rank = self._last[1] if found.process is self._last[0] else self._rank(found.process)
        if isinstance(found, Perf):
            rank.add(found)
        else:
            rank.members.setdefault(found.member.id, found.member)

    def _rank(self, process: Process) -> _Rank:
        rank = self._ranks.get(process)
        if rank is None:
            rank = self._ranks[process] = _Rank(self._k)
        self._last = process, rank
        return rank

    def frames(self, tick_ms: int, final: bool = False) -> list[CollectiveFrame]:
        """The drafts of this tick, one per job. `final` also gives what is not full or not named yet."""
        jobs: dict[str, list[tuple[Process, _Rank]]] = {}
        self._last = Process("", -1), _Rank(self._k)
        for process, rank in list(self._ranks.items()):
            if rank.since_ms is None:
                rank.since_ms = tick_ms
            claim = rank.settle(process, self._identify, tick_ms, 0 if final else self._settle_ms)
            if claim is not None:
                jobs.setdefault(claim.job, []).append((process, rank))
            if not rank.pending and not self._alive(process):
                del self._ranks[process]
        return [self._frame(job, ranks, tick_ms, final) for job, ranks in sorted(jobs.items())]

    def _frame(self, job: str, ranks: list[tuple[Process, _Rank]], tick_ms: int, final: bool) -> CollectiveFrame:
        most = max(len(rank.pending) for _, rank in ranks)
        level = max(0, math.ceil(math.log2(most / self._budget))) if most > self._budget else 0
        communicators: list[Communicator] = []
        operations: list[Operation] = []
        blocks: list[Block] = []
        progress: list[Progress] = []
        seen = missed = 0
        samplers = _Samplers(level, Counter(id_ for _, rank in ranks for id_ in rank.members))
        for _, rank in ranks:
            if not rank.members or rank.claim is None:
                continue
            number = rank.widest.rank if rank.claim.rank is None else rank.claim.rank
            index = {}
            for id_, member in rank.members.items():
                index[id_] = len(communicators)
                communicators.append(_communicator(member, number, rank.claim.gpu))
            operations += _operations(rank.pending, index, samplers)
            over = rank.blocks.take(rank.streams.values(), final)
            blocks += [as_block(index[key.communicator], self._k, key, sums) for key, sums in over]
            for (id_, function), stream in rank.streams.items():
                progress.append(Progress(index[id_], function, stream.last.sn, _completed_ms(stream.last)))
            seen, missed = seen + rank.seen, missed + rank.missed + rank.seen - len(rank.pending)
            rank.pending.clear()
            rank.seen = rank.missed = 0
        return CollectiveFrame(
            **UNSTAMPED,
            ts_ms=tick_ms,
            job=job,
            communicators=tuple(communicators),
            operations=tuple(operations),
            blocks=tuple(blocks),
            progress=tuple(progress),
            coverage=seen / (seen + missed) if seen + missed else 1.0,
            sample_level=level,
        )


class CollectivesCollector:
    """NCCL Inspector's lines of this node, one frame per job and tick."""

    name = "nccl"
    interval_s = 1.0

    def __init__(
        self,
        source: LineSource,
        reducer: CollectiveReducer,
        told: Callable[[list[CollectiveFrame]], None] = lambda _: None,
    ) -> None:
        self._source, self._reducer, self._told = source, reducer, told
        self._readers: dict[str, InspectorReader] = {}

    def collect(self, tick_ms: int) -> Reading:
        """Lines that cannot be used are counted as nccl_REASON. Raises NoData while no rank has written anything."""
        rejected: Counter[str] = Counter()
        add, of, reader = self._reducer.add, "", InspectorReader()
        for name, line in self._source.read():
            if name != of:
                of = name
                reader = self._readers.pop(name) if name in self._readers else InspectorReader()
                self._readers[name] = reader  # now the newest
            found = reader.read(line)
            if not isinstance(found, Rejected):
                add(found)
            elif found is not IGNORED:
                rejected["nccl_" + found.reason] += 1
        for name in list(self._readers)[:-MOST_FILES]:
            del self._readers[name]
        if not len(self._reducer) and not rejected:
            raise NoData("no NCCL Inspector output")
        frames = self._reducer.frames(tick_ms)
        self._told(frames)
        return Reading(missing=dict(rejected), drafts=tuple(frames))


class _Samplers(dict[tuple[str, Function], Callable[[int], bool]]):
    """What keeps an operation by its number, by stream; ranks of this node that share one ask for the same numbers."""

    def __init__(self, level: int, here: Mapping[str, int]) -> None:
        """`here` are the ranks of each communicator on this node."""
        self._level, self._here = level, here

    def __missing__(self, stream: tuple[str, Function]) -> Callable[[int], bool]:
        keeps = sampling.sampler(*stream, self._level)
        self[stream] = keeps = cache(keeps) if self._here[stream[0]] > 1 else keeps
        return keeps


def _operations(pending: Iterable[Perf], index: dict[str, int], samplers: _Samplers) -> list[Operation]:
    return [
        Operation(index[p.member.id], p.function, p.sn, p.size_bytes, p.exec_time_us, _completed_ms(p))
        for p in pending
        if samplers[p.member.id, p.function](p.sn)
    ]


def _completed_ms(perf: Perf) -> int:
    """When the kernel was seen to stop (verbose format), else when the line was written."""
    stop_us = perf.stop_us if perf.trace else math.nan
    return int((perf.dump_us if math.isnan(stop_us) else stop_us) // 1000)


def _communicator(member: Member, rank: int, gpu: str) -> Communicator:
    return Communicator(
        id=member.id, name=member.name, size=member.size, nodes=member.nodes, rank=rank, comm_rank=member.rank, gpu=gpu
    )


def on_node(node: Node) -> Collector | None:
    """From the folder that NCCL Inspector writes to; a process's own environment names its job and rank."""
    settings = node.settings
    if not settings.inspector_dir:
        return None

    def identify(process: Process) -> Claim | None:
        work = node.processes.work(process.pid)
        return None if work is None else Claim(work.job, work.rank, node.gpu_of(work))

    reducer = CollectiveReducer(identify, alive=lambda process: node.processes.alive(process.pid))
    lines = node.lines(settings.inspector_dir, settings.inspector_files)
    return CollectivesCollector(lines, reducer, node.movement.frames)
