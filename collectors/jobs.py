"""Which rank of which job uses which GPU, and what the node is made of.

The driver names the processes that compute on a GPU; their environment names job and rank (`collectors.processes`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from collectors.base import UNSTAMPED, Collector, NoData, Reading, event
from collectors.processes import Processes
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription, Inventory, JobMembership
from schemas.record import NodeRecord

if TYPE_CHECKING:  # the sampler process needs none of it
    from collectors.node import Node


class GpuSource(Protocol):
    """What is asked of the GPU collector: it has the driver's handles."""

    @property
    def driver(self) -> str: ...
    def processes(self) -> Mapping[str, tuple[int, ...]]: ...
    def descriptions(self) -> tuple[GpuDescription, ...]: ...


class JobsCollector:
    """Job and rank by GPU, an inventory at start and on change, an event when a rank's process is gone.

    Five seconds: half of what a job's records wait for its name, and NVML's process list is no call for every second.
    """

    name = "jobs"
    interval_s = 5.0

    def __init__(self, gpus: GpuSource, processes: Processes) -> None:
        self._gpus, self._processes = gpus, processes
        self._members: dict[tuple[int, str], JobMembership] = {}
        self._sent: tuple[object, ...] | None = None

    def collect(self, tick_ms: int) -> Reading:
        """NoData where there is no GPU to work for."""
        descriptions = self._gpus.descriptions()
        if not descriptions:
            raise NoData("no GPU, so no job that uses one")
        drafts: list[NodeRecord] = list(self._gone())
        claims: list[Gpu] = []
        members: dict[tuple[int, str], JobMembership] = {}
        missing = 0
        for uuid, pids in (self._before() | dict(self._gpus.processes())).items():
            works = [(pid, work) for pid in pids if (work := self._processes.work(pid)) is not None]
            missing += len(pids) - len(works)
            for pid, work in works:
                if work.rank is None:
                    continue
                known = self._members.get((pid, uuid))
                since_ms = known.since_ms if known is not None and known.job == work.job else tick_ms
                members[pid, uuid] = JobMembership(job=work.job, rank=work.rank, gpu=uuid, pid=pid, since_ms=since_ms)
            if works:
                claims.append(Gpu(uuid=uuid, job=works[0][1].job, rank=works[0][1].rank))
        self._members = members
        memberships = tuple(members[key] for key in sorted(members))
        state = (self._gpus.driver, descriptions, memberships)
        if state != self._sent:
            self._sent = state
            drafts.append(
                Inventory(**UNSTAMPED, ts_ms=0, driver=self._gpus.driver, gpus=descriptions, memberships=memberships)
            )
        return Reading(gpus=tuple(claims), missing={"no_job": missing} if missing else {}, drafts=tuple(drafts))

    def _before(self) -> dict[str, tuple[int, ...]]:
        """The living processes of each GPU as of the last look: a lost GPU still belongs to its job."""
        before: dict[str, tuple[int, ...]] = {}
        for pid, uuid in self._members:
            if self._processes.alive(pid):
                before[uuid] = (*before.get(uuid, ()), pid)
        return before

    def _gone(self) -> list[Event]:
        """One event for each rank whose process ended since the last look; whether that is bad, the job knows."""
        return [
            event(
                "process_gone",
                gpu=member.gpu,
                job=member.job,
                rank=member.rank,
                text=f"process {pid} of rank {member.rank} ended",
                detail={"pid": str(pid)},
            )
            for pid, member in {pid: member for (pid, _), member in self._members.items()}.items()
            if not self._processes.alive(pid)
        ]


def on_node(node: "Node") -> Collector:
    """In the sampler process: it asks the driver for processes."""
    return node.sampled(JobsCollector.name, JobsCollector.interval_s)
