"""What the ranks of a node report of their training steps, one message per node, job and tick."""

import msgspec

from schemas.record import Name, Natural, NodeRecord, TimeMs


class RankStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One training step of one rank; times in microseconds, NaN where the rank does not report one.

    `compute_us` may contain blocking collectives: it is never compared between ranks by itself.
    `work` is the amount of work (tokens), `shape` names its form where it varies (sequence length).
    """

    rank: Natural
    step: Natural
    step_us: float
    data_us: float = float("nan")
    compute_us: float = float("nan")
    comm_us: float = float("nan")
    wait_us: float = float("nan")
    end_ms: TimeMs = 0
    gpu: str = ""
    phase: str = "train"
    work: float = float("nan")
    shape: float = float("nan")
    flops: float = float("nan")
    allocator_stall_us: float = float("nan")


class StepFrame(NodeRecord, frozen=True, kw_only=True, tag="step_frame"):
    """The steps that ended on one node in one tick."""

    topic = "steps"

    job: Name
    steps: tuple[RankStep, ...] = ()

    @property
    def key(self) -> str:
        return self.job
