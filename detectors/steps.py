"""Training steps: the two-sided rule per rank, and what moves a whole node or job.

All ranks of a synchronous job show the same step time, and the victims' compute time contains the wait, so neither
says anything. A culprit's *self* time (step - compute - comm - wait, data loading in it) rises against its own past
with the common motion of its peers removed, AND its peers wait for it (their blocked time rises against theirs while
its own falls behind). Both sides, in most of the recent steps. Everything here looks back only.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.groups import DEADLINE_MS, ENOUGH, WHOLE_UP_TO, WIDEST, Floats
from detectors.past import Past
from detectors.shift import Shift, ShiftWatch
from detectors.suspicion import THRESHOLD, Suspicion
from schemas.step import RankStep, StepFrame

READY = 20
"""Steps of one's own past before anything may be called a rise; the first are compilation and warm-up."""

EFFECT = 0.02
"""Both sides must exceed 2 % of the usual step; published tools cut at 4 to 10 %, the noise test below allows less."""

Z = 4.0
"""... and 4 spreads of the rank's own two-sided score, so that a noisy host raises its own bar."""

BESIDE = 0.2
"""Beside a much later rank, a second one counts only from a fifth of its delay on: the large one shakes everybody."""

LEAST_STEPS = 8
OF_STEPS = 12
"""8 of the last 12 steps must show it, as in the published online rule. A host-bound job beats: one rank late every
second step is its normal life."""

WORK_RISE = 0.05
"""Work (tokens, sequence length) of one rank up by this part, with the job's step time, is an imbalance."""

MOST_OF_A_RISE, ALL_OF_A_RISE, ALONE = 0.4, 1.5, 3.0
"""A rank accounts for a slower job when its late steps hold 40 % of the rise (the window also holds steps from before)
and three times as much as anybody else's. Where they hold much more than the rise, the job beats: what it loses in one
step it gains in the next (host-bound Ascend runs: four times), and nobody is to blame."""

SUSPECTED = THRESHOLD / 3
"""A rank with a third of the evidence that names a culprit counts when its node is looked at as a whole."""

RECENT = 50
"""Steps over which a culprit's excess is described (its tail needs 50 to 100)."""


class StepCulprit(NamedTuple):
    """One rank that its peers wait for; times in microseconds, means over its recent steps."""

    rank: int
    excess_us: float
    typical_us: float
    self_us: float
    self_past_us: float
    peers_wait_us: float
    step_us: float
    step_past_us: float
    data_share: float
    allocator_share: float
    onset_ms: int
    onset_step: int
    hits: int

    @property
    def sporadic(self) -> bool:
        """Whether most of the excess sits in few steps."""
        return self.typical_us < 0.35 * self.excess_us


class HeavyRank(NamedTuple):
    """One rank whose work rose while the whole job became slower."""

    rank: int
    work: float
    work_past: float
    step_us: float
    step_past_us: float
    onset_ms: int
    onset_step: int


class StepState(NamedTuple):
    """What a job says as of `step` (the newest judged one): steady culprits, ranks with more work, a shift;
    `suspected` are ranks on the way to being steady, and those that are."""

    step: int
    ts_ms: int
    steady: frozenset[int]
    heavy: frozenset[int]
    shift: Shift | None
    suspected: frozenset[int] = frozenset()

    def says_more_than(self, before: "StepState | None") -> bool:
        """Whether somebody is named here who was not before."""
        old = before or StepState(0, 0, frozenset(), frozenset(), None)
        shifted = self.shift is not None and (old.shift is None or self.shift.node != old.shift.node)
        return shifted or bool(self.steady - old.steady or self.heavy - old.heavy)


class _Pending:
    __slots__ = ("first_ms", "rows")

    def __init__(self, first_ms: int) -> None:
        self.first_ms = first_ms
        self.rows: dict[int, RankStep] = {}


