"""The agent's own restraint on a node that has no CPU to spare.

What counts is how long this process waited for a CPU (run delay, second field of /proc/self/schedstat, nanoseconds),
and ticks that came too late. A busy node alone is no reason: training keeps CPUs busy.
"""

from collections import deque
from pathlib import Path

from collectors.host.kernel_files import HeldFile

STARVED_SHARE = 0.25
"""Of an interval spent waiting for a CPU: at the agent's 1 % of a core, twenty-five times what it works."""

LOOK_BACK, ENOUGH = 10, 3
"""Ticks looked at, and how many of them starved: a single one may be anybody's hiccup."""

CALM = 60
"""Ticks in a row without it, before the agent goes half a step back: slower than it gave way, so that it does not
swing."""

LONGEST = 8


class Backoff:
    """`stretch` is by how much collectors' intervals are longer than set: 1, 2, 4 or 8."""

    def __init__(self, schedstat: Path) -> None:
        self._schedstat = HeldFile(schedstat)
        self._delay_ns = self._read()
        self._starved: deque[bool] = deque(maxlen=LOOK_BACK)
        self._calm = 0
        self.stretch = 1

    def tick(self, interval_s: float, missed: int) -> bool:
        """Take in one tick that came after `missed` others were left out; whether `stretch` changed."""
        before, self._delay_ns = self._delay_ns, self._read()
        waited_s = (self._delay_ns - before) / 1e9
        starved = missed > 0 or waited_s > STARVED_SHARE * interval_s
        self._starved.append(starved)
        self._calm = 0 if starved else self._calm + 1
        if sum(self._starved) >= ENOUGH and self.stretch < LONGEST:
            self.stretch *= 2
        elif self._calm >= CALM and self.stretch > 1:
            self.stretch //= 2
        else:
            return False
        self._starved.clear()
        self._calm = 0
        return True

    def _read(self) -> int:
        try:
            return int(self._schedstat.read().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
