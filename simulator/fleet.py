"""The simulated fleet: what every node's agent would find, tick after tick of event time, and the truth about it.

Everything follows from the settings: the same seed gives the same bytes. Job, physics, hosts and faults draw from
random streams of their own, so that a fault changes what it touches and nothing else.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.errors import UserError
from simulator.cooling import Racks
from simulator.effects import Effects, Floats
from simulator.faults import FAULTS, Fault, Moment
from simulator.hostfs import Hosts, Proc
from simulator.inspector import InspectorWriter
from simulator.job import Job, JobTick
from simulator.kmsg import KernelLog
from simulator.lines import Lines
from simulator.nvml import Board, FakeNvml
from simulator.physics import Physics
from simulator.ports import Ports, Sys
from simulator.ras import Ras
from simulator.settings import FleetSettings
from simulator.steps import StepWriter
from simulator.target import Site, Truth, resolve
from simulator.topology import Topology

TICK_MS = 1000

NOISE_LINES = (
    "perf: interrupt took too long (2511 > 2500), lowering kernel.perf_event_max_sample_rate to 79500",
    "systemd-journald[812]: Data hash table of /run/log/journal/system.journal has a fill level at 75.1",
    "workqueue: drain_vmap_area_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
)
"""What healthy kernels say now and then."""

NOISE_PER_S = 1 / 900


@dataclass(frozen=True)
class NodeSources:
    """What the collectors of one node read."""

    name: str
    rack: str
    tray: int
    boot_id: str
    nvml: FakeNvml
    proc: Proc
    sys: Sys
    inspector: Lines
    steps: Lines
    kernel: Lines


class SimulatedFleet:
    """A fleet by `settings`, its wall clock starting at `start_ms` (a whole second)."""

    def __init__(self, settings: FleetSettings, cluster: str = "default", start_ms: int | None = None) -> None:
        self.settings = settings
        self.topology = topology = settings.topology()
        self.start_ms = (settings.start_ms if start_ms is None else start_ms) // TICK_MS * TICK_MS
        self._ticks = 0
        self._put_in, self.truth = _put_in(settings, topology, self.start_ms)
        job_rng, physics_rng, host_rng, cooling_rng, self._noise, port_rng = (
            np.random.default_rng([settings.seed, stream]) for stream in range(2, 8)
        )
        self._job = Job(topology, settings.step_s, job_rng)
        self._physics = Physics(topology, physics_rng)
        self._hosts = Hosts(topology, cluster, host_rng)
        self.racks = Racks(topology, cooling_rng)
        self._ports = Ports(topology, port_rng)
        self._board = Board(topology)
        n = len(topology.nodes)
        inspector, steps, kernel = ([Lines() for _ in range(n)] for _ in range(3))
        self._inspector = InspectorWriter(topology, inspector)
        self._steps = StepWriter(topology, cluster, steps)
        self._kernel = KernelLog(kernel)
        self._ras = Ras(topology)
        self._said: set[tuple[int, float, str]] = set()
        self.nodes = tuple(
            NodeSources(
                name=name,
                rack=topology.rack_names[topology.rack_of_node[i]],
                tray=i % topology.trays + 1,
                boot_id=topology.boot_id(i),
                nvml=FakeNvml(self._board, i),
                proc=self._hosts.proc(i),
                sys=self._ports.sys(i),
                inspector=inspector[i],
                steps=steps[i],
                kernel=kernel[i],
            )
            for i, name in enumerate(topology.nodes)
        )
        self._effects = Effects.neutral(topology)
        self._member = self._by_gpu(np.ones(topology.job_size)) > 0
        at_work = self._member.astype(np.float64)
        self._physics.settle(self._effects, 0.88 * at_work, 0.11 * at_work, self._member)
        self._board.update(self._physics, self._effects)

    @property
    def tick_ms(self) -> int:
        """The wall clock at the latest tick."""
        return self.start_ms + self._ticks * TICK_MS

    def put_in(self, settings: FleetSettings) -> None:
        """Go on with the fault of `settings`, which differ in nothing else, as if it had been theirs from the start;
        UserError where it should have begun already."""
        if self._ticks * TICK_MS > settings.onset_s * 1000:
            raise UserError(f"--onset-s {settings.onset_s:g}: the fleet is older than that")
        self.settings = settings
        self._put_in, self.truth = _put_in(settings, self.topology, self.start_ms)

    def silent(self, node: int) -> bool:
        """Whether the node's agent says nothing (the node, or its way to the broker, is gone)."""
        return bool(self._effects.silent[node])

    def node_tick_ms(self, node: int) -> int:
        """The tick by the node's own clock."""
        return self.tick_ms + int(self._effects.clock_offset_ms[node])

    def ras(self) -> bytes:
        """What NCCL's RAS service answers after the latest tick, whichever node asks."""
        return self._ras.status(self._job.launched(), self.tick_ms)

    def advance(self) -> int:
        """Go on by one tick; returns its wall clock. The sources then hold what happened."""
        began_s = self._ticks * TICK_MS / 1000
        self._ticks += 1
        effects = self._effects = self._effects_at(began_s)
        tick = self._job.advance(self._ticks * TICK_MS * 1000.0, effects, self._physics.clock)
        spin = self._by_gpu(tick.spin)
        if effects.hang is not None and effects.hang.spins:
            own = self.topology.gpu_of_rank[list(effects.hang.ranks)]
            spin[own] = 1 - self._by_gpu(tick.busy)[own]
        self._ras.advance((effects.gone | effects.lost)[self.topology.gpu_of_rank])
        self._physics.advance(
            TICK_MS / 1000,
            effects,
            self._by_gpu(tick.busy),
            spin,
            self._member & ~effects.gone,
            self._by_gpu(tick.computing.astype(np.float64)) > 0,
            self._by_gpu(tick.steps),
        )
        self._hosts.advance(TICK_MS / 1000, effects)
        self._ports.advance(TICK_MS / 1000, effects)
        self.racks.update(self._physics, effects)
        self._board.update(self._physics, effects)
        self._write(tick, effects, began_s)
        return self.tick_ms

    def _effects_at(self, now_s: float) -> Effects:
        effects = Effects.neutral(self.topology)
        elapsed_s = now_s - self.settings.onset_s
        duration_s = self.settings.duration_s
        if self._put_in is None or elapsed_s < 0:
            return effects
        if duration_s is not None and elapsed_s >= duration_s:
            return effects
        fault, severity, site = self._put_in
        ramp = min(1.0, (elapsed_s + TICK_MS / 1000) / fault.ramp_s) if fault.ramp_s else 1.0
        rng = np.random.default_rng([self.settings.seed, 1, self._ticks])
        fault.act(effects, site, Moment(severity, ramp, elapsed_s, self.settings.step_s * 1e6, rng))
        return effects

    def _write(self, tick: JobTick, effects: Effects, began_s: float) -> None:
        offsets_ms = effects.clock_offset_ms.tolist()
        for done in tick.completed:
            self._inspector.write(done, self.start_ms * 1000, [offset * 1000 for offset in offsets_ms])
        for report in tick.reports:
            self._steps.write(report, self.start_ms, offsets_ms)
        for line in effects.kernel:
            if line.key not in self._said:
                self._said.add(line.key)
                self._kernel.say(line.node, self.settings.onset_s + line.after_s, line.text, line.priority)
        for node in np.flatnonzero(self._noise.random(len(self.nodes)) < NOISE_PER_S).tolist():
            text = NOISE_LINES[int(self._noise.integers(len(NOISE_LINES)))]
            self._kernel.say(node, began_s + self._noise.random(), text)

        for node in np.flatnonzero(effects.silent).tolist():
            for lines in (self.nodes[node].inspector, self.nodes[node].steps, self.nodes[node].kernel):
                lines.read()  # nobody else will

    def _by_gpu(self, by_rank: Floats) -> Floats:
        out = np.zeros(self.topology.gpu_count)
        out[self.topology.gpu_of_rank] = by_rank
        return out


class PutIn(NamedTuple):
    """A fault as it will act."""

    fault: Fault
    severity: float
    site: Site


def truth_of(settings: FleetSettings) -> Truth:
    """What the settings put in, without a fleet; UserError where they make no sense."""
    return _put_in(settings, settings.topology(), settings.start_ms // TICK_MS * TICK_MS)[1]


def _put_in(settings: FleetSettings, topology: Topology, start_ms: int) -> tuple[PutIn | None, Truth]:
    if not settings.fault:
        if settings.target:
            raise UserError(f"--target {settings.target}: a target needs a --fault")
        return None, Truth()
    known = {str(cause): (cause, fault) for cause, fault in FAULTS.items()}
    if settings.fault not in known:
        raise UserError(f"--fault {settings.fault}: not a fault that can be simulated; choose from {', '.join(known)}")
    cause, fault = known[settings.fault]
    onset_ms = start_ms + round(settings.onset_s * 1000)
    site, truth = resolve(topology, cause, fault.scope, settings.target, onset_ms)
    return PutIn(fault, fault.severity_of(settings.severity), site), truth
