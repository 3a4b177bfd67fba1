"""Training steps: who is waited for, steadily or now and then, who has more work, and what moves a whole node or job.

All ranks of a synchronous job show the same step time, and the victims' compute time contains the wait, so neither
says anything. A culprit's own time rises against its own past with the common motion of its peers removed, AND its
peers wait for it (`detectors.job.two_sided`). Both sides, in two steps running, in most of the recent steps. Rare but
long stalls are counted instead (`detectors.job.stalls`), and the whole is watched by `detectors.job.shift`. Everything
here looks back only.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.groups import DEADLINE_MS, WIDEST, Floats
from detectors.job.past import WARM_UP, Past
from detectors.job.shift import DELAY, Shift, ShiftWatch
from detectors.job.stalls import StallWatch
from detectors.job.steady_delay import SteadyDelay
from detectors.job.step_culprit import HeavyRank, StepCulprit, describe
from detectors.job.suspicion import THRESHOLD, Suspicion
from detectors.job.two_sided import PEERS, StepTable, lone, lost, median, step_table, two_sided, waited_for, wide
from schemas.step import RankStep, StepFrame

READY = 20
"""Steps of one's own past before anything may be called a rise; the first are compilation and warm-up."""

NOISY, NOISY_READY = 0.10, 90
"""A job is noisy where its step time usually jumps by a tenth from one step to the next (host-bound ones by 50 to 90 %,
gpu-bound ones by 2 to 3 %). Its first 90 steps are learned before anybody is blamed, as in the published online rule:
a noisy host is known before it is judged."""

PRESENT = 0.75
"""A step is judged with three quarters of the ranks: the medians that stand for the peers hold without the rest. Of two
ranks both are needed."""

ABSENT = 16
"""A rank that is so many steps behind the newest is not waited for, else every step would be late by the deadline."""

EFFECT = 0.02
"""Both sides must exceed 2 % of the usual step. Healthy ranks of the Ascend runs drift by up to 2.3 % of the step for a
dozen steps (the largest 12-step median of 24 gpu-bound runs, clean parts), so less than this would be chance; published
tools cut at 4 to 10 %."""

Z = 4.0
"""... and 4 spreads of the rank's own two-sided score, so that a noisy rank raises its own bar, and 4 spreads above
what the worst rank of this job shows by chance, so that many ranks raise it too."""

BESIDE = 0.2
"""Beside a much later rank, a second one counts only from a fifth of its delay on: the large one shakes everybody."""

LONE = 2.0
"""In a noisy job the one to blame is alone: twice as late as anybody else, or it is the host's own unrest, which
passes from rank to rank."""

LEAST_STEPS, OF_STEPS = 8, 12
"""8 of the last 12 steps must show it, as in the published online rule."""

PAIRS = LEAST_STEPS - 1
"""... which are 7 pairs, for a rank is late where it is late in two steps running. A host-bound job beats: one rank is
late in every second step, what is lost in one is gained in the next, and the mean step stays what it was."""

WORK_RISE = 0.05
"""Work (tokens, sequence length) of one rank up by this part beside its peers', with the job's step time, is an
imbalance; and a step in which a rank had that much more to do says nothing about its hardware."""

MOST_OF_A_RISE, ALL_OF_A_RISE, ALONE = 0.4, 1.5, 3.0
"""A rank accounts for a slower job when its late steps hold 40 % of the rise over the same steps and three times as
much as anybody else's. Where they hold much more than the rise, the job beats: what it loses in one step it gains in
the next (host-bound Ascend runs: four times), and nobody is to blame."""

LEAST_NOISE = 0.005
"""No job is quieter than half a percent: the spread of steady gpu-bound runs."""

SUSPECTED = THRESHOLD / 3
"""A rank with a third of the evidence that names a culprit counts when its node is looked at as a whole."""

RECENT, JUMPS = 64, 50
"""Steps over which a culprit's excess is described (its tail needs 50 to 100, and who stalls may be quiet for 60), and
those that show whether the step time jumps just now."""


class StepState(NamedTuple):
    """What a job says as of `step` (the newest judged one): steady culprits, ranks with more work, a shift, ranks that
    stall now and then; `suspected` are ranks on the way to being steady, and those that are."""

    step: int
    ts_ms: int
    steady: frozenset[int]
    heavy: frozenset[int]
    shift: Shift | None
    suspected: frozenset[int] = frozenset()
    stalling: frozenset[int] = frozenset()

    def says_more_than(self, before: "StepState | None") -> bool:
        """Whether somebody is named here who was not before."""
        old = before or StepState(0, 0, frozenset(), frozenset(), None)
        shifted = self.shift is not None and (
            old.shift is None or (self.shift.node, self.shift.rank) != (old.shift.node, old.shift.rank)
        )
        return shifted or bool(self.steady - old.steady or self.heavy - old.heavy or self.stalling - old.stalling)


