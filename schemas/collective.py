"""What the ranks of a node report of their NCCL collectives, one message per node, job and tick."""

from typing import Literal

import msgspec

from schemas.record import Name, Natural, NodeRecord, Share, TimeMs

Function = Literal["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AllToAll"]


class Communicator(msgspec.Struct, frozen=True, kw_only=True):
    """One communicator as one rank sees it. `rank` is the global rank, `comm_rank` the rank inside it.

    `id` is the hash the source printed (NCCL Inspector cuts it to 14 digits); `name` need not be unique.
    """

    id: Name
    name: str = ""
    size: Natural
    nodes: Natural = 0
    rank: Natural
    comm_rank: Natural
    gpu: str = ""


class Operation(msgspec.Struct, frozen=True, array_like=True):
    """One sampled collective of one rank. `member` indexes `communicators`; `sn` counts per communicator and function.

    `exec_time_us` is the time on the GPU, the wait for peers included.
    """

    member: Natural
    function: Function
    sn: Natural
    size_bytes: Natural
    exec_time_us: float
    ts_ms: TimeMs


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Every collective of one rank with a sequence number in [index * 2^k, (index + 1) * 2^k), summed.

    Blocks of one (communicator, function, size class, k, index) are comparable between ranks without clocks.
    `size_class` is floor(log2(size_bytes)).
    """

    member: Natural
    function: Function
    size_class: Natural
    k: Natural
    index: Natural
    count: Natural
    sum_us: float
    min_us: float
    max_us: float


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """The last sequence number of one communicator and function, sent each interval even when nothing moved."""

    member: Natural
    function: Function
    last_sn: Natural
    completed_ms: TimeMs


class CollectiveFrame(NodeRecord, frozen=True, kw_only=True, tag="collective_frame"):
    """All ranks of one job on one node, one tick.

    `coverage` is the part of operations that the source had (gaps in sequence numbers are the rest); `sample_level`
    is j of `schemas.sampling` used for `operations`.
    """

    topic = "collectives"

    job: Name
    communicators: tuple[Communicator, ...] = ()
    operations: tuple[Operation, ...] = ()
    blocks: tuple[Block, ...] = ()
    progress: tuple[Progress, ...] = ()
    coverage: Share = 1.0
    sample_level: Natural = 0
    source: str = "inspector"

    @property
    def key(self) -> str:
        return self.job
