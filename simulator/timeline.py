"""One training step of all ranks: who arrives when at which collective, and how long each sees it take.

The order in a step: load data; forward and backward in three parts, a tensor-parallel AllReduce after each; the
data-parallel ReduceScatter of the gradients; the optimizer; the data-parallel AllGather of the parameters; a small
AllReduce over the world (the loss), which is where all ranks meet. (A real step has dozens of tensor-parallel
operations; three large ones keep the lines few and the waiting the same.)

Everybody leaves a collective when its last rank has arrived and the data has moved, so a rank's time in it is
(last arrival - own arrival) + T: the slowest rank shows the shortest time, its victims the longest.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from simulator.effects import Floats, Hang
from simulator.topology import GPUS_PER_TRAY, Indices

Over = Literal["tensor", "data", "world"]


class Collective(NamedTuple):
    """One collective of a step. `size_bytes` is what NCCL counts: for ReduceScatter and AllGather a rank's piece."""

    over: Over
    function: str
    size_bytes: int


STEP = (
    Collective("tensor", "AllReduce", 1 << 30),
    Collective("tensor", "AllReduce", 1 << 30),
    Collective("tensor", "AllReduce", 1 << 30),
    Collective("data", "ReduceScatter", 16 << 20),
    Collective("data", "AllGather", 16 << 20),
    Collective("world", "AllReduce", 32 << 10),
)

COMPUTE = (0.31, 0.34, 0.325, 0.004, 0.021, 0.0)
"""Part of a step's compute time that each rank spends before each collective of STEP."""

TENSOR_BUSBW = 650e9
"""Bus bandwidth inside an NVL72 domain, bytes/s: 18 NVLink 5 links of 50 GB/s a direction less protocol."""

DATA_BUSBW = 42e9
"""Bus bandwidth over one 400 Gbit/s port a GPU, bytes/s."""

WORLD_LATENCY_US = 180.0
"""A small AllReduce over hundreds of ranks: latency, not bandwidth."""


@dataclass
class Plan:
    """What a step would take by itself. Shapes: `compute_us` and `extra_us` (6, ranks) before each collective;
    `jitter` (6, ranks) and `transfer` (6, groups of that collective) multiply T; `data_us` (ranks,)."""

    data_us: Floats
    compute_us: Floats
    extra_us: Floats
    jitter: Floats
    transfer: tuple[Floats, ...]


@dataclass
class Played:
    """A step as it went; infinite where it never ends. Arrays (6, ranks) in microseconds: `arrive` and `end` of each
    collective. `start` and `finish` are (ranks,)."""

    start: Floats
    arrive: Floats
    end: Floats

    def exec_us(self, i: int, ranks: Indices) -> Floats:
        """What NCCL Inspector would measure of collective `i` where it ended: the wait for the last rank included."""
        taken: Floats = self.end[i, ranks] - self.arrive[i, ranks]
        return taken

    @property
    def finish(self) -> Floats:
        last: Floats = self.end[-1]
        return last


def transfer_us(collective: Collective, ranks: int) -> float:
    """T in health: message over bus bandwidth, times NCCL's factor (2(n-1)/n for AllReduce, else n-1 pieces)."""
    if collective.over == "world":
        return WORLD_LATENCY_US
    busbw = TENSOR_BUSBW if collective.over == "tensor" else DATA_BUSBW
    if collective.function == "AllReduce":
        return collective.size_bytes * 2 * (ranks - 1) / ranks / busbw * 1e6
    return collective.size_bytes * (ranks - 1) / busbw * 1e6


def play(plan: Plan, start: Floats, hang: Hang | None = None) -> Played:
    """Run `plan` from every rank's `start` (microseconds). With `hang`, what depends on it never ends."""
    now = start + plan.data_us
    arrive, end = np.empty_like(plan.compute_us), np.empty_like(plan.compute_us)
    for i, collective in enumerate(STEP):
        now = now + plan.compute_us[i] + plan.extra_us[i]
        if hang is not None and hang.kind == "absent" and i == 1:
            now[list(hang.ranks)] = np.inf
        arrive[i] = now
        entered = _by_group(now, collective.over)
        last = entered.max(axis=1)
        if hang is not None and _blocks(hang, collective, i):
            last[_group_numbers(hang.ranks, collective.over)] = np.inf
        jitter = _by_group(plan.jitter[i], collective.over)
        now = _by_rank(last[:, None] + plan.transfer[i][:, None] * jitter, collective.over)
        end[i] = now
    return Played(start, arrive, end)


def group_worst(values: Floats, over: Over) -> Floats:
    """The largest of `values` (ranks,) in each group: a ring is as slow as its slowest link."""
    worst: Floats = _by_group(values, over).max(axis=1)
    return worst


def _blocks(hang: Hang, collective: Collective, i: int) -> bool:
    if hang.kind == "stuck":
        return i == 1
    return hang.kind == "transport" and collective.function == "ReduceScatter"


def _by_group(values: Floats, over: Over) -> Floats:
    """(ranks,) as (groups, members); writing to the result writes to `values`."""
    if over == "world":
        return values.reshape(1, -1)
    trays = values.reshape(-1, GPUS_PER_TRAY)
    return trays if over == "tensor" else trays.T


def _by_rank(groups: Floats, over: Over) -> Floats:
    return np.ascontiguousarray(groups.T if over == "data" else groups).reshape(-1)


def _group_numbers(ranks: tuple[int, ...], over: Over) -> list[int]:
    if over == "world":
        return [0]
    return sorted({rank // GPUS_PER_TRAY if over == "tensor" else rank % GPUS_PER_TRAY for rank in ranks})
