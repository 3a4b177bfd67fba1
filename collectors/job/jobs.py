"""Which rank of which job uses which GPU, and what the node is made of.

The driver names the processes that compute on a GPU; their environment names job and rank (`collectors.job.processes`),
and where the driver is silent also the GPU (`collectors.job.devices`).
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collectors.base import UNSTAMPED, Collector, NoData, Reading, event
from collectors.job.devices import GPU_VARIABLES, gpu_of
from collectors.job.mapping import read_mapping
from collectors.job.processes import Processes, Work
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription, Inventory, JobMembership
from schemas.jobkey import job_key
from schemas.record import NodeRecord

if TYPE_CHECKING:  # the sampler process needs none of it
    from collectors.agent.node import Node


class GpuSource(Protocol):
    """What is asked of the GPU collector: it has the driver's handles."""

    @property
    def driver(self) -> str: ...
    def processes(self) -> Mapping[str, tuple[int, ...]]: ...
    def descriptions(self) -> tuple[GpuDescription, ...]: ...


class JobsCollector:
    """Job and rank by GPU, an inventory at start and on change, an event when a rank's process is gone.

    Five seconds: half of what a job's records wait for its name, and NVML's process list is no call for every second.
    A GPU for which the driver names no process that can be seen here (another pid namespace, a virtual GPU) is claimed
    by the rank whose environment says so, else by the job that Slurm's prolog noted in the folder `mapping`.
    """

    name = "jobs"
    interval_s = 5.0

    def __init__(
        self,
        gpus: GpuSource,
        processes: Processes,
        cluster: str = "",
        mapping: Path | None = None,
        nics: Path | None = None,
        unit: str = "",
    ) -> None:
        """`mapping` is the prolog's folder, `nics` the kernel's of InfiniBand and RoCE devices, `unit` cools it."""
        self._unit = unit
        self._gpus, self._processes, self._cluster, self._mapping, self._nics = gpus, processes, cluster, mapping, nics
        self._members: dict[tuple[int, str], JobMembership] = {}
        self._sent: Inventory | None = None

    def collect(self, tick_ms: int) -> Reading:
        """NoData where there is no GPU to work for. Missing by reason: pid_unseen, job_hidden, job_untold (processes
        on a GPU without a job), rank_untold (with one, without a rank), gpu_untold (a rank whose GPU is not known)."""
        descriptions = self._gpus.descriptions()
        if not descriptions:
            raise NoData("no GPU, so no job that uses one")
        drafts: list[NodeRecord] = list(self._gone())
        named = self._before() | dict(self._gpus.processes())
        claims: dict[str, Work] = {}
        ranks: list[tuple[int, str, Work]] = []
        missing: Counter[str] = Counter()
        for uuid, pids in named.items():
            for pid in pids:
                told = self._processes.told(pid)
                if not isinstance(told, Work):
                    missing[told] += 1
                    continue
                missing["rank_untold"] += told.rank is None
                claims.setdefault(uuid, told)
                if told.rank is not None:
                    ranks.append((pid, uuid, told))
        free = [uuid for uuid in (*(gpu.uuid for gpu in descriptions), *named) if uuid not in claims]
        if free:
            self._by_environment([gpu.uuid for gpu in descriptions], free, claims, ranks, missing)
            self._by_prolog(descriptions, claims)
        self._members = {(pid, uuid): self._member(pid, uuid, work, tick_ms) for pid, uuid, work in ranks}
        memberships = tuple(self._members[key] for key in sorted(self._members))
        nics = tuple(sorted(path.name for path in self._nics.glob("*"))) if self._nics is not None else ()
        driver = self._gpus.driver
        inventory = Inventory(
            **UNSTAMPED,
            ts_ms=0,
            cooling_loop=self._unit,
            driver=driver,
            gpus=descriptions,
            nics=nics,
            memberships=memberships,
        )
        if inventory != self._sent:
            self._sent = inventory
            drafts.append(inventory)
        gpus = tuple(Gpu(uuid=uuid, job=work.job, rank=work.rank) for uuid, work in claims.items())
        return Reading(gpus=gpus, missing={reason: n for reason, n in missing.items() if n}, drafts=tuple(drafts))

    def _by_environment(
        self,
        order: list[str],
        free: list[str],
        claims: dict[str, Work],
        ranks: list[tuple[int, str, Work]],
        missing: Counter[str],
    ) -> None:
        """GPUs that the driver says nothing of, by what the ranks' environments say; one of two claims is none."""
        placed = {work for _, _, work in ranks}
        said: dict[str, list[tuple[int, Work]]] = {}
        for pid, work in self._processes.ranks().items():
            environment = self._processes.environment(pid)
            if work not in placed and any(environment.get(name) for name in GPU_VARIABLES):
                said.setdefault(gpu_of(environment, order, free) or "", []).append((pid, work))
        for uuid, those in said.items():
            settled = uuid in free and len(those) == 1
            missing["gpu_untold"] += 0 if settled else len(those)
            for pid, work in those:
                ranks.append((pid, uuid if settled else "", work))
            if settled:
                claims[uuid] = those[0][1]

    def _by_prolog(self, descriptions: tuple[GpuDescription, ...], claims: dict[str, Work]) -> None:
        noted = read_mapping(self._mapping) if self._mapping is not None else {}
        for gpu in descriptions:
            job = job_key({"SLURM_JOB_ID": noted.get(gpu.slot, "")}, cluster=self._cluster)
            if job is not None and gpu.uuid not in claims:
                claims[gpu.uuid] = Work(job, None)

    def _member(self, pid: int, uuid: str, work: Work, tick_ms: int) -> JobMembership:
        known = self._members.get((pid, uuid))
        since_ms = known.since_ms if known is not None and known.job == work.job else tick_ms
        return JobMembership(job=work.job, rank=work.rank or 0, gpu=uuid, pid=pid, since_ms=since_ms)

    def _before(self) -> dict[str, tuple[int, ...]]:
        """The living processes of each GPU as of the last look: a lost GPU still belongs to its job."""
        before: dict[str, tuple[int, ...]] = {}
        for pid, uuid in self._members:
            if uuid and self._processes.alive(pid):
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