class _Pending:
    __slots__ = ("first_ms", "rows")

    def __init__(self, first_ms: int) -> None:
        self.first_ms = first_ms
        self.rows: dict[int, RankStep] = {}


STEP, FLOOR, JUMP, WORST = range(4)
"""What is learned of a job as a whole: its step time, the floor of it, the change from one step to the next, and the
score of the worst rank."""


class StepDetector:
    """The steps of one job. `add` frames, then run through `judge` once per tick: one state per judged step, while
    which `culprit` and `heavy_rank` describe the ranks it names."""

    PASTS = ("own", "blocked", "score", "work", "job")
    """What is learned, and saved with the job's learning."""

    def __init__(self) -> None:
        self.node_of: dict[int, str] = {}
        self.last_step: dict[int, int] = {}
        self.newest_ms = 0
        self.judged = 0
        self.unjudged = 0
        self.last_number: int | None = None
        self.by_shape = False
        self.own = Past(0)
        self.blocked = Past(0)
        self.score = Past(0)
        self.work = Past(0)
        self.job = Past(4)
        self.shift = ShiftWatch()
        self.stalls = StallWatch()
        self.delay = SteadyDelay()
        self._late = Suspicion(0, PAIRS, OF_STEPS, rare=True)
        self._heavy = Suspicion(0, LEAST_STEPS, OF_STEPS)
        self._pending: dict[int, _Pending] = {}
        self._recent: deque[StepTable] = deque(maxlen=RECENT)
        self._jumps: deque[float] = deque(maxlen=JUMPS)
        self._unlearned: deque[tuple[StepTable, Floats, NDArray[np.bool_], NDArray[np.bool_], Floats]] = deque()
        self._before: tuple[int, int] | None = None

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
        """Judge the steps that all ranks have ended, or most of them at the deadline, in order. A rank that has
        reported nothing for some steps is not waited for."""
        newest = max(self.last_step.values(), default=0)
        awaited = [rank for rank, step in self.last_step.items() if newest - step <= ABSENT]
        world = len(self.node_of)
        for step in sorted(self._pending):
            held = self._pending[step]
            late = tick_ms - held.first_ms >= DEADLINE_MS
            if not late and (len(held.rows) < len(awaited) or not held.rows.keys() >= set(awaited)):
                return
            del self._pending[step]
            if len(held.rows) >= (world if world <= 2 else PRESENT * world):
                yield self._judge(step, held.rows, tick_ms)
            else:
                self.unjudged += 1

    def behind(self) -> frozenset[int]:
        """Ranks whose last step is older than that of most others."""
        if not self.last_step:
            return frozenset()
        usual = sorted(self.last_step.values())[len(self.last_step) // 2]
        return frozenset(rank for rank, step in self.last_step.items() if step < usual)

    @property
    def usual_us(self) -> float:
        """The usual step time; NaN before the first step."""
        return float(self.job.centre[STEP])

    @property
    def restless(self) -> bool:
        """Whether the step time usually jumps from one step to the next."""
        return bool(self.job.centre[JUMP] > NOISY * self.job.centre[STEP])

    @property
    def noisy(self) -> bool:
        """Whether it does usually or just now."""
        return self.restless or (len(self._jumps) == JUMPS and median(np.array(self._jumps)) > NOISY * self.usual_us)

    @property
    def needed(self) -> int:
        """Steps to be learned before a rank may be blamed in this job."""
        return NOISY_READY if self.noisy else READY

    def _judge(self, number: int, rows: Mapping[int, RankStep], tick_ms: int) -> StepState:
        size = max(self.node_of) + 1
        for part in (self.own, self.blocked, self.score, self.work, self._late, self._heavy):
            part.grow(size)
        ts_ms = max((row.end_ms for row in rows.values()), default=0) or tick_ms
        now = step_table(rows, size)._replace(end_ms=ts_ms, number=number)
        self.newest_ms, self.judged, self.last_number = ts_ms, self.judged + 1, number
        present = int(np.count_nonzero(now.own == now.own))
        late, heavy, more = np.zeros((3, size), np.bool_)
        both = np.full(size, np.nan)
        if self.own.learned >= READY and present > 0:
            score, lost_us = two_sided(now, self.own.centre, self.blocked.centre), lost(now, self.blocked.centre)
            now = now._replace(score=score, lost_us=lost_us)
            before = wide(self._recent[-1].score if self._recent else np.zeros(0), size)
            both = np.minimum(now.score, before)
            more = self._more_work(now)
            noisy = self.noisy
            if self.own.learned >= (NOISY_READY if noisy else READY):
                late = (both > self._bar(both)) & ~more
                if noisy and late.any():
                    late &= lone(now.score, LONE) & lone(before, LONE)
            if more.any() and self._slower(now):
                heavy = more
        self._late.update(late, max(present, 1), *(self._before or (ts_ms, number)))
        self._before = ts_ms, number
        self._heavy.update(heavy, max(present, 1), ts_ms, number)
        if self._recent:
            self._jumps.append(abs(now.step_us - self._recent[-1].step_us))
        self._recent.append(now)
        steady = self._steady(more)
        loaded = frozenset(self._heavy.steady.nonzero()[0].tolist())
        stalling = self._stalling(now, bool(steady or loaded or self.shift.open), ts_ms, number)
        shift = self.shift.update(now, self.own.centre, self.node_of, ts_ms, number, bool(steady or loaded))
        self._learn(now, both, late, heavy)
        suspected = frozenset((self._late.score >= SUSPECTED).nonzero()[0].tolist())
        return StepState(number, ts_ms, steady, loaded, shift, suspected, stalling)

    def _steady(self, more: NDArray[np.bool_]) -> frozenset[int]:
        """Who is late again and again and costs the job something; in a noisy job also who is late by the same time in
        every step, though others are later."""
        floor, own, blocked = float(self.job.centre[FLOOR]), self.own, self.blocked.centre
        if self.noisy and own.learned >= NOISY_READY:
            bar = np.fmax(EFFECT * self.usual_us, Z * own.spread)
            self.delay.update(self._recent, own.centre, bar, floor, blocked, more)
        else:
            self.delay.clear()
        rows = list(self._recent)[-OF_STEPS:]
        late = {rank for rank in self._late.steady.nonzero()[0].tolist() if waited_for(rows, rank, floor, blocked)}
        return frozenset(late | ({self.delay.rank} if self.delay.rank is not None else set()))

    def _bar(self, both: Floats) -> Floats:
        """What counts as late, for each rank."""
        least = max(EFFECT * self.usual_us, self._chance(Z), BESIDE * float(np.fmax.reduce(both, initial=0.0)))
        return np.fmax(least, Z * self.score.spread)

    def _chance(self, spreads: float) -> float:
        """What the worst rank of this job shows by chance."""
        chance = float(self.job.centre[WORST] + spreads * self.job.spread[WORST])
        return chance if chance == chance else 0.0

    def _more_work(self, now: StepTable) -> NDArray[np.bool_]:
        """Who has more to do than usual, beside the change that all of them see."""
        usual = np.where(self.work.centre > 0, self.work.centre, np.nan)
        ratio = now.work / usual
        common = median(ratio)
        if common != common:
            return np.zeros(len(ratio), np.bool_)
        bar = 1 + np.fmax(WORK_RISE, Z * self.work.spread / usual)
        more: NDArray[np.bool_] = ratio / common > bar
        return more

    def _slower(self, now: StepTable) -> bool:
        """Whether the step takes longer than usual, as a whole or without the waiting in it."""
        for at, value in ((STEP, now.step_us), (FLOOR, now.floor_us)):
            centre = float(self.job.centre[at])
            noise = max(float(self.job.spread[at]), LEAST_NOISE * centre)
            if value > centre + max(EFFECT * centre, Z * noise):
                return True
        return False

    def _stalling(self, now: StepTable, busy: bool, ts_ms: int, number: int) -> frozenset[int]:
        if self.restless or not (now.score == now.score).any():
            return frozenset()
        cost = np.minimum(now.score, max(now.lost_us, 0.0) / PEERS)
        return frozenset(
            self.stalls.update(cost, self._chance(2 * Z), self.usual_us, ts_ms, number, busy, self.shift.raised)
        )

    def _learn(self, now: StepTable, both: Floats, late: NDArray[np.bool_], heavy: NDArray[np.bool_]) -> None:
        """Learn what is usual: nothing while the job is raised or a culprit is steady, and nobody's late step. After
        the warm-up a step is learned only some time later, if nothing was raised since: what grows slowly must not
        become usual before it is seen."""
        steady = self._late.steady.any() or self._heavy.steady.any() or self.delay.rank is not None
        if self.own.learned >= READY and (steady or self.shift.raised):
            self._unlearned.clear()
            return
        jump = self._jumps[-1] if self._jumps else np.nan
        worst = max(float(np.fmax.reduce(both)), 0.0) if (both == both).any() else np.nan
        job = np.array([now.step_us, now.floor_us, jump, worst])
        self._unlearned.append((now, both, late, heavy, job))
        if self.own.learned < WARM_UP or len(self._unlearned) > DELAY:
            now, both, late, heavy, job = self._unlearned.popleft()
            size = self.own.size
            usual = ~_wide(late, size)
            self.own.learn(wide(now.own, size), usual)
            self.blocked.learn(wide(now.blocked, size), usual)
            self.work.learn(wide(now.work, size), ~_wide(heavy, size))
            if (both == both).any():
                self.score.learn(wide(both, size), usual)
            self.job.learn(job)

    def accountable(self, shift: Shift) -> int | None:
        """The one rank whose late steps, steady or not, make up most of a job's slowness; None where nobody's do, and
        where the job is restless anyway."""
        if self.restless:
            return None
        rows = [row.score for row in self._recent]
        size = len(rows[-1])
        scores = np.array([np.concatenate([row, np.full(size - len(row), np.nan)]) for row in rows])
        caused = np.mean(np.maximum(np.nan_to_num(scores), 0.0), axis=0)
        order = np.argsort(-caused)
        worst = float(caused[order[0]])
        next_ = float(caused[order[1]]) if size > 1 else 0.0
        rise = float(np.mean([row.step_us for row in self._recent])) - shift.step_past_us  # over the same steps
        fits = MOST_OF_A_RISE * rise <= worst <= ALL_OF_A_RISE * rise
        return int(order[0]) if fits and worst >= ALONE * next_ else None

    def culprit(self, rank: int) -> StepCulprit:
        """What the recent steps say of one rank that is blamed; of one that stalls now and then, those since."""
        late = self._late
        if late.steady[rank]:
            rows = self._to_the_last(rank, list(self._recent))[-max(int(late.hits[rank]) + 1, LEAST_STEPS) :]
            onset = int(late.onset_ms[rank]), int(late.onset_mark[rank])
        else:
            onset = self.delay.onset if rank == self.delay.rank else self.stalls.since(rank)
            # Since its first stall: the beginning of a lasting slowness is counted as stalls before it is steady.
            rows = self._to_the_last(rank, [row for row in self._recent if row.end_ms >= onset[0]])
        own, blocked, step = self.own.centre, self.blocked.centre, self.usual_us
        return describe(rank, rows, float(own[rank]), blocked, step, onset)

    def account(self, rank: int, since_ms: int) -> StepCulprit | None:
        """What the steps since then say of a rank that others blame; None where they do not show it late."""
        rows = [row for row in self._recent if row.end_ms >= since_ms and len(row.score) > rank]
        if not rows or not any(row.score[rank] > 0 for row in rows):
            return None
        rows = self._to_the_last(rank, rows)
        found = describe(rank, rows, float(self.own.centre[rank]), self.blocked.centre, self.usual_us, (0, 0))
        return found if found.excess_us >= EFFECT * self.usual_us else None

    def _to_the_last(self, rank: int, rows: list[StepTable]) -> list[StepTable]:
        """Without the steps behind the last late one of a rank: the end of a lasting slowness is no pause in it."""
        late = [n for n, row in enumerate(rows) if len(row.score) > rank and row.score[rank] > EFFECT * self.usual_us]
        return rows[: late[-1] + 1] if late and late[-1] + 1 >= LEAST_STEPS else rows

    def worked_more(self, ranks: Sequence[int], since_ms: int, least: float, late: int) -> bool:
        """Whether these ranks (the middle one) had more to do than their peers by this part, each against its own past,
        on average over the steps since then with the most of it, as many as they were `late` in. Untold: no."""
        usual = np.where(self.work.centre > 0, self.work.centre, np.nan)
        excess = []
        for row in self._recent:
            if row.end_ms >= since_ms and len(row.work) > max(ranks):
                ratio = row.work / usual[: len(row.work)]
                excess.append(median(ratio[list(ranks)]) / median(ratio))
        return bool(np.mean(sorted(excess)[-late:]) > 1 + least) if excess and late else False

    def work_now(self) -> tuple[float, float]:
        """How the newest steps' work compares with each rank's past: the median ratio, and its spread over the ranks.
        (NaN, NaN) where ranks report no work."""
        rows = list(self._recent)[-LEAST_STEPS:]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = [row.work / self.work.centre[: len(row.work)] for row in rows]
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
            work=float(now.work[rank]),
            work_past=float(self.work.centre[rank]),
            step_us=now.step_us,
            step_past_us=self.usual_us,
            onset_ms=int(self._heavy.onset_ms[rank]),
            onset_step=int(self._heavy.onset_mark[rank]),
        )


def _wide(marks: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    return np.concatenate([marks, np.zeros(size - len(marks), np.bool_)]) if len(marks) < size else marks
