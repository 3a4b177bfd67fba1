"""The training job over time: steps one after another, what completes in each tick, what the GPUs do meanwhile."""

from dataclasses import dataclass, field

import numpy as np

from simulator.effects import Effects, Flags, Floats
from simulator.timeline import COMPUTE, STEP, Plan, Played, group_worst, play, transfer_us
from simulator.topology import Indices, Topology

FIRST_STEP = 1000
"""The job runs already when the fleet is first seen."""

DATA_US = 1500.0
"""Healthy time in the data loader: it loads ahead (1 to 2 ms measured in Ascend runs)."""

COMMON_SD = 0.0035
"""All ranks together, step by step: MLPerf's 512 GPUs show 0.37 % of the step time."""

RANK_SD = 0.0012
"""One rank against its peers, part by part."""

STATIC_SD = 0.002
"""GPUs are not alike: a lasting difference of compute time."""

ONE_OFF = 0.004
"""Part of steps in which some rank is late once by 3 to 12 % of a step, without any fault."""

TOKENS = 8192.0


@dataclass
class Step:
    """One step under way. `own_us` (ranks,) is the culprits' excess that no phase of their own report shows."""

    number: int
    plan: Plan
    played: Played
    work: Floats
    allocator_us: Floats
    own_us: Floats
    reported: Flags = field(init=False)
    emitted: list[Flags] = field(init=False)

    def __post_init__(self) -> None:
        ranks = len(self.work)
        self.reported = np.zeros(ranks, dtype=bool)
        self.emitted = [np.zeros(ranks, dtype=bool) for _ in STEP]


@dataclass(frozen=True)
class Completed:
    """The same collective of a step on the ranks where it ended in this tick. `index` is its place in STEP."""

    step: int
    index: int
    ranks: Indices
    exec_us: Floats
    end_us: Floats


@dataclass(frozen=True)
class StepReport:
    """A step that ended in this tick on `ranks`: (ranks,) columns as their callbacks measured them, microseconds."""

    step: int
    ranks: Indices
    end_us: Floats
    step_us: Floats
    data_us: Floats
    compute_us: Floats
    comm_us: Floats
    wait_us: Floats
    allocator_us: Floats
    work: Floats


@dataclass(frozen=True)
class JobTick:
    """What happened in one tick. Shapes (ranks,): `busy` and `spin` are the parts of the tick spent in own kernels and
    waiting or moving data in NCCL's, `computing` whether its own kernel ran at the tick itself, `steps` how many
    steps' worth of work was done."""

    completed: list[Completed]
    reports: list[StepReport]
    busy: Floats
    spin: Floats
    computing: Flags
    steps: Floats


