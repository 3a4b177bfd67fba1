"""A small fleet run for a while, and what its sources said."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings

START_MS = 1_800_000_000_000
ONSET_S = 12


@dataclass
class Watched:
    """Everything that a run's sources gave: `rounds` maps (communicator, function, sn) to {global rank: microseconds},
    `steps` holds step lines, `kernel` (tick, node, line)."""

    fleet: SimulatedFleet
    rounds: dict[tuple[str, str, int], dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    steps: list[dict[str, Any]] = field(default_factory=list)
    kernel: list[tuple[int, str, bytes]] = field(default_factory=list)
    ticks: int = 0

    def go(self, ticks: int) -> None:
        """Advance, and read every source as an agent does: a silent node's are not read."""
        topology = self.fleet.topology
        ranks = {f"{topology.nodes[gpu // 4]}/{topology.pid(r)}": r for gpu, r in topology.rank_of_gpu.items()}
        for _ in range(ticks):
            self.fleet.advance()
            self.ticks += 1
            for i, node in enumerate(self.fleet.nodes):
                if self.fleet.silent(i):
                    continue
                for _, line in node.inspector.read():
                    said = msgspec.json.decode(line)
                    head, meta, perf = said["header"], said["metadata"], said["coll_perf"]
                    rank = ranks[f"{meta['hostname']}/{meta['pid']}"]
                    self.rounds[head["id"], perf["coll"], perf["coll_sn"]][rank] = perf["coll_exec_time_us"]
                self.steps += [msgspec.json.decode(line) for _, line in node.steps.read()]
                self.kernel += [(self.ticks, node.name, line) for _, line in node.kernel.read()]

    def stream(self, group: str, function: str) -> list[dict[int, int]]:
        """The rounds of one communicator in order, complete ones only."""
        size = max(len(times) for (id_, _, _), times in self.rounds.items() if id_ == group)
        keys = sorted(key for key in self.rounds if key[:2] == (group, function))
        return [self.rounds[key] for key in keys if len(self.rounds[key]) == size]

    def step_us(self, *, after: bool) -> float:
        """Median step time before the onset or well after it."""
        onset_ms = START_MS + ONSET_S * 1000
        chosen = [
            s["step_us"] for s in self.steps if (s["ts_ms"] > onset_ms + 4000 if after else s["ts_ms"] < onset_ms)
        ]
        return float(np.median(chosen)) if chosen else float("nan")


def small(**settings: Any) -> FleetSettings:
    """Two racks of three trays; a job of 16 ranks on the first two trays of each."""
    return FleetSettings(**({"racks": 2, "trays": 3, "job_size": 16, "onset_s": float(ONSET_S)} | settings))


def watch(ticks: int = 40, **settings: Any) -> Watched:
    """Run a small fleet for `ticks` with these settings."""
    watched = Watched(SimulatedFleet(small(**settings), start_ms=START_MS))
    watched.go(ticks)
    return watched
