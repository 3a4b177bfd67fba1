"""What a fault may change, once a tick: neutral arrays that the physics, the job and the sensors read."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from simulator.topology import Topology

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

HangKind = Literal["absent", "stuck", "transport"]


@dataclass(frozen=True)
class Hang:
    """The job stops with its next step. `absent`: `ranks` do not enter their second tensor-parallel AllReduce;
    `stuck`: they enter it and it does not end; `transport`: the data-parallel ReduceScatter of the group of
    `ranks` is entered by all and moves nothing. `spins`: who is absent waits for a kernel of its own that never ends.
    """

    kind: HangKind
    ranks: tuple[int, ...]
    spins: bool = False


@dataclass(frozen=True)
class KernelLine:
    """A line of a node's kernel log, said once at `after_s` seconds into the fault. `key` keeps it from repeating."""

    node: int
    after_s: float
    text: str
    priority: int = 3

    @property
    def key(self) -> tuple[int, float, str]:
        return (self.node, self.after_s, self.text)


@dataclass
class Effects:
    """One tick's deviations from health. Arrays are per GPU (G), node (N) or rack (K); neutral where no fault acts."""

    # GPU, shape (G,)
    slowdown: Floats
    """Compute time of the same work at the same clock, relative to health."""
    memory_slowdown: Floats
    """The same, through slower memory: the GPU is busy with memory for longer."""
    clock_cap: Floats
    """Highest clock the power brake allows, relative to the healthy one."""
    throttle_to: Floats
    """Where the clock settles, relative to health, behind a cold plate that lost contact."""
    data_us: Floats
    """Added to the time before the step's first kernel, in the data loader."""
    host_us: Floats
    """Added outside data loading, computing and communicating (launches held up)."""
    allocator_us: Floats
    """Added in the GPU memory allocator."""
    work: Floats
    """Amount of work in a step, relative to health; reported by the rank itself."""
    link_slowdown: Floats
    """Transfer time through the GPU's network port, relative to health."""
    nvlink_slowdown: Floats
    """Transfer time over the GPU's NVLinks, relative to health."""
    foreign: Flags
    """Another process computes on the GPU."""
    lost: Flags
    """The GPU is off the bus."""
    gone: Flags
    """The rank's process has ended."""
    kernel_stuck: Flags
    """A kernel on the GPU never ends."""
    sensor_broken: Flags
    """Temperature sensors of the GPU read nonsense."""
    sbe_per_s: Floats
    dbe_count: Floats
    remapped_count: Floats
    nvlink_errors_per_s: Floats
    pcie_replays_per_s: Floats
    port_errors_per_s: Floats
    """Symbol errors of the GPU's network port."""
    congestion_per_s: Floats
    """Congestion notifications at the GPU's network port."""
    # node, shape (N,)
    cpu_load: Floats
    """Part of the node's CPUs taken by others, 0 to 1."""
    memory_taken: Floats
    """Part of the node's memory taken by others, 0 to 1."""
    io_load: Floats
    """Part of the time the node's disk is kept busy by others, 0 to 1."""
    silent: Flags
    """The node's agent sends nothing."""
    clock_offset_ms: NDArray[np.int64]
    leak: Flags
    # rack, shape (K,)
    supply_add_c: Floats
    flow: Floats
    """Coolant flow relative to health."""
    pump_failed: Flags
    # whole
    hang: Hang | None = None
    kernel: list[KernelLine] = field(default_factory=list)

    @classmethod
    def neutral(cls, topology: Topology) -> Self:
        """No fault anywhere."""
        g, n, k = topology.gpu_count, len(topology.nodes), topology.racks
        sizes = {
            "slowdown": g, "memory_slowdown": g, "clock_cap": g, "throttle_to": g, "work": g, "link_slowdown": g,
            "nvlink_slowdown": g, "flow": k,
        }  # fmt: skip
        zeros = {
            "data_us": g, "host_us": g, "allocator_us": g, "sbe_per_s": g, "dbe_count": g, "remapped_count": g,
            "nvlink_errors_per_s": g, "pcie_replays_per_s": g, "port_errors_per_s": g, "congestion_per_s": g,
            "cpu_load": n, "memory_taken": n, "io_load": n, "supply_add_c": k,
        }  # fmt: skip
        flags = {
            "foreign": g, "lost": g, "gone": g, "kernel_stuck": g, "sensor_broken": g, "silent": n, "leak": n,
            "pump_failed": k,
        }  # fmt: skip
        values: dict[str, Any] = {name: np.ones(size) for name, size in sizes.items()}
        values |= {name: np.zeros(size) for name, size in zeros.items()}
        values |= {name: np.zeros(size, dtype=bool) for name, size in flags.items()}
        return cls(**values, clock_offset_ms=np.zeros(n, dtype=np.int64))