class Job:
    """The job from its first seen step on. Times are microseconds of event time since the fleet's start.

    A hang begins with the first step that starts after its onset, and ends (if its fault does) as if the missing
    rank had come late.
    """

    def __init__(self, topology: Topology, step_s: float, rng: np.random.Generator) -> None:
        self._ranks = topology.job_size
        self._gpus = topology.gpu_of_rank
        self._rng = rng
        sizes = {"tensor": 4, "data": self._ranks // 4, "world": self._ranks}
        self._transfer_us = [transfer_us(collective, sizes[collective.over]) for collective in STEP]
        self._compute_us = np.outer(COMPUTE, np.full(self._ranks, step_s * 1e6 - DATA_US - sum(self._transfer_us)))
        self._compute_us *= np.clip(rng.normal(1, STATIC_SD, self._ranks), 1 - 2 * STATIC_SD, 1 + 2 * STATIC_SD)
        self._next = FIRST_STEP
        self._ready = np.zeros(self._ranks)
        self._now = 0.0
        self._steps: list[Step] = []

    def advance(self, until_us: float, effects: Effects, clock: Floats) -> JobTick:
        """Go on to `until_us`; `clock` (GPUs,) is the present clock relative to health."""
        self._release(effects)
        while np.isfinite(self._ready.max()) and self._ready.min() < until_us:
            self._begin(effects, clock)
        completed = [done for step in self._steps for done in self._completed(step, until_us)]
        reports = [report for step in self._steps if (report := self._report(step, until_us)) is not None]
        tick = JobTick(completed, reports, *self._activity(until_us))
        self._steps = [step for step in self._steps if not step.reported.all()]
        self._now = until_us
        return tick

    def launched(self) -> Indices:
        """How often the process of each rank has launched each collective of STEP until the last tick, (6, ranks).

        A process launches its whole step ahead of its GPU; that of a rank which does not enter a collective has not
        launched it either.
        """
        launched = np.full((len(STEP), self._ranks), self._next - FIRST_STEP - len(self._steps), np.intp)
        for step in self._steps:
            begun = step.played.start <= self._now
            launched[0] += begun
            launched[1:] += begun & np.isfinite(step.played.arrive[1])
        return launched

    def _begin(self, effects: Effects, clock: Floats) -> None:
        rng, gpus = self._rng, self._gpus
        slow = effects.slowdown[gpus] * effects.memory_slowdown[gpus] / clock[gpus] * effects.work[gpus]
        healthy = self._compute_us * rng.normal(1, COMMON_SD) * rng.normal(1, RANK_SD, (len(STEP), self._ranks))
        extra = np.zeros((len(STEP), self._ranks))
        extra[1] = effects.host_us[gpus] + effects.allocator_us[gpus]
        if rng.random() < ONE_OFF:
            late_us = rng.uniform(0.03, 0.12) * self._compute_us.sum(axis=0).mean()
            extra[rng.integers(3), rng.integers(self._ranks)] += late_us
        slower = {
            "tensor": effects.nvlink_slowdown[gpus],
            "data": effects.link_slowdown[gpus],
            "world": np.ones(self._ranks),
        }
        transfer = []
        for collective, base_us in zip(STEP, self._transfer_us, strict=True):
            worst = group_worst(slower[collective.over], collective.over)
            transfer.append(base_us * worst * rng.normal(1, 0.01, len(worst)))
        plan = Plan(
            data_us=DATA_US * rng.uniform(0.8, 1.3, self._ranks) + effects.data_us[gpus],
            compute_us=healthy * slow,
            extra_us=extra,
            jitter=rng.normal(1, 0.003, (len(STEP), self._ranks)),
            transfer=tuple(transfer),
        )
        played = play(plan, self._ready, effects.hang)
        own = (plan.compute_us - healthy * effects.work[gpus]).sum(axis=0) + extra.sum(axis=0)
        self._steps.append(
            Step(self._next, plan, played, effects.work[gpus].copy(), effects.allocator_us[gpus].copy(), own)
        )
        self._ready = played.finish
        self._next += 1

    def _release(self, effects: Effects) -> None:
        if effects.hang is not None or not self._steps or np.isfinite(self._ready.max()):
            return
        step = self._steps[-1]
        played = step.played
        missing = ~np.isfinite(played.arrive[1])
        if missing.any():
            step.plan.extra_us[1, missing] += self._now - played.end[0, missing]
        else:
            stopped = int(np.argmax(~np.isfinite(played.end).all(axis=1)))
            waiting = np.isfinite(played.arrive[stopped]) & ~np.isfinite(played.end[stopped])
            step.plan.extra_us[stopped, waiting] += self._now - played.arrive[stopped, waiting].max()
        step.played = play(step.plan, played.start)
        self._ready = step.played.finish

    def _completed(self, step: Step, until_us: float) -> list[Completed]:
        out = []
        for i, emitted in enumerate(step.emitted):
            end = step.played.end[i]
            ranks = np.flatnonzero((end <= until_us) & ~emitted)
            if len(ranks):
                emitted[ranks] = True
                out.append(Completed(step.number, i, ranks, step.played.exec_us(i, ranks), end[ranks]))
        return out

    def _report(self, step: Step, until_us: float) -> StepReport | None:
        ranks = np.flatnonzero((step.played.finish <= until_us) & ~step.reported)
        if not len(ranks):
            return None
        step.reported[ranks] = True
        played, plan = step.played, step.plan
        data = plan.data_us[ranks]
        # The backward pass contains the blocking collectives: victims measure their waiting as computing.
        computed = played.arrive[4, ranks] - played.start[ranks] - data - step.own_us[ranks]
        return StepReport(
            step=step.number,
            ranks=ranks,
            end_us=played.finish[ranks],
            step_us=(played.finish - played.start)[ranks],
            data_us=data,
            compute_us=np.maximum(computed, 0),
            comm_us=played.exec_us(4, ranks),
            wait_us=played.exec_us(5, ranks),
            allocator_us=step.allocator_us[ranks],
            work=TOKENS * step.work[ranks],
        )

    def _activity(self, until_us: float) -> tuple[Floats, Floats, Flags, Floats]:
        """busy, spin, computing, steps (see JobTick) between the last tick and this one."""
        busy, spin, steps = np.zeros((3, self._ranks))
        computing = np.zeros(self._ranks, dtype=bool)
        for step in self._steps:
            played = step.played
            leave = np.where(np.isfinite(played.end), played.end, until_us)
            enter = np.where(np.isfinite(played.arrive), played.arrive, until_us)
            inside = np.clip(np.minimum(leave, until_us) - np.clip(enter, self._now, None), 0, None)
            spin += inside.sum(axis=0)
            ready = np.vstack([played.start + step.plan.data_us, leave[:-1]]) + step.plan.extra_us
            enters = np.isfinite(played.arrive)  # who never enters does not compute towards it either
            own = np.clip(np.minimum(enter, until_us) - np.maximum(ready, self._now), 0, None)
            busy += (own * enters).sum(axis=0)
            computing |= ((ready < until_us) & (until_us <= enter) & enters).any(axis=0)
            here = np.clip(np.minimum(played.finish, until_us) - np.maximum(played.start, self._now), 0, None)
            steps += here / (played.finish - played.start)
        span = max(until_us - self._now, 1.0)
        return np.minimum(busy / span, 1), np.minimum(spin / span, 1), computing, steps
