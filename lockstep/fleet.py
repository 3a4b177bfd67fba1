"""The simulated fleet with the real agents' cores on it: fakes at the seams of the hardware, the rest unchanged."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from collectors.agent.background import Background
from collectors.agent.core import AgentCore, Identity
from collectors.base import UNSTAMPED, Collector, Reading
from collectors.gpu.collector import GpuCollector
from collectors.host.collector import HostCollector
from collectors.host.fabric import FabricCollector
from collectors.job.jobs import JobsCollector
from collectors.job.movement import Movement
from collectors.job.processes import Processes
from collectors.job.steps import StepsCollector
from collectors.kernel.kmsg import KernelLogCollector
from collectors.nccl.collectives import Claim, CollectiveReducer, CollectivesCollector
from collectors.nccl.inspector import Process
from collectors.nccl.ras_poll import RasCollector
from runtime.health import Counters
from schemas.frame import RackFrame
from schemas.record import NodeRecord
from simulator.cooling import Racks
from simulator.fleet import SimulatedFleet
from simulator.hostfs import BOOTED_S

RACK_ROLE_TRAY = 1
"""The tray whose agent polls its rack."""


class NodeClock:
    """A node's clocks: its wall clock at the fleet's tick, and the seconds since it was booted."""

    def __init__(self, fleet: SimulatedFleet, node: int) -> None:
        self._fleet, self._node = fleet, node

    def now_ms(self) -> int:
        return self._fleet.node_tick_ms(self._node)

    def monotonic(self) -> float:
        return BOOTED_S + (self._fleet.tick_ms - self._fleet.start_ms) / 1000

    def sleep(self, seconds: float) -> None:
        """Event time goes on by itself."""


class RackCollector:
    """What a rack's management controllers say, as the agent with the rack role would have polled it."""

    name = "rack"
    interval_s = 1.0

    def __init__(self, racks: Racks, rack: int, name: str) -> None:
        self._racks, self._rack, self._name = racks, rack, name

    def collect(self, tick_ms: int) -> Reading:
        frame = RackFrame(**UNSTAMPED, ts_ms=tick_ms, rack=self._name, sections=self._racks.sections(self._rack))
        return Reading(drafts=(frame,))


class Agents:
    """The cores of all nodes' agents in this process; `folder` holds what agents keep on disk."""

    def __init__(self, fleet: SimulatedFleet, cluster: str, run_id: int, folder: Path, counters: Counters) -> None:
        self._fleet = fleet
        self._cores = [
            _core(fleet, node, cluster, run_id, folder / fleet.nodes[node].name, counters)
            for node in range(len(fleet.nodes))
        ]

    def tick(self) -> list[NodeRecord]:
        """Go on by one tick of event time: the records of every node that is not silent."""
        self._fleet.advance()
        return [
            record
            for node, core in enumerate(self._cores)
            if not self._fleet.silent(node)
            for record in core.tick(self._fleet.node_tick_ms(node))
        ]


def _core(fleet: SimulatedFleet, node: int, cluster: str, run_id: int, folder: Path, counters: Counters) -> AgentCore:
    sources, clock = fleet.nodes[node], NodeClock(fleet, node)
    proc = cast(Path, sources.proc)
    gpus = GpuCollector(sources.nvml, clock)
    processes = Processes(proc, cluster)
    core: AgentCore

    def identify(process: Process) -> Claim | None:
        work = processes.work(process.pid)
        if work is None:
            return None
        gpu = next((gpu.uuid for gpu in core.gpus if gpu.rank == work.rank and gpu.job == work.job), "")
        return Claim(work.job, work.rank, gpu)

    movement = Movement()
    collectors: list[Collector] = [
        gpus,
        JobsCollector(gpus, processes),
        HostCollector(proc, sources.name, clock),
        FabricCollector(cast(Path, sources.sys), clock),
        KernelLogCollector(sources.kernel, sources.boot_id, clock, folder),
        CollectivesCollector(sources.inspector, CollectiveReducer(identify), movement.frames),
        StepsCollector(sources.steps, moved=movement.moved),
    ]
    if fleet.settings.ras:
        service = (("localhost", 28028),)
        collectors.append(
            RasCollector(service, processes.ranks, movement, cluster, lambda _: fleet.ras(), Gathering(clock))
        )
    if sources.tray == RACK_ROLE_TRAY:
        collectors.append(RackCollector(fleet.racks, node // fleet.topology.trays, sources.rack))
    identity = Identity(cluster=cluster, node=sources.name, rack=sources.rack, tray=sources.tray)
    core = AgentCore(identity, collectors, run_id, clock, counters)
    return core


class Gathering(Background[list[bytes]]):
    """RAS at work: an answer of the moment it was asked at, which comes after the two time-outs of 5 s that it waits
    for ranks that do not answer. The longest there is, for any answer."""

    TAKES_S = 10.0

    def __init__(self, clock: NodeClock) -> None:
        super().__init__("ras")
        self._clock, self._asked_s = clock, 0.0

    def start(self, work: Callable[[], list[bytes]]) -> None:
        super().start(work)
        self._asked_s = self._clock.monotonic()
        if self._thread is not None:
            self._thread.join()

    def take(self) -> list[bytes] | None:
        return super().take() if self._clock.monotonic() - self._asked_s >= self.TAKES_S else None
