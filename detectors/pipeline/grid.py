"""One step of a pipeline-parallel job as arrays over (replica, stage, microbatch)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.pipeline.replay import BACKWARD, FORWARD, Floats, pipeline_time

GARBAGE = 2
"""Besides FORWARD and BACKWARD: a pause for garbage collection."""

Ints = NDArray[np.int64]


class PipelineOps(NamedTuple):
    """The operations of one step, one element each: data-parallel replica, stage, global rank, FORWARD, BACKWARD or
    GARBAGE, start and duration in one unit of time, whichever."""

    dp: Ints
    stage: Ints
    rank: Ints
    kind: Ints
    start: Floats
    duration: Floats


class Grid(NamedTuple):
    """`durations` and `order` as in `pipeline_time`; `rank` and `garbage` (the sum of its pauses) are
    [replica, stage], -1 and 0 where the step has no such worker. `ranks` counts those that the step names."""

    dps: tuple[int, ...]
    stages: tuple[int, ...]
    rank: Ints
    durations: Floats
    order: Ints
    garbage: Floats
    ranks: int

    def time(self, durations: Floats) -> float:
        return float(pipeline_time(durations, self.order))


def grid(ops: PipelineOps, even: float) -> Grid | None:
    """The step as a grid; None where it has no computation.

    Where a worker has several ranks (tensor parallelism) they work as one, and the one that computes longest stands
    for it; where none is longer than the others by the part `even`, the lowest does.
    """
    compute = ops.kind <= BACKWARD
    if not compute.any():
        return None
    dps, stages = np.unique(ops.dp[compute]), np.unique(ops.stage[compute])
    order = np.lexsort((ops.start, ops.kind, ops.rank, ops.stage, ops.dp))
    lanes: dict[tuple[int, int], dict[int, Ints]] = {}
    keys = np.stack([ops.dp, ops.stage, ops.rank], axis=1)[order]
    cuts = np.flatnonzero(np.any(np.diff(keys, axis=0) != 0, axis=1)) + 1
    for part in np.split(order, cuts):
        dp, stage, rank = int(ops.dp[part[0]]), int(ops.stage[part[0]]), int(ops.rank[part[0]])
        lanes.setdefault((dp, stage), {})[rank] = part
    counts = np.bincount(
        np.searchsorted(cuts, np.arange(len(order)), side="right") * 3 + np.minimum(ops.kind[order], GARBAGE)
    )
    width = int(max(counts[FORWARD::3].max(initial=0), counts[BACKWARD::3].max(initial=0)))
    shape = (len(dps), len(stages))
    out = Grid(
        tuple(dps.tolist()),
        tuple(stages.tolist()),
        np.full(shape, -1, np.int64),
        np.full((*shape, 2, width), np.nan),
        np.full((*shape, 2 * width), -1, np.int64),
        np.zeros(shape),
        len(np.unique(ops.rank)),
    )
    for (dp, stage), of_rank in lanes.items():
        d, s = int(np.searchsorted(dps, dp)), int(np.searchsorted(stages, stage))
        if d == len(dps) or s == len(stages) or dps[d] != dp or stages[s] != stage:
            continue
        rank = _slowest(of_rank, ops, even)
        out.rank[d, s] = rank
        _fill(out, d, s, of_rank[rank], ops)
    return out


def _slowest(of_rank: dict[int, Ints], ops: PipelineOps, even: float) -> int:
    lowest = min(of_rank)
    if len(of_rank) == 1:
        return lowest
    total = {rank: float(ops.duration[part[ops.kind[part] <= BACKWARD]].sum()) for rank, part in of_rank.items()}
    longest = max(total, key=lambda rank: (total[rank], -rank))
    return longest if total[longest] > (1 + even) * sorted(total.values())[(len(total) - 1) // 2] else lowest


def _fill(out: Grid, d: int, s: int, part: Ints, ops: PipelineOps) -> None:
    kind = ops.kind[part]
    codes, starts = [], []
    for which in (FORWARD, BACKWARD):
        mine = part[kind == which]
        out.durations[d, s, which, : len(mine)] = ops.duration[mine]
        codes.append(2 * np.arange(len(mine)) + which)
        starts.append(ops.start[mine])
    code = np.concatenate(codes)[np.argsort(np.concatenate(starts), kind="stable")]
    out.order[d, s, : len(code)] = code
    out.garbage[d, s] = float(ops.duration[part[kind == GARBAGE]].sum())
