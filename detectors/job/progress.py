"""Standstill: the sequence numbers of a job stop, and who the others wait for.

Progress travels every interval even when nothing moved, so silence of a rank and standstill of a rank differ. The
deadline follows the job's own rhythm: max(10 x p99 of the time between completions, 5 s). An end (processes gone
together) and a pause (GPUs idle) are no hangs. Inspector logs only finished operations, so equal numbers everywhere
do not say who has not entered; ranks or groups behind their peers do, and so do idle GPUs among spinning ones.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from schemas.collective import CollectiveFrame
from schemas.features import GpuFeatures

LEAST_MS = 5_000
FACTOR = 10.0
"""No completion for max(10 x p99, 5 s) is a standstill (root-cause notes, 5.2)."""

BURSTS = 3.0
"""Reports arrive once per interval of the writer's dump thread; three missed ones at least are needed."""

QUIET_FACTOR = 24
QUIET_MS = 120_000
"""Without any sign that somebody waits, a standstill is called only after this many deadlines, two minutes at least:
evaluation, checkpoints and compilation are pauses, not hangs."""

SPINNING_PCT = 90.0
IDLE_PCT = 10.0
"""A rank that waits inside a collective spins at 100 % utilization; one that has not entered it computes nothing."""

HISTORY = 256

POINT_TO_POINT = ("Send", "Recv")
"""Their sequence numbers are each process's own count."""

_Key = tuple[str, str, int]
"""Communicator, function, global rank."""


class Standstill(NamedTuple):
    """A job that stands still. `how` is not_entered, stuck, gone, transport or unknown; `ranks` are the culprits, where
    they are known.

    `last` describes the collective that everybody is in: communicator, function, last finished sequence number.
    """

    how: str
    ranks: tuple[int, ...]
    node: str
    since_ms: int
    deadline_ms: float
    waiting: int
    last: tuple[str, str, int]
    sure: float


class _Member:
    __slots__ = ("advanced_ms", "heard_ms", "last_sn", "node")

    def __init__(self, node: str, last_sn: int, heard_ms: int, advanced_ms: int) -> None:
        self.node, self.last_sn, self.heard_ms, self.advanced_ms = node, last_sn, heard_ms, advanced_ms


