"""Where everything sits: racks, trays, GPUs, network ports, and which rank of the job runs where.

An NVL72 rack has 18 compute trays of 4 GPUs (GB200 NVL72: 72 GPUs in one NVLink domain); a tray is a node. The job
takes the first trays of every rack, tensor parallel inside a tray (4 ranks), data parallel across trays and racks.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

GPUS_PER_TRAY = 4

PCI = ("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0")
"""PCI addresses of a tray's GPUs by slot: two behind each Grace CPU, every one in a domain of its own."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Group:
    """One communicator: `id` as NCCL Inspector prints it ("0x" and 14 hex digits), `ranks` in communicator order."""

    id: str
    name: str
    ranks: tuple[int, ...]
    nodes: int


@dataclass(frozen=True)
class Topology:
    """A fleet of `racks` x `trays` nodes and one job of `job_size` ranks; everything else follows.

    GPUs are numbered node by node (index = node * 4 + slot). Ranks are numbered rack by rack over the job's trays.
    """

    racks: int
    trays: int
    job_size: int
    seed: int

    @cached_property
    def rack_names(self) -> tuple[str, ...]:
        return tuple(f"r{rack + 1:02d}" for rack in range(self.racks))

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Node names, "r03-t07", rack by rack."""
        return tuple(f"{rack}-t{tray + 1:02d}" for rack in self.rack_names for tray in range(self.trays))

    @property
    def gpu_count(self) -> int:
        return len(self.nodes) * GPUS_PER_TRAY

    @cached_property
    def node_of_gpu(self) -> Indices:
        return np.arange(self.gpu_count) // GPUS_PER_TRAY

    @cached_property
    def slot_of_gpu(self) -> Indices:
        return np.arange(self.gpu_count) % GPUS_PER_TRAY

    @cached_property
    def rack_of_node(self) -> Indices:
        return np.arange(len(self.nodes)) // self.trays

    @cached_property
    def rack_of_gpu(self) -> Indices:
        return self.rack_of_node[self.node_of_gpu]

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """GPU UUIDs by index. The first groups tell rack, tray and slot: GPU-00030007-0002-..."""
        return tuple(
            f"GPU-{rack + 1:04d}{tray + 1:04d}-{slot:04d}-4000-8000-{_hex(6, self.seed, 'gpu', rack, tray, slot)}"
            for rack in range(self.racks)
            for tray in range(self.trays)
            for slot in range(GPUS_PER_TRAY)
        )

    @cached_property
    def serials(self) -> tuple[str, ...]:
        return tuple(f"1{int(_hex(6, self.seed, 'serial', uuid), 16) % 10**12:012d}" for uuid in self.uuids)

    def ports(self, node: int) -> tuple[str, ...]:
        """Network ports of a node, one a GPU (slot s uses mlx5_s), as a link's name: "r03-t07/mlx5_2/1"."""
        return tuple(f"{self.nodes[node]}/mlx5_{slot}/1" for slot in range(GPUS_PER_TRAY))

    @cached_property
    def gpu_of_rank(self) -> Indices:
        """GPU index of every rank, shape (job_size,)."""
        per_rack = self.job_size // self.racks
        rank = np.arange(self.job_size)
        return (rank // per_rack) * self.trays * GPUS_PER_TRAY + rank % per_rack

    @cached_property
    def rank_of_gpu(self) -> dict[int, int]:
        return {int(gpu): rank for rank, gpu in enumerate(self.gpu_of_rank)}

    @cached_property
    def tensor_groups(self) -> tuple[Group, ...]:
        """One group a tray of the job; NCCL Inspector shows one name for all of them."""
        return tuple(
            self._group("TENSOR_MODEL_PARALLEL_GROUP", first, range(first, first + GPUS_PER_TRAY))
            for first in range(0, self.job_size, GPUS_PER_TRAY)
        )

    @cached_property
    def data_groups(self) -> tuple[Group, ...]:
        """One group a tensor position: its ranks are one of every tensor group."""
        return tuple(
            self._group("DATA_PARALLEL_GROUP", slot, range(slot, self.job_size, GPUS_PER_TRAY))
            for slot in range(GPUS_PER_TRAY)
        )

    @cached_property
    def world(self) -> Group:
        return self._group("default_pg", 0, range(self.job_size))

    @property
    def job_id(self) -> str:
        """The job's number at its scheduler (Slurm)."""
        return str(70_000 + self.seed % 10_000)

    def pid(self, rank: int) -> int:
        """The process id of a rank on its node."""
        return 41_000 + int(self.gpu_of_rank[rank]) % 997 * 7

    def boot_id(self, node: int) -> str:
        raw = _hex(16, self.seed, "boot", node)
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-8{raw[17:20]}-{raw[20:]}"

    def _group(self, name: str, number: int, ranks: range) -> Group:
        members = tuple(ranks)
        nodes = len({rank // GPUS_PER_TRAY for rank in members})
        return Group("0x1" + _hex(7, self.seed, name, number)[:13], name, members, nodes)


def _hex(size: int, *parts: int | str) -> str:
    return blake2b("/".join(map(str, parts)).encode(), digest_size=size).hexdigest()
