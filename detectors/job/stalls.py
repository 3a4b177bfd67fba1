"""Isolated stalls: a rank that is usually in time and now and then holds everybody up (its median shows nothing).

Counts, not means: among the last 200 steps, how often was this rank the last by more than 5 % of a step? If stalls
come by chance at the rate of the job's own past, the number in a window is Poisson; a rank whose number has a
probability under e^-11.5 (the threshold of the steady test, `detectors.job.suspicion`) stalls by itself. A job whose
past is full of stalls (a noisy host) has a high rate, and nobody stands out. The tail bound is Chernoff's,
ln P(K >= k) <= k - m - k ln(k / m) for a mean of m.
"""

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.job.groups import Floats
from detectors.job.suspicion import THRESHOLD

STALL = 0.05
"""A stall costs at least 5 % of a step: above what any steady rank shows in single steps by chance (`steps.EFFECT`)."""

OF_STEPS = 200
"""Steps over which stalls are counted: one in twenty makes ten of them, of which chance does not hide half."""

READY = 90
"""Steps of the job's own past first, as for its baselines."""

LEAST = 4
"""So many at the least, whatever the rate: three hiccups are no fault."""

COST = 0.01
"""... and together 1 % of the time, as for collectives: below it nobody's training gets slower."""

ALONE = 3.0
"""Three times as many as any other rank, or it is not this rank's trouble."""

PRIOR_STALLS, PRIOR_STEPS = 2.0, 1000.0
"""Before a job is known, one stall in 500 steps of a rank; the past of the job itself soon outweighs it."""

QUIET = 60
"""Steps without a stall after which a rank has stopped."""


class StallWatch:
    """Who stalls now and then. `update` after each step; `since` gives the first stall counted (time, step)."""

    def __init__(self) -> None:
        self.seen = 0
        self._steps = 0
        self._all = 0.0
        self._own: NDArray[np.float64] = np.zeros(0)
        self._window: deque[tuple[int, float, int, int]] = deque()
        self._open: set[int] = set()
        self._kept: dict[int, tuple[tuple[int, int], int]] = {}
        """Of those that stalled when the window was emptied: since when, and the last time."""

    def update(
        self, score: Floats, least_us: float, step_us: float, ts_ms: int, number: int, busy: bool, held: bool = False
    ) -> set[int]:
        """One step: the two-sided score per rank, what counts as a stall at the least, the usual step time.

        `busy` says that somebody is blamed for steady lateness: nothing is learned and nothing judged then. `held`
        says that this may be about to be: who stalls goes on as long as it does, and nobody is added.
        """
        if len(score) > len(self._own):
            self._own = np.concatenate([self._own, np.zeros(len(score) - len(self._own))])
        self.seen += 1
        worst = int(np.nanargmax(score)) if not np.isnan(score).all() else -1
        stalled = worst >= 0 and score[worst] > max(STALL * step_us, least_us)
        last = (worst, float(score[worst]), ts_ms, number) if stalled else (-1, 0.0, ts_ms, number)
        if self.seen <= READY:
            self._learn(last[0])
            return set()
        if busy or held:
            self._kept |= {r: (self.since(r), self.seen) for r in self._open if self._window or r == last[0]}
            self._window.clear()
            self._open = set() if busy else {r for r in self._open if self.seen - self._kept[r][1] <= QUIET}
            return self._open
        self._window.append(last)
        if len(self._window) > OF_STEPS:
            oldest = self._window.popleft()
            if not self._open:
                self._learn(oldest[0])
        self._open = self._judge(step_us)
        return self._open

    def since(self, rank: int) -> tuple[int, int]:
        """When the first of the counted stalls of a rank was: (time, step). Counted anew, they are still the same."""
        first, seen = self._kept.get(rank, ((0, 0), -OF_STEPS))
        if self.seen - seen < OF_STEPS:
            return first
        return next(((ts, number) for who, _, ts, number in self._window if who == rank), (0, 0))

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint: the rates, not the window, which fills again."""
        return {"n": self._steps, "all": self._all, "own": self._own.astype("<f4").tobytes()}

    @classmethod
    def of(cls, state: dict[str, Any]) -> "StallWatch":
        """The rates of a checkpoint."""
        watch = cls()
        watch._own = np.frombuffer(state["own"], "<f4").astype(np.float64)
        watch._steps, watch._all = max(int(state["n"]), 0), float(state["all"])
        watch.seen = watch._steps
        return watch

    def _learn(self, rank: int) -> None:
        self._steps += 1
        if rank >= 0:
            self._all += 1
            self._own[rank] += 1

    def _judge(self, step_us: float) -> set[int]:
        counts: dict[int, int] = {}
        cost: dict[int, float] = {}
        newest: dict[int, int] = {}
        for place, (rank, us, _, _) in enumerate(self._window):
            if rank >= 0:
                counts[rank] = counts.get(rank, 0) + 1
                cost[rank] = cost.get(rank, 0.0) + us
                newest[rank] = place
        held = len(self._window)
        found = set()
        for rank, count in counts.items():
            others = max((n for other, n in counts.items() if other != rank), default=0)
            rate = self._rate(rank)
            enough = COST * step_us * held
            if held - newest[rank] > QUIET:
                continue
            if rank in self._open:
                if count >= LEAST // 2:
                    found.add(rank)
            elif (
                count >= max(LEAST, ALONE * others) and cost[rank] >= enough and _tail(count, rate * held) < -THRESHOLD
            ):
                found.add(rank)
        return found

    def _rate(self, rank: int) -> float:
        """Stalls per step that chance gives this rank: its own past's or the job's, whichever is higher. Two of its own
        are chance and no habit."""
        pooled = (self._all + PRIOR_STALLS) / (self._steps * max(len(self._own), 1) + PRIOR_STEPS)
        return max(pooled, (float(self._own[rank]) - 2) / max(self._steps, 1))


def _tail(count: int, mean: float) -> float:
    """Chernoff's bound on ln P(K >= count) for a Poisson mean."""
    return count - mean - count * math.log(count / mean) if count > mean else 0.0
