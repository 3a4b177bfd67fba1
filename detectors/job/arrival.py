"""Who arrives last: the argmin rule over rounds of one stream, and the slow link.

In a synchronous collective every rank's time is its wait for the last one plus the transfer T, so T is the shortest
time, wait = time - T, and the last to arrive has waited least: no clocks are compared. The same rank late again and
again, later than in its own past, is a straggler; lateness that wanders is jitter and nobody's; T up with a flat
spread is a slow link. Wrong where a function does not make all ranks wait (those are left out before), where more
than about two thirds of a group are late at once, and where NCCL logged only the latest operation of a dump.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.groups import Floats, Round
from detectors.job.past import Past
from detectors.job.suspicion import Suspicion

WARM_UP = 32
"""Rounds of the first exact baseline; a stream can have several rounds in one step."""

READY = 3
"""Rounds of one's own past needed before anything may be called a rise."""

Z = 6.0
"""Spreads above one's own past that make a round late: with the floor below, no healthy round of the samples."""

LEAST_US = 20.0
"""A delay under this is within what Inspector's whole microseconds and kernel launches do by themselves."""

IMPACT = 0.01
"""A rank is late when it costs at least 1 % of the time between two rounds: below it nobody's step gets slower."""

T_RISE = 0.15
"""A transfer is slow when T is up by this part: published rules for groups of equal volume use 1.1 x (clustered) to
1.2 x (single) the median."""

LEAST_ROUNDS = 5
"""Rounds that must show it, however large the group: a hiccup of three is no fault."""

JUST_NOW = 3
RHYTHM = 2.0
"""Rounds that a culprit may be on time and still be named: it may come late to one of several operations of a step. One
that is late in every third step only is named from one to the next: for twice the usual time between them."""

SLOWING = 2
"""Rounds after which a transfer is no longer called as fast as usual, though not yet slow."""

STANDING = 0.1
STANDING_ROUNDS = 8
"""A rank without a healthy past, late from the first round on, is named from a tenth of the time between two rounds on
(twice what links of unlike length and uneven kernels do) and after eight rounds."""

CAUSED_MS = 60_000.0
"""Lateness is added up with a memory of a minute. The same time for all streams of a job, so that the sums of an inner
and an outer group compare, whatever the rhythm of either and however seldom somebody is late."""

QUARTILE = 0.75
"""The late are measured against the rank at this quantile: up to two thirds of a group may be late together."""


class Lateness(NamedTuple):
    """What one stream says now. Arrays run over the members of its communicator.

    `late` marks steady culprits that were late just now, `steady` also those that may have stopped; `delay_us` is how
    much later than in its own past a member came when somebody was late, `caused_us` what that adds up to over the last
    minute. `slow` says that the transfer itself is slow, and `slowing` that it seems to become so; `t_us` is its time
    now, `t_past_us` before. `standing` are culprits that were never on time: their delay is that behind their peers.
    """

    late: NDArray[np.bool_]
    steady: NDArray[np.bool_]
    delay_us: Floats
    caused_us: Floats
    onset_ms: NDArray[np.int64]
    onset_sn: NDArray[np.int64]
    hits: NDArray[np.int64]
    slow: bool
    slowing: bool
    slow_onset_ms: int
    slow_onset_sn: int
    t_us: float
    t_past_us: float
    t_noise: float
    spread_us: float
    period_us: float
    standing: NDArray[np.bool_]

    def risen(self) -> "Lateness":
        """Without those that were never on time: where ranks do different things, one of them may have to come last."""
        return self._replace(
            late=self.late & ~self.standing,
            steady=self.steady & ~self.standing,
            standing=np.zeros_like(self.standing),
        )

    @property
    def rise(self) -> float:
        """How many times its usual time a transfer takes."""
        return self.t_us / self.t_past_us


