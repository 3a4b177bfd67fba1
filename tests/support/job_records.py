"""Records of a small job, tick by tick: collectives in tensor and data parallel groups, steps, features."""

from collections.abc import Callable, Sequence

import numpy as np

from schemas import CollectiveFrame, Features, StepFrame
from schemas.collective import Communicator, Function, Operation, Progress
from schemas.features import GpuFeatures
from schemas.step import RankStep

T0 = 1_800_000_000_000
TENSOR_US, DATA_US = 400.0, 2600.0


class SmallJob:
    """`nodes` x `width` ranks: a node is a tensor parallel group, rank i of all nodes a data parallel one.

    A step is one tick: two AllReduce in tensor parallel, then one ReduceScatter in data parallel. `late_us(tick)` gives
    each rank's lateness within a step (its own additional work), `slow(tick)` the factor on the data transfer.
    """

    def __init__(self, nodes: int = 4, width: int = 4, seed: int = 1) -> None:
        self.nodes, self.width, self.world = nodes, width, nodes * width
        self.rng = np.random.default_rng(seed)
        self.late_us: Callable[[int], np.ndarray] = lambda _: np.zeros(self.world)
        self.slow: Callable[[int], float] = lambda _: 1.0
        self.sent = [0] * nodes
        self.seq = 0

    def node(self, number: int) -> str:
        return f"r01-t{number:02}"

    def collectives(self, tick: int, stopped: bool = False, silent: Sequence[int] = ()) -> list[CollectiveFrame]:
        """The frames of one tick; `stopped`: nothing finished in it; `silent` nodes send nothing."""
        self.seq += 1
        late = np.maximum(self.late_us(tick) + self.rng.normal(0, 20, self.world), 0)
        jitter = self.rng.uniform(0, 60, (3, self.world))
        tensor = late.reshape(self.nodes, self.width)
        first = (tensor.max(axis=1, keepdims=True) - tensor).ravel() / 2 + TENSOR_US + jitter[0]
        second = (tensor.max(axis=1, keepdims=True) - tensor).ravel() / 2 + TENSOR_US + jitter[1]
        arrived = np.repeat(tensor.max(axis=1), self.width)
        data = arrived.max() - arrived + DATA_US * self.slow(tick) + jitter[2]
        return [self._frame(n, tick, stopped, first, second, data) for n in range(self.nodes) if n not in silent]

    def _frame(
        self, n: int, tick: int, stopped: bool, first: np.ndarray, second: np.ndarray, data: np.ndarray
    ) -> CollectiveFrame:
        ts = T0 + tick * 1000
        if not stopped:
            self.sent[n] += 1
        count = self.sent[n]
        communicators, operations, progress = [], [], []
        for i in range(self.width):
            rank = n * self.width + i
            gpu = f"GPU-{rank}"
            groups = (
                Communicator(id=f"0xt{n}", name="TP", size=self.width, nodes=1, rank=rank, comm_rank=i, gpu=gpu),
                Communicator(
                    id=f"0xd{i}", name="DP", size=self.nodes, nodes=self.nodes, rank=rank, comm_rank=n, gpu=gpu
                ),
            )
            t, d = len(communicators), len(communicators) + 1
            communicators += groups
            reduce: Function = "ReduceScatter"
            if not stopped:
                operations += [
                    Operation(t, "AllReduce", 2 * count - 2, 1 << 24, float(first[rank]), ts),
                    Operation(t, "AllReduce", 2 * count - 1, 1 << 24, float(second[rank]), ts),
                    Operation(d, reduce, count - 1, 1 << 26, float(data[rank]), ts),
                ]
            progress += [
                Progress(t, "AllReduce", max(2 * count - 1, 0), ts if not stopped else ts - 1),
                Progress(d, reduce, max(count - 1, 0), ts if not stopped else ts - 1),
            ]
        return CollectiveFrame(
            cluster="c",
            ts_ms=ts,
            node=self.node(n),
            run_id=1,
            seq=self.seq,
            job="j",
            communicators=tuple(communicators),
            operations=tuple(operations),
            progress=tuple(progress),
        )

    def steps(self, tick: int, own_us: np.ndarray, work: float | np.ndarray = np.nan) -> list[StepFrame]:
        """Steps of 100 ms in which everybody waits for the slowest: own time up on one, blocked time on the others."""
        self.seq += 1
        own = 8000 + own_us + np.abs(self.rng.normal(0, 200, self.world))
        base = 70_000 + self.rng.normal(0, 150)
        step = base + own.max()
        works = np.broadcast_to(work, self.world)
        return [
            StepFrame(
                cluster="c",
                ts_ms=T0 + tick * 1000,
                node=self.node(n),
                run_id=1,
                seq=self.seq,
                job="j",
                steps=tuple(
                    RankStep(
                        rank=r,
                        step=tick,
                        step_us=step,
                        data_us=1000.0,
                        compute_us=step - own[r] - 60,
                        comm_us=40.0,
                        wait_us=20.0,
                        end_ms=T0 + tick * 1000 - 1,
                        work=float(works[r]),
                    )
                    for r in range(n * self.width, (n + 1) * self.width)
                ),
            )
            for n in range(self.nodes)
        ]

    def features(self, tick: int, of: Callable[[int], GpuFeatures]) -> list[Features]:
        """What detection says of every GPU in a tick."""
        return [
            Features.of(
                cluster="c",
                ts_ms=T0 + tick * 1000,
                node=self.node(n),
                run_id=1,
                seq=self.seq,
                job="j",
                gpus=tuple(of(r) for r in range(n * self.width, (n + 1) * self.width)),
            )
            for n in range(self.nodes)
        ]
