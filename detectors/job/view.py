"""What is known of a job's ranks: where they are, what their GPUs and hosts say now."""

from collections.abc import Iterator, Mapping

from detectors.incident.cause import Witness
from detectors.job.groups import Assembly
from schemas.collective import CollectiveFrame
from schemas.features import Features, GpuFeatures
from schemas.finding import Evidence, Subject
from schemas.step import StepFrame

FRESH_MS = 30_000
"""Features older than this say nothing about now."""

UNCLAIMED_MS = 2_000
"""Features come every second; a rank left out of three is left out on purpose."""

MISSING_SHARE = 0.1
MISSING_LEAST = 10
"""A rank absent from more than a tenth of the groups, ten at least, is named with every verdict."""

Place = tuple[str, int | str]
"""Scope, and the rank, node or group: what stays when a GPU's name becomes known later."""


class JobView:
    """The newest facts of one job; `take` every record of it."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.node_of: dict[int, str] = {}
        self.gpu_of: dict[int, str] = {}
        self._seen: dict[int, tuple[Features, int]] = {}  # where the newest of each rank is: record and place in it
        self.hosts: dict[str, dict[str, float]] = {}
        self._featured_ms: dict[str, int] = {}

    @property
    def world(self) -> int:
        """Ranks seen so far."""
        return len(self.node_of)

    def take(self, record: CollectiveFrame | StepFrame | Features) -> None:
        """Note who is where."""
        if isinstance(record, Features):
            self.hosts[record.node] = record.host
            self._featured_ms[record.node] = record.ts_ms
            for place, gpu in enumerate(record.gpus):
                if gpu.rank is not None:
                    self._seen[gpu.rank] = (record, place)
                    self.node_of[gpu.rank], self.gpu_of[gpu.rank] = record.node, gpu.uuid
            return
        for member in record.communicators if isinstance(record, CollectiveFrame) else record.steps:
            self.node_of[member.rank] = record.node
            if member.gpu:
                self.gpu_of[member.rank] = member.gpu

    def ranks_on(self, node: str) -> tuple[int, ...]:
        """The job's ranks on one node, in order."""
        return tuple(sorted(rank for rank, where in self.node_of.items() if where == node))

    def nodes_of(self, ranks: frozenset[int]) -> list[str]:
        """The nodes that these ranks are on, in order."""
        return sorted({self.node_of[rank] for rank in ranks if rank in self.node_of})

    def fresh(self, tick_ms: int) -> Mapping[int, GpuFeatures]:
        """Features by rank that are not too old to say something about now."""
        return _Fresh(self._seen, tick_ms - FRESH_MS)

    def gpu(self, rank: int) -> GpuFeatures | None:
        """The newest features of one rank, however old."""
        seen = self._seen.get(rank)
        return seen[0].gpu(seen[1]) if seen else None

    def unclaimed(self) -> frozenset[int]:
        """Ranks whose GPU is no longer theirs while their node still speaks of the job: their process has ended."""
        return frozenset(
            rank
            for rank, (record, _) in self._seen.items()
            if self._featured_ms.get(self.node_of.get(rank, ""), 0) - record.ts_ms > UNCLAIMED_MS
        )

    def witness(self, rank: int) -> Witness:
        """What may tell the cause of one slow rank."""
        node = self.node_of.get(rank, "")
        return Witness(gpu=self.gpu(rank), host=self.hosts.get(node, {}), hosts=self.other_hosts(node))

    def other_hosts(self, node: str) -> list[dict[str, float]]:
        """Host readings of the job's other nodes."""
        return [host for name, host in self.hosts.items() if name != node]

    def missing(self, assembly: Assembly) -> tuple[Evidence, ...]:
        """Ranks that were absent from many groups: silence is no innocence."""
        total = assembly.complete + assembly.incomplete
        often = sorted(r for r, n in assembly.absent.items() if n > MISSING_SHARE * total)
        if not often or total < MISSING_LEAST:
            return ()
        text = f"ranks {names(often)} were missing in more than a tenth of the collectives"
        return (Evidence(text=text, metric="coverage", value=assembly.coverage()),)

    def describe(self, place: Place) -> Subject:
        """The subject at a place, as precisely as it is known now."""
        scope, who = place
        if isinstance(who, int):
            node, gpu = self.node_of.get(who, ""), self.gpu_of.get(who, "")
            if scope == "link":
                return Subject(scope="link", job=self.job, rank=who, node=node, gpu=gpu, link=f"of rank {who}")
            return Subject(scope="rank", job=self.job, rank=who, node=node, gpu=gpu)
        if scope == "node":
            return Subject(scope="node", job=self.job, node=who)
        if scope == "group":
            return Subject(scope="group", job=self.job, group=who)
        return Subject(scope="job", job=self.job)


class _Fresh(Mapping[int, GpuFeatures]):
    """Made for those ranks only that are asked for: a healthy job asks for none."""

    def __init__(self, seen: Mapping[int, tuple[Features, int]], since_ms: int) -> None:
        self._seen, self._since_ms = seen, since_ms

    def __contains__(self, rank: object) -> bool:
        seen = self._seen.get(rank)  # type: ignore[call-overload]
        return seen is not None and seen[0].ts_ms >= self._since_ms

    def __getitem__(self, rank: int) -> GpuFeatures:
        if rank not in self:
            raise KeyError(rank)
        record, place = self._seen[rank]
        return record.gpu(place)

    def __iter__(self) -> Iterator[int]:
        return (rank for rank in self._seen if rank in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def place_of(subject: Subject) -> Place:
    """Where a subject is, whatever its GPU is called."""
    if subject.scope in ("rank", "link") and subject.rank is not None:
        return (subject.scope, subject.rank)
    if subject.scope == "node":
        return ("node", subject.node)
    if subject.scope == "group":
        return ("group", subject.group)
    return WHOLE_JOB


WHOLE_JOB: Place = ("job", "")


def names(ranks: list[int] | tuple[int, ...]) -> str:
    """Some numbers in words: "3, 4, 5 ..."."""
    return ", ".join(str(rank) for rank in ranks[:8]) + (" ..." if len(ranks) > 8 else "")