class StepDetector:
    """The steps of one job. `add` frames, then run through `judge` once per tick: one state per judged step, while
    which `culprit` and `heavy_rank` describe the ranks it names."""

    def __init__(self) -> None:
        self.node_of: dict[int, str] = {}
        self.last_step: dict[int, int] = {}
        self.newest_ms = 0
        self.judged = 0
        self.last_number: int | None = None
        self.by_shape = False
        self.own = Past(0)
        self.blocked = Past(0)
        self.score = Past(0)
        self.work = Past(0)
        self.step = Past(1)
        self.shift = ShiftWatch()
        self._suspicion = Suspicion(0, LEAST_STEPS, OF_STEPS)
        self._heavy = Suspicion(0, LEAST_STEPS, OF_STEPS)
        self._pending: dict[int, _Pending] = {}
        self._recent: deque[dict[str, Floats]] = deque(maxlen=RECENT)

    def add(self, tick_ms: int, frame: StepFrame) -> None:
        """Take one frame in. Ranks without peers in training (another phase) are left out."""
        for s in frame.steps:
            if s.phase != "train" or s.rank >= WIDEST:
                continue
            self.node_of[s.rank] = frame.node
            self.last_step[s.rank] = s.step
            held = self._pending.get(s.step)
            if held is None:
                held = self._pending[s.step] = _Pending(tick_ms)
            held.rows[s.rank] = s
            self.by_shape = s.work != s.work and s.shape == s.shape

    def judge(self, tick_ms: int) -> Iterator[StepState]:
        """Judge the steps that all ranks have ended, or most of them at the deadline, in order."""
        world = len(self.node_of)
        for step in sorted(self._pending):
            held = self._pending[step]
            late = tick_ms - held.first_ms >= DEADLINE_MS
            if len(held.rows) < world and not late:
                continue
            del self._pending[step]
            if len(held.rows) >= (world if world <= WHOLE_UP_TO else ENOUGH * world):
                yield self._judge(step, held.rows, tick_ms)

    def behind(self) -> frozenset[int]:
        """Ranks whose last step is older than that of most others."""
        if not self.last_step:
            return frozenset()
        usual = sorted(self.last_step.values())[len(self.last_step) // 2]
        return frozenset(rank for rank, step in self.last_step.items() if step < usual)

    def _judge(self, number: int, rows: dict[int, RankStep], tick_ms: int) -> StepState:
        size = max(self.node_of) + 1
        for part in (self.own, self.blocked, self.score, self.work, self._suspicion, self._heavy):
            part.grow(size)
        now = _columns(rows, size)
        ts_ms = max((row.end_ms for row in rows.values()), default=0) or tick_ms
        self.newest_ms, self.judged, self.last_number = ts_ms, self.judged + 1, number
        step_us = float(np.nanmedian(now["step"]))
        present = int(np.count_nonzero(~np.isnan(now["own"])))
        ready = self.own.learned >= READY and present > 0
        late, heavy = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        now["score"] = np.full(size, np.nan)
        if ready:
            now["score"] = self._two_sided(now)
            usual_us = float(self.step.centre[0])
            spread = np.nan_to_num(self.score.spread)
            worst = float(np.nanmax(now["score"], initial=0.0))
            late = now["score"] > np.maximum(np.maximum(EFFECT * usual_us, Z * spread), BESIDE * worst)
            heavy = self._work_rise(now, step_us)
        self._suspicion.update(late, max(present, 1), ts_ms, number)
        self._heavy.update(heavy, max(present, 1), ts_ms, number)
        self._recent.append(now)
        steady = frozenset(self._suspicion.steady.nonzero()[0].tolist())
        more = frozenset(self._heavy.steady.nonzero()[0].tolist())
        shift = self.shift.update(now["own"], step_us, self.node_of, ts_ms, number, bool(steady or more))
        self._learn(now, step_us, late, heavy)
        suspected = frozenset((self._suspicion.score >= SUSPECTED).nonzero()[0].tolist())
        return StepState(number, ts_ms, steady, more, shift, suspected)

    def _two_sided(self, now: dict[str, Floats]) -> Floats:
        own = now["own"] - self.own.centre
        blocked = now["blocked"] - self.blocked.centre
        if np.isnan(own).all():
            return own
        with np.errstate(invalid="ignore"):
            return np.minimum(own - np.nanmedian(own), np.nanmedian(blocked) - blocked)

    def _work_rise(self, now: dict[str, Floats], step_us: float) -> NDArray[np.bool_]:
        noise = max(float(self.step.spread[0]), 0.005 * float(self.step.centre[0]))
        if step_us < self.step.centre[0] * (1 + EFFECT) + Z * noise:
            return np.zeros(len(now["work"]), np.bool_)
        up: NDArray[np.bool_] = now["work"] > (1 + WORK_RISE) * self.work.centre + Z * np.nan_to_num(self.work.spread)
        return up

    def _learn(self, now: dict[str, Floats], step_us: float, late: NDArray[np.bool_], heavy: NDArray[np.bool_]) -> None:
        """Learn what is usual: nothing while the job is raised or a culprit is steady, and nobody's late step."""
        steady = self._suspicion.steady.any() or self._heavy.steady.any()
        if self.own.learned >= READY and (steady or self.shift.raised):
            return
        self.own.learn(now["own"], ~late)
        self.blocked.learn(now["blocked"], ~late)
        self.work.learn(now["work"], ~heavy)
        if not np.isnan(now["score"]).all():
            self.score.learn(now["score"], ~late)
        self.step.learn(np.array([step_us]))

    def accountable(self, shift: Shift) -> int | None:
        """The one rank whose late steps, steady or not, make up most of a job's slowness; None where nobody's do."""
        rows = [row["score"] for row in self._recent]
        size = len(rows[-1])
        scores = np.array([np.concatenate([row, np.full(size - len(row), np.nan)]) for row in rows[-RECENT:]])
        caused = np.mean(np.maximum(np.nan_to_num(scores), 0.0), axis=0)
        order = np.argsort(-caused)
        worst = float(caused[order[0]])
        next_ = float(caused[order[1]]) if size > 1 else 0.0
        rise = shift.step_us - shift.step_past_us
        fits = MOST_OF_A_RISE * rise <= worst <= ALL_OF_A_RISE * rise
        return int(order[0]) if fits and worst >= ALONE * next_ else None

    def culprit(self, rank: int) -> StepCulprit:
        """What the recent steps say of one steady rank."""
        steady = bool(self._suspicion.steady[rank])
        rows = list(self._recent)[-max(int(self._suspicion.hits[rank]), LEAST_STEPS) if steady else 0 :]
        recent = {name: np.array([row[name][rank] for row in rows if len(row[name]) > rank]) for name in rows[-1]}
        score = np.maximum(np.nan_to_num(recent["score"]), 0.0)
        own, past = _mean(recent["own"]), float(self.own.centre[rank])
        rise = max(own - past, 1e-9)
        data_past = min(_median(row["data"]) for row in rows)
        peers = float(np.median([_median(row["blocked"]) for row in rows])) - _median(self.blocked.centre)
        return StepCulprit(
            rank=rank,
            excess_us=float(np.mean(score)),
            typical_us=float(np.median(score)),
            self_us=own,
            self_past_us=past,
            peers_wait_us=peers,
            step_us=float(np.median([_median(row["step"]) for row in rows])),
            step_past_us=float(self.step.centre[0]),
            data_share=min(max(_mean(recent["data"]) - data_past, 0.0) / rise, 1.0),
            allocator_share=min(max(_mean(recent["allocator"]), 0.0) / rise, 1.0),
            onset_ms=int(self._suspicion.onset_ms[rank]),
            onset_step=int(self._suspicion.onset_mark[rank]),
            hits=int(self._suspicion.hits[rank]),
        )

    def work_now(self) -> tuple[float, float]:
        """How the newest step's work compares with each rank's past: the median ratio, and its spread over the ranks.
        (NaN, NaN) where ranks report no work."""
        if not self._recent:
            return float("nan"), float("nan")
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = [row["work"] / self.work.centre[: len(row["work"])] for row in list(self._recent)[-LEAST_STEPS:]]
        heard = [ratio[np.isfinite(ratio)] for ratio in ratios]
        heard = [ratio for ratio in heard if len(ratio)]
        if not heard:
            return float("nan"), float("nan")
        return float(np.median([np.median(r) for r in heard])), float(np.median([np.std(r) for r in heard]))

    def heavy_rank(self, rank: int) -> HeavyRank:
        """What the newest step says of one rank whose work rose."""
        now = self._recent[-1]
        return HeavyRank(
            rank=rank,
            work=float(now["work"][rank]),
            work_past=float(self.work.centre[rank]),
            step_us=_median(now["step"]),
            step_past_us=float(self.step.centre[0]),
            onset_ms=int(self._heavy.onset_ms[rank]),
            onset_step=int(self._heavy.onset_mark[rank]),
        )


def _mean(values: Floats) -> float:
    heard = values[~np.isnan(values)]
    return float(heard.mean()) if len(heard) else 0.0


def _median(values: Floats) -> float:
    heard = values[~np.isnan(values)]
    return float(np.median(heard)) if len(heard) else 0.0


def _columns(rows: dict[int, RankStep], size: int) -> dict[str, Floats]:
    """The step as arrays over ranks, NaN for a rank or time that is not there. `blocked` is step - own: compute and
    communication with the waiting in them. Without any of these columns own time is the data time alone."""
    table = np.full((9, size), np.nan)
    for rank, r in rows.items():
        table[:, rank] = (
            r.step_us, r.data_us, r.compute_us, r.comm_us, r.wait_us, r.allocator_stall_us, r.work, r.shape, 0.0,
        )  # fmt: skip
    step, data = table[0], table[1]
    parts = table[2:5]
    known = ~np.isnan(parts).all(axis=0)
    own = np.where(known, np.maximum(step - np.nansum(parts, axis=0), 0.0), data)
    work = np.where(np.isnan(table[6]), table[7], table[6])
    return {"step": step, "data": data, "own": own, "blocked": step - own, "allocator": table[5], "work": work}
