"""Events that come back: more often than a healthy part has them, by the law of rare events.

Independent rare events of a rate are Poisson. A part is at risk when as many as it had within the window come to a
healthy one less than once in `RARE` windows. With one in 1,000 days and a window of 30 days that is the third one, and
it comes to a healthy part once in some 6,000 years (rate^3 x window^2 / 2 a day). Bounds of a pace are Garwood's (1936)
exact ones for the mean of a Poisson count.

When it is wrong: events of one trouble are not independent; those closer than `apart_ms` count as one, and a trouble
that goes on for days counts each day, as it should.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from detectors.drift.ladder import DAY_MS

WINDOW_MS = 30 * DAY_MS
RARE = 1e-5
MOST_KEPT = 16
CHANCE = 0.05
"""Each bound is passed in one of twenty cases: they hold in nine of ten."""


class Marks(msgspec.Struct, kw_only=True, omit_defaults=True):
    """When something happened to one part within the window, and a number for what it was (a code, or a total after
    it); the oldest first, at most MOST_KEPT. `before` is the total before the first of them, where there is one."""

    at_ms: list[int] = []
    value: list[float] = []
    before: float = 0.0

    def add(self, ts_ms: int, value: float, apart_ms: int, before: float = 0.0) -> None:
        """What comes less than `apart_ms` after the last one is the same again, and what is not newer a repeat."""
        if self.at_ms and ts_ms - self.at_ms[-1] < apart_ms:
            if ts_ms > self.at_ms[-1]:
                self.value[-1] = value
            return
        if not self.at_ms:
            self.before = before
        self.at_ms, self.value = [*self.at_ms, ts_ms], [*self.value, value]
        if len(self.at_ms) > MOST_KEPT:
            self._forget()

    def within(self, now_ms: int) -> int:
        """How many lie within the window; older ones are forgotten, and those of a clock that was ahead."""
        while self.at_ms and self.at_ms[-1] > now_ms + DAY_MS:
            self.at_ms, self.value = self.at_ms[:-1], self.value[:-1]
        while self.at_ms and now_ms - self.at_ms[0] > WINDOW_MS:
            self._forget()
        return len(self.at_ms)

    def _forget(self) -> None:
        self.before = self.value[0]
        self.at_ms, self.value = self.at_ms[1:], self.value[1:]


class Pace(NamedTuple):
    """Events a day: most likely, and bounds."""

    likely: float
    low: float
    high: float


def too_often(count: int, healthy_days: float) -> bool:
    """Whether so many within the window are more than chance gives a healthy part.

    >>> [too_often(n, 1_000.0) for n in (1, 2, 3)]
    [False, False, True]
    """
    return count > 0 and _at_least(count, WINDOW_MS / DAY_MS / healthy_days) < RARE


def pace(count: int, days: float) -> Pace:
    """The rate behind `count` events in `days`.

    >>> [round(x, 2) for x in pace(10, 10.0)]
    [1.0, 0.54, 1.7]
    """
    low = 0.0 if count == 0 else _solve(lambda mean: _at_least(count, mean) > CHANCE)
    high = _solve(lambda mean: 1 - _at_least(count + 1, mean) < CHANCE)
    return Pace(count / days, low / days, high / days)


def _at_least(count: int, mean: float) -> float:
    """P(N >= count) of a Poisson count."""
    term = total = math.exp(-mean)
    for n in range(1, count):
        term *= mean / n
        total += term
    if count == 0:
        return 1.0
    if 1 - total > 1e-9:
        return 1 - total
    tail, term = 0.0, math.exp(-mean + count * math.log(mean) - math.lgamma(count + 1)) if mean > 0 else 0.0
    for n in range(count + 1, count + 200):
        tail += term
        term *= mean / n
    return tail


def _solve(passed: Callable[[float], bool]) -> float:
    """The least mean for which it is so; it stays so for all above."""
    low, high = 0.0, 1.0
    while not passed(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high
