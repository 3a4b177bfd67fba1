"""Who is late by the same time in every step, where the host's unrest hides it in single ones.

On a noisy host some rank or other is late by far more, in every second step or for a minute on end, so that a small
delay is never the largest. It differs from the unrest in that it does not change: a fixed slowdown of fixed work costs
the same in each step, while a scheduler's whims come and go. So: over a window, the lowest quarter of a rank's rise in
own time is above the bar, nobody else's is half of it, its quartiles lie close together, and in those very steps the
peers waited for it (`detectors.job.two_sided.costs`).

Wrong where a cause varies: garbage collection or storage on a noisy host are found only where they are larger than its
unrest (`detectors.job.steps`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.job.groups import Floats
from detectors.job.shift import LONE, WINDOW
from detectors.job.two_sided import StepTable, costs, median, wide

QUARTER = WINDOW // 4
"""Steps of a window that may show less, and as many that may show more: the quartiles."""

SAME = 0.1
"""The quartiles of a steady delay lie within a tenth of its median. Real slow GPUs and memories stay within 2 % (the
gpu-bound Ascend runs, which this rule does not judge), the unrest of a noisy host beyond 20 % in any window (35 % in
clean runs; these it does judge)."""


class SteadyDelay:
    """The one rank with a steady delay, and since when (time, step). `update` after each step."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.onset = (0, 0)

    def clear(self) -> None:
        """Nothing is known: the job is not noisy, or not known yet."""
        self.rank, self.onset = None, (0, 0)

    def update(
        self,
        rows: Sequence[StepTable],
        own_past: Floats,
        bar: Floats,
        floor_us: float,
        blocked_past: Floats,
        heavy: NDArray[np.bool_],
    ) -> None:
        """The newest steps, the usual own time of each rank, what counts as a rise of it, the usual floor and blocked
        times, and who has more work now: more of it is no delay."""
        rows = list(rows)[-WINDOW:]
        if len(rows) < WINDOW:
            return
        size = len(own_past)
        excess = np.array([wide(row.own, size) for row in rows]) - own_past
        excess -= np.array([[median(row)] for row in excess])
        ordered = np.sort(excess, axis=0)  # what is not there comes last
        low = np.where(np.isnan(ordered[-1]), -np.inf, ordered[QUARTER])
        if self.rank is not None:
            if low[self.rank] > bar[self.rank] / 2:
                return
            self.clear()
        first = int(np.argmax(low))
        if not low[first] > bar[first] or heavy[first] or not (np.delete(low, first) <= low[first] / LONE).all():
            return
        middle = float(ordered[WINDOW // 2, first])
        if ordered[-1 - QUARTER, first] - low[first] > SAME * middle:
            return
        if costs(rows, first, floor_us, blocked_past):
            row = next(row for row, us in zip(rows, excess[:, first], strict=True) if us > (1 - SAME) * middle)
            self.rank, self.onset = first, (row.end_ms, row.number)
