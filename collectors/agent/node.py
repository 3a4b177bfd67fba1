"""What the collectors of one real node share; each module's `on_node` takes from here what it needs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from collectors.agent.core import Identity
from collectors.agent.sampler import SampledCollector, Sampler
from collectors.agent.settings import AgentSettings, Machine
from collectors.gpu.known import KnownGpus
from collectors.job.movement import Movement
from collectors.job.processes import Processes, Work
from collectors.lines import FolderLines
from runtime.clock import Clock
from runtime.health import Counters


class Node:
    """One node: who it is, its settings, its machine, and its one sampler process (started at the first question)."""

    def __init__(
        self,
        identity: Identity,
        settings: AgentSettings,
        machine: Machine,
        clock: Clock,
        counters: Counters,
        environment: Mapping[str, str],
    ) -> None:
        self.identity, self.settings, self.machine = identity, settings, machine
        self.clock, self.counters, self.environment = clock, counters, environment
        self.closing: list[Callable[[], None]] = []
        self.state = Path(settings.spool_dir)
        self.processes = Processes(machine.proc, identity.cluster)
        self.movement = Movement()
        self.gpu_of: Callable[[Work], str] = lambda _: ""
        told = {"proc": str(machine.proc), "cluster": identity.cluster, "job_mapping": settings.job_mapping_dir}
        told |= {"cooling_loop": settings.cooling_loop}
        told |= {"dcgm_url": settings.dcgm_url, "sys": str(machine.sys)}
        argument = msgspec.json.encode(told).decode()
        known = KnownGpus(self.state / "gpus", clock, counters)
        self._sampler = Sampler(machine.driver, argument, clock, counters, environment, known=known)

    def sampled(self, name: str, interval_s: float) -> SampledCollector:
        """Collector `name` of the sampler process."""
        return SampledCollector(self._sampler, name, interval_s)

    def lines(self, folder: str, pattern: str, start: Literal["beginning", "end"] = "end") -> FolderLines:
        """New lines of a folder's files."""
        return FolderLines(Path(folder), self.counters, pattern, start)

    def boot_id(self) -> str:
        """The kernel's name for this boot; "" where it tells none."""
        try:
            return (self.machine.proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return ""

    def close(self) -> None:
        """End the sampler process, and whatever else was started for a collector."""
        for close in self.closing:
            close()
        self._sampler.close()