class StreamArrival:
    """The judgement of one stream (communicator, function, size), round after round."""

    def __init__(self, size: int, warm_up: int = WARM_UP) -> None:
        self.size = size
        self.rounds = 0
        self.last_ms = 0
        self.tick_ms = 0
        self.lateness = Past(size, warm_up)
        self.transfer = Past(1, warm_up)
        self._suspicion = Suspicion(size, LEAST_ROUNDS, rare=True)
        self._standing = Suspicion(size, STANDING_ROUNDS)
        self._behind = np.zeros(size)
        self._slow_score = 0
        self._slow = False
        self._slow_since = (0, 0)
        self._delay = np.zeros(size)
        self._caused = np.zeros(size)
        self._t_recent: deque[float] = deque(maxlen=12)
        self._spread_recent: deque[float] = deque(maxlen=12)
        self._doubtful: deque[Floats | None] = deque(maxlen=12)
        self._first_ms = 0

    def update(self, round_: Round, tick_ms: int) -> None:
        """Judge one round, and learn from it when it is usual."""
        self.tick_ms = tick_ms
        e = round_.exec_us
        ordered = np.sort(e)
        heard = int(np.count_nonzero(~np.isnan(e)))
        if heard < 2:
            return
        t = float(ordered[0])
        lateness = ordered[int(QUARTILE * (heard - 1) + 0.5)] - e
        if not self.rounds:
            self._first_ms = round_.ts_ms
        passed_ms = round_.ts_ms - self.last_ms if self.rounds else 0
        self.rounds += 1
        self.last_ms = round_.ts_ms
        self._t_recent.append(t)
        self._spread_recent.append(float(ordered[heard // 2]) - t)
        known = self.lateness.learned >= READY
        late = self._late(lateness, t, passed_ms) if known else np.zeros(self.size, np.bool_)
        if known:
            self._suspicion.update(late, heard, round_.ts_ms, round_.sn)
        self._standing.update(self._last(lateness), heard, round_.ts_ms, round_.sn)
        if round_.whole and not self._suspicion.steady.any():
            self._judge_transfer(t, bool(late.any()), round_)
        self._learn(lateness, late)

    def says(self) -> Lateness:
        """The verdict as of the last round."""
        s, other = self._suspicion, self._standing
        standing = other.steady & ~s.steady
        return Lateness(
            late=(s.steady & _just_now(s)) | (standing & _just_now(other)),
            steady=s.steady | standing,
            delay_us=np.where(standing, self._behind, self._delay),
            caused_us=self._caused,
            onset_ms=np.where(standing, other.onset_ms, s.onset_ms),
            onset_sn=np.where(standing, other.onset_mark, s.onset_mark),
            hits=np.where(standing, other.hits, s.hits),
            slow=self._slow,
            slowing=self._slow_score >= SLOWING,
            slow_onset_ms=self._slow_since[0],
            slow_onset_sn=self._slow_since[1],
            t_us=float(np.median(self._t_recent)) if self._t_recent else float("nan"),
            t_past_us=float(np.exp(self.transfer.centre[0])),
            t_noise=float(np.std(np.log(self._t_recent))) if self._t_recent else float("nan"),
            spread_us=float(np.median(self._spread_recent)) if self._spread_recent else float("nan"),
            period_us=self.period_us(),
            standing=standing,
        )

    def period_us(self) -> float:
        """The usual time from one round to the next; NaN while all rounds carry one time."""
        elapsed = (self.last_ms - self._first_ms) * 1000.0
        return elapsed / (self.rounds - 1) if elapsed > 0 and self.rounds > 1 else float("nan")

    @property
    def troubled(self) -> bool:
        """Whether `says` has anything to say."""
        return self._slow or bool(self._suspicion.steady.any() or self._standing.steady.any())

    @property
    def stirring(self) -> bool:
        """Whether somebody was late lately, or the transfer seems to slow down, steady or not."""
        return self.troubled or self._slow_score >= SLOWING or float(self._caused.max(initial=0.0)) > LEAST_US

    def _late(self, lateness: Floats, t: float, passed_ms: int) -> NDArray[np.bool_]:
        past = self.lateness
        excess = lateness - past.centre
        # Few rounds make a spread look smaller than it is; 2 % of T is the jitter of a quiet machine.
        floor = 0.02 * t * (1 + 4 / past.learned)
        spread = max(past.pooled, floor)
        period = self.period_us()
        least = max(LEAST_US, Z * spread, IMPACT * period if period == period else 0.25 * t)
        worst = float(np.nanmax(excess))
        self._caused *= np.exp(-max(passed_ms, 0) / CAUSED_MS)
        self._caused += np.where(excess > least, excess, 0.0)
        if not worst > least:
            return np.zeros(self.size, np.bool_)
        late: NDArray[np.bool_] = (excess > least) & (excess > 0.5 * worst)
        before = excess if self._suspicion.quiet() else self._delay
        self._delay = np.where(np.isnan(excess), self._delay, 0.75 * before + 0.25 * excess)
        return late

    def _last(self, lateness: Floats) -> NDArray[np.bool_]:
        """The one rank that all others waited long for, whatever it did before."""
        nobody: NDArray[np.bool_] = np.zeros(self.size, np.bool_)
        period, worst = self.period_us(), float(np.nanmax(lateness))
        if not worst > max(LEAST_US, STANDING * period) or self.size < 3:
            return nobody
        last: NDArray[np.bool_] = lateness > 0.5 * worst
        if np.count_nonzero(last) > 1:
            return nobody
        before = lateness if self._standing.quiet() else self._behind
        self._behind = np.where(last, 0.75 * before + 0.25 * lateness, self._behind)
        return last

    def _judge_transfer(self, t: float, anyone_late: bool, round_: Round) -> None:
        past = self.transfer
        log_t = float(np.log(t))
        if past.learned >= READY:
            noise = max(float(past.spread[0]), 0.01 * (1 + 4 / past.learned))
            rise = log_t - float(past.centre[0])
            up = rise > max(np.log1p(T_RISE), 5 * noise) and not anyone_late
            if up and not self._slow_score:
                self._slow_since = (round_.ts_ms, round_.sn)
                self._t_recent.clear()
                self._t_recent.append(t)
            self._slow_score = min(self._slow_score + 1, 2 * LEAST_ROUNDS) if up else max(self._slow_score - 1, 0)
            self._slow = self._slow_score >= LEAST_ROUNDS or (self._slow and self._slow_score > 0)
            if up or self._slow:
                return
        past.learn(np.array([log_t]))

    def _learn(self, lateness: Floats, late: NDArray[np.bool_]) -> None:
        """Learn a calm round at once; one with somebody late only when it has left the window with nobody steady, so
        that lasting jitter becomes usual and the start of a fault does not."""
        if not late.any() and self._suspicion.quiet():
            self.lateness.learn(lateness)
            self._doubtful.append(None)
            return
        if len(self._doubtful) == self._doubtful.maxlen:
            oldest = self._doubtful[0]
            if oldest is not None and not self._suspicion.steady.any():
                self.lateness.learn(oldest)
        self._doubtful.append(lateness)


def _just_now(s: Suspicion) -> NDArray[np.bool_]:
    """Who was late lately, by the rhythm in which it is late."""
    late: NDArray[np.bool_] = s.calm <= np.maximum(JUST_NOW, RHYTHM / np.maximum(s.share(), 1e-9))
    return late