class ProgressDetector:
    """The last finished sequence number of every rank, communicator and function of one job."""

    def __init__(self) -> None:
        self._members: dict[_Key, _Member] = {}
        self._names: dict[str, str] = {}
        self._advanced_ms = 0
        self._rhythm: deque[float] = deque(maxlen=HISTORY)
        self._bursts: deque[float] = deque(maxlen=HISTORY)

    def add(self, frame: CollectiveFrame) -> None:
        """Take in what one node's ranks have finished. `ts_ms` of the frame is the tick."""
        for p in frame.progress:
            if p.member >= len(frame.communicators):
                continue
            c = frame.communicators[p.member]
            key = (c.id, p.function, c.rank)
            self._names[c.id] = c.name
            member = self._members.get(key)
            if member is None:
                self._members[key] = _Member(frame.node, p.last_sn, frame.ts_ms, p.completed_ms)
                self._moved(frame.ts_ms)
                continue
            if p.last_sn != member.last_sn:
                passed = p.completed_ms - member.advanced_ms
                if p.last_sn > member.last_sn and passed > 0:
                    self._rhythm.append(passed / (p.last_sn - member.last_sn))
                self._moved(frame.ts_ms)
                member.last_sn, member.advanced_ms = p.last_sn, p.completed_ms
            member.heard_ms, member.node = frame.ts_ms, frame.node

    def moved(self, ts_ms: int) -> None:
        """Something else shows that the job goes on (a training step ended)."""
        if self._members:
            self._moved(ts_ms)

    def deadline_ms(self) -> float:
        """How long nothing may finish before the job stands still."""
        rhythm = float(np.percentile(self._rhythm, 99)) if self._rhythm else 0.0
        burst = float(np.percentile(self._bursts, 99)) if self._bursts else 0.0
        return max(FACTOR * rhythm, BURSTS * burst, LEAST_MS)

    def judge(
        self,
        tick_ms: int,
        gpus: Mapping[int, GpuFeatures],
        ended: frozenset[int] = frozenset(),
        behind_steps: frozenset[int] = frozenset(),
    ) -> Standstill | None:
        """The standstill as of this tick, or None. `gpus` are the newest features by rank, `ended` the ranks whose
        process has ended, `behind_steps` those whose last training step is older than that of most others."""
        deadline = self.deadline_ms()
        if not self._members or not self._advanced_ms or tick_ms - self._advanced_ms < deadline:
            return None
        heard = {key: m for key, m in self._members.items() if tick_ms - m.heard_ms < max(LEAST_MS, deadline / 2)}
        if not heard:
            # Nobody reports any more: the job ended, or its nodes are gone, which others see.
            return None
        how, ranks, sure = self._who(heard, gpus, ended, behind_steps)
        if how == "unknown":
            known = [gpus[rank] for rank in {rank for *_, rank in heard} if rank in gpus]
            if known and all(_use(gpu) <= IDLE_PCT for gpu in known):
                return None
            if sum(map(_waits, known)) <= len(known) / 2:
                if tick_ms - self._advanced_ms < max(QUIET_FACTOR * deadline, QUIET_MS):
                    return None
                sure = 0.4
        nodes = {m.node for (_, _, rank), m in self._members.items() if rank in ranks}
        newest = max(heard.items(), key=lambda item: item[1].advanced_ms)
        return Standstill(
            how=how,
            ranks=ranks,
            node=next(iter(nodes)) if len(nodes) == 1 else "",
            since_ms=self._advanced_ms,
            deadline_ms=deadline,
            waiting=len({rank for _, _, rank in heard} - set(ranks)),
            last=(self._names.get(newest[0][0]) or newest[0][0], newest[0][1], newest[1].last_sn),
            sure=sure,
        )

    def _who(
        self,
        heard: dict[_Key, _Member],
        gpus: Mapping[int, GpuFeatures],
        ended: frozenset[int],
        behind_steps: frozenset[int],
    ) -> tuple[str, tuple[int, ...], float]:
        here = {rank for _, _, rank in heard}
        few = max(1, len(here) // 4)
        silent = ({rank for _, _, rank in self._members} - here) | (ended & here)
        if silent and len(silent) <= len(here) / 2:
            return "gone", tuple(sorted(silent)), 0.85
        known = {rank: gpus[rank] for rank in here if rank in gpus}
        waiting = {rank for rank, gpu in known.items() if _waits(gpu)}
        idle = {rank for rank, gpu in known.items() if _use(gpu) <= IDLE_PCT}
        if waiting and idle and len(idle) <= max(1, len(waiting) // 3):
            return "not_entered", tuple(sorted(idle)), 0.8
        marked = {r for r, gpu in known.items() if any(k.startswith(("xid:", "gpu_lost")) for k in gpu.recent)}
        if marked and len(marked) <= few:
            return "stuck", tuple(sorted(marked)), 0.75
        late = behind_steps & here
        if late and len(late) <= few:
            return "not_entered", tuple(sorted(late)), 0.6
        behind = _behind(heard)
        if behind and len(behind) <= few:
            return "stuck", tuple(sorted(behind)), 0.6
        group = self._group_behind(heard)
        if group and len(group) <= len(here) // 2:
            # Where all its members are seen to wait inside, nobody is missing: what they wait for is the data.
            if group <= waiting:
                return "transport", tuple(sorted(group)), 0.7
            return "not_entered", tuple(sorted(group)), 0.55
        return "unknown", (), 0.55

    def _group_behind(self, heard: dict[_Key, _Member]) -> set[int]:
        """The members of communicators that are behind their siblings (same name and size, same function): inside
        them somebody has not come, and the siblings wait for them elsewhere."""
        groups: dict[tuple[str, str], tuple[int, set[int]]] = {}
        for (id_, function, rank), m in heard.items():
            if function not in POINT_TO_POINT:
                newest, ranks = groups.get((id_, function), (-1, set()))
                groups[id_, function] = max(newest, m.last_sn), ranks | {rank}
        kinds: dict[tuple[str, int, str], list[tuple[int, set[int]]]] = {}
        for (id_, function), group in groups.items():
            kinds.setdefault((self._names[id_], len(group[1]), function), []).append(group)
        behind: set[int] = set()
        smallest = None
        for (_, size, _), siblings in kinds.items():
            most = max(newest for newest, _ in siblings)
            late = [ranks for newest, ranks in siblings if newest < most]
            if late and len(late) <= len(siblings) // 2 and (smallest is None or size < smallest):
                behind, smallest = set.union(*late), size
        return behind

    def _moved(self, tick_ms: int) -> None:
        if self._advanced_ms and tick_ms > self._advanced_ms:
            gap = tick_ms - self._advanced_ms
            # A pause that was called a standstill must not teach the next deadline.
            if gap < self.deadline_ms() or not self._bursts:
                self._bursts.append(gap)
        self._advanced_ms = max(self._advanced_ms, tick_ms)


def _behind(heard: dict[_Key, _Member]) -> set[int]:
    """Ranks whose last number in one communicator and function is below that of its other members."""
    newest: dict[tuple[str, str], int] = {}
    for (id_, function, _), m in heard.items():
        newest[id_, function] = max(newest.get((id_, function), -1), m.last_sn)
    return {
        rank
        for (id_, function, rank), m in heard.items()
        if function not in POINT_TO_POINT and m.last_sn < newest[id_, function]
    }


def _use(gpu: GpuFeatures) -> float:
    return gpu.readings.get("gpu_utilization_pct", float("nan"))


def _waits(gpu: GpuFeatures) -> bool:
    """Whether this GPU spins in a kernel that computes nothing: busy, and no tensor or memory activity, or by its
    power well below its own usual one. Utilization alone does not tell waiting from work."""
    if not _use(gpu) >= SPINNING_PCT:
        return False
    active = [gpu.readings[name] for name in ("tensor_active_ratio", "dram_active_ratio") if name in gpu.readings]
    active = [value for value in active if value == value]
    if active:
        return max(active) < 0.05
    power, usual = gpu.readings.get("power_w", float("nan")), gpu.centres.get("power_w", float("nan"))
    return power < 0.8 * usual
