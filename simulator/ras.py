"""NCCL's RAS service of the simulated job: its whole status, in JSON as NCCL 2.30 prints it.

RAS counts per communicator what the process of each rank has launched, not what has run. Who has ended answers no more
and is taken for dead after a minute, as NCCL does.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from simulator.effects import Flags
from simulator.timeline import STEP
from simulator.topology import Group, Indices, Topology

VERSION = "2.30.7"

DEAD_S = 60
"""NCCL considers a process dead when it has been unreachable for a minute."""

FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


class Ras:
    """The service; it is told of every tick."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._gone_s = [0] * topology.job_size
        self._hosts = [topology.nodes[int(topology.node_of_gpu[gpu])] for gpu in topology.gpu_of_rank]

    def advance(self, gone: Flags) -> None:
        """One second; `gone` (ranks,) are those whose process has ended."""
        self._gone_s = [seconds + 1 if ended else 0 for seconds, ended in zip(self._gone_s, gone.tolist(), strict=True)]

    def status(self, launched: Indices, now_ms: int) -> bytes:
        """The answer at a moment; `launched` (6, ranks) is how often each collective of STEP was launched."""
        topology = self._topology
        groups = {"tensor": topology.tensor_groups, "data": topology.data_groups, "world": (topology.world,)}
        communicators = [self._communicator(group, over, launched) for over, those in groups.items() for group in those]
        document = {
            "nccl_version": VERSION,
            "timestamp": f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}",
            "communicators_count": len(communicators),
            "communicators": communicators,
        }
        return msgspec.json.encode(document)

    def _communicator(self, group: Group, over: str, launched: Indices) -> dict[str, Any]:
        rows = {
            function: [i for i, c in enumerate(STEP) if (c.over, c.function) == (over, function)]
            for function in FUNCTIONS
        }
        here = [(place, rank) for place, rank in enumerate(group.ranks) if not self._gone_s[rank]]
        gone = [(place, rank) for place, rank in enumerate(group.ranks) if self._gone_s[rank]]
        status = {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        }
        ranks = [
            self._process(place, rank)
            | {
                "status": status,
                "collective_counts": {function: int(launched[of, rank].sum()) for function, of in rows.items()},
            }
            for place, rank in here
        ]
        missing = [
            self._process(place, rank)
            | {"status": {"unresponsive": True, "considered_dead": self._gone_s[rank] >= DEAD_S}}
            for place, rank in gone
        ]
        return {
            "hash": group.id,
            "size": len(group.ranks),
            "ranks_count": len(ranks),
            "missing_ranks_count": len(missing),
            "ranks": ranks,
            "missing_ranks": missing,
        }

    def _process(self, place: int, rank: int) -> dict[str, Any]:
        slot = int(self._topology.slot_of_gpu[self._topology.gpu_of_rank[rank]])
        pid = self._topology.pid(rank)
        return {"rank": place, "host": self._hosts[rank], "pid": pid, "cuda_dev": slot, "nvml_dev": slot}
