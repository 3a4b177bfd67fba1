"""What-if: how long a pipeline's compute would take with other durations of its operations.

The replay of the published what-if analysis of pipeline traces (OSDI'25), computation only. Each worker (one stage of
one data-parallel replica) runs its operations in the recorded order; the k-th forward of a stage starts after the k-th
forward of the stage before it, the k-th backward after the k-th backward of the stage behind it. That the last stage's
backward follows its forward, and all of interleaved schedules, is in the recorded order already. Communication counts
as free, so the answer is a ratio of two replays, never a step time.
"""

import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled

Floats = NDArray[np.float64]

FORWARD, BACKWARD = 0, 1


@compiled
def pipeline_time(durations: Floats, order: NDArray[np.int64]) -> float:
    """The time of the slowest replica.

    `durations` is [replica, stage, FORWARD or BACKWARD, k], NaN where there is no such operation; `order` is
    [replica, stage, position] -> 2 * k + (FORWARD or BACKWARD), -1 behind the last one. NaN where the recorded orders
    contradict each other, so that no run can have had them.
    """
    replicas, stages, _, width = durations.shape
    slowest = 0.0
    for d in range(replicas):
        ends = np.full((stages, 2, width), np.nan)
        at = np.zeros(stages, np.int64)
        clock = np.zeros(stages)
        left = 0
        for s in range(stages):
            for position in range(order.shape[2]):
                left += order[d, s, position] >= 0
        while left > 0:
            moved = False
            for s in range(stages):
                while at[s] < order.shape[2] and order[d, s, at[s]] >= 0:
                    code = order[d, s, at[s]]
                    kind, k = code % 2, code // 2
                    before = s - 1 if kind == 0 else s + 1
                    ready = 0.0
                    # An operation that its neighbour does not have (a trace cut short) waits for nothing.
                    if 0 <= before < stages and not np.isnan(durations[d, before, kind, k]):
                        ready = ends[before, kind, k]
                        if np.isnan(ready):
                            break
                    clock[s] = max(clock[s], ready) + durations[d, s, kind, k]
                    ends[s, kind, k] = clock[s]
                    at[s] += 1
                    left -= 1
                    moved = True
            if not moved:
                return np.nan
        slowest = max(slowest, float(clock.max()))
    return slowest
