"""Who is late again and again: a sequential test against "anyone may be late".

After each round somebody may have been late. If lateness wanders (jitter), a given one of N ranks is among the m late
ones with chance m/N; a culprit is among them nearly always. The sum of log likelihood ratios, never below zero (Page's
CUSUM), grows fast in a large group, where the same rank late twice is no chance, and slowly in a pair, where it is.
A threshold of h lets chance through about once in e^h rounds.

Where rounds with somebody late are rare, each of them says more: their share, as far as others were late in them,
divides the chance (`rare`). Somebody else every round, and the share is near 1; nobody before, and it is small.
"""

import math

import numpy as np
from numpy.typing import NDArray

HIT = 0.9
"""How often a real culprit is expected among the late ones: noise hides a tenth of the rounds of a steady fault."""

CALM = -0.7
"""What a round without anyone late says against a fault going on: log 0.5, so a fault that bites every second time is
still found."""

THRESHOLD = 11.5
"""Chance makes a given rank a suspect about once in 100,000 rounds (e^11.5) that all have somebody late."""

SELDOM = 0.1
"""Rounds with somebody late count as no rarer than this: they come in clusters, one stall spans several."""

REMEMBERED = 1024
"""Rounds over which their share is taken, about."""

CEILING = THRESHOLD + 9.0
"""The score stops here, so that a fault that ended is over after some 20 calm rounds."""


class Suspicion:
    """The running test over `size` candidates. `steady` holds those past the threshold, until half of it is lost;
    `calm` counts rounds since each was late, `age` those since its onset, that one too.

    `least` rounds must show it, and where `of` is given, that many of the last `of`: a rank late every second round
    only is no steady culprit there. `rare` also weighs how often somebody is late at all.
    """

    def __init__(self, size: int, least: int, of: int = 0, *, rare: bool = False) -> None:
        self._least, self._of, self._rare = least, of, rare
        self._rounds = self._late_rounds = 0.0
        self._late_of = np.zeros(size)
        self._window: NDArray[np.bool_] = np.zeros((of, size), np.bool_)
        self._round = 0
        self.score = np.zeros(size)
        self.hits = np.zeros(size, np.int64)
        self.age = np.zeros(size, np.int64)
        self.onset_ms = np.zeros(size, np.int64)
        self.onset_mark = np.zeros(size, np.int64)
        self.steady = np.zeros(size, np.bool_)
        self.calm = np.zeros(size, np.int64)

    def grow(self, size: int) -> None:
        """Make room for more candidates."""
        extra = size - len(self.score)
        if extra > 0:
            for name in ("score", "hits", "age", "onset_ms", "onset_mark", "steady", "calm", "_late_of"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(extra, old.dtype)]))
            self._window = np.concatenate([self._window, np.zeros((self._of, extra), np.bool_)], axis=1)

    def update(self, late: NDArray[np.bool_], present: int, ts_ms: int, mark: int) -> None:
        """One round: who was `late` of `present` candidates, when, and its step or sequence number."""
        m = int(late.sum())
        share = self._share() if self._rare else 1.0
        if self._rare:
            self._count(late)
        self.calm = np.where(late, 0, self.calm + 1)
        self.age += 1
        if self._of:
            self._window[self._round % self._of] = late
            self._round += 1
        if m == 0:
            if not self.score.any():
                return
            self.score = np.maximum(self.score + CALM, 0.0)
        else:
            hit = math.log(HIT * max(present, m) / m) - np.log(share)
            miss = math.log((1 - HIT) * present / (present - m)) if present > m else -2.0
            begins = late & (self.score <= 0)
            self.onset_ms[begins], self.onset_mark[begins], self.hits[begins], self.age[begins] = ts_ms, mark, 0, 1
            self.hits[late] += 1
            self.score = np.clip(self.score + np.where(late, np.maximum(hit, 0.1), min(miss, CALM)), 0.0, CEILING)
        hits = self._window.sum(axis=0) if self._of else self.hits
        reached = (self.score >= THRESHOLD) & (hits >= self._least)
        self.steady = reached | (self.steady & (self.score >= THRESHOLD / 2))

    def _share(self) -> NDArray[np.float64]:
        """For each candidate the share of rounds in which others were late, by Laplace's rule of succession."""
        others = (1 + self._late_rounds - self._late_of) / (2 + self._rounds - self._late_of)
        return np.maximum(others, SELDOM)

    def _count(self, late: NDArray[np.bool_]) -> None:
        if self._rounds >= REMEMBERED:
            self._rounds, self._late_rounds, self._late_of = self._rounds / 2, self._late_rounds / 2, self._late_of / 2
        self._rounds += 1
        self._late_rounds += bool(late.any())
        self._late_of += late

    def share(self) -> NDArray[np.float64]:
        """In which part of the rounds since its onset each was late."""
        return self.hits / np.maximum(self.age, 1)

    def quiet(self) -> bool:
        """Whether nobody is under any suspicion."""
        return not self.score.any()
