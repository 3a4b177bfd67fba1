"""Pipeline-parallel training: a bad worker told from uneven work, by what each costs the step.

A worker is one stage of one data-parallel replica. Replicas do equal work, so over the replicas a stage's times say
what the work costs (`pipeline_slowness`), and a replay of the step says who costs the job how much
(`pipeline_replay`): who costs nothing is not blamed. Uneven sequences and stages are told as such (`pipeline_work`).

Wrong where most replicas are slow at one stage (that is the stage then), and, in a job of one replica, where a worker
was slow before its first steps.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.pipeline.grid import Grid, PipelineOps, grid
from detectors.pipeline.replay import pipeline_time
from detectors.pipeline.slowness import RISE, Peers, Slowness, lower_median, typical
from detectors.pipeline.words import (
    Cost,
    replica_verdict,
    sequence_verdict,
    stage_verdict,
    stall_verdict,
    worker_verdict,
)
from detectors.pipeline.work import Work, ratio, weigh
from schemas.finding import Finding, Subject

COSTS = 0.02
"""A worker is a culprit only where it alone makes its replica's pipeline 2 % longer: else none of its peers waits for
it. (Whether the job does depends on who else is long in that step.)"""

STEADY = Persistence(k=4, n=5, clear=8)
"""Four of the last five steps: a published method calls a machine slow after five rounds, and one may hide it. A steady
fault stays (the median slowdown of a straggling job's steps is that of the job)."""

WORKER = Rule("pipeline_worker", "straggler", STEADY)
REPLICA = Rule("pipeline_replica", "imbalance", STEADY)
WORK = Rule("pipeline_work", "imbalance", STEADY)
STALLS = Rule("pipeline_stalls", "degradation", STEADY)


class PipelineDetector:
    """The detector of one job; feed it its steps in order. Nothing looks ahead."""

    def __init__(self, cluster: str, job: str) -> None:
        self._job = job
        self._episodes = Episodes(cluster)
        self._peers = Peers()
        self._ticks: deque[tuple[int, int]] = deque(maxlen=STEADY.n)
        self._marks: dict[str, tuple[int, int]] = {}
        self.judged = 0
        """Steps in which there was something to compare."""

    def update(self, tick_ms: int, step: int, ops: PipelineOps) -> list[Finding]:
        """Judge one step; about one without computation nothing is said."""
        cells = grid(ops, RISE)
        if cells is None or not np.nansum(cells.durations) > 0:
            return []
        self._ticks.append((tick_ms, step))
        slow = self._peers.compare(cells)
        even = cells._replace(durations=cells.durations / slow.factor()[:, :, None, None])
        self.judged += bool(np.isfinite(slow.alone).any()) or cells.durations.shape[3] > 1
        said = [
            *self._workers(tick_ms, cells, even, slow),
            *self._replicas(tick_ms, cells, slow),
            *self._work(tick_ms, cells, weigh(even)),
        ]
        return [self._marked(finding, step) for finding in said]

    def _workers(self, tick_ms: int, cells: Grid, even: Grid, slow: Slowness) -> list[Finding]:
        if self._episodes.idle(WORKER) and not slow.late.any():
            return []
        usual = even.time(even.durations)
        times = typical(cells.durations)
        over = times / lower_median(times, 0)
        said = []
        for d, dp in enumerate(cells.dps):
            for s, stage in enumerate(cells.stages):
                cost = self._cost(even, usual, d, s, float(slow.alone[d, s])) if slow.late[d, s] else Cost(1.0, 1.0)
                subject = self._worker(f"dp {dp} stage {stage}", int(cells.rank[d, s]))
                peers = f"stage {stage} of the other {len(cells.dps) - 1} replicas"
                forward, backward = over[d, s].tolist()
                if len(cells.dps) == 1:
                    peers, forward = "in its own past", float(np.exp(slow.alone[d, s]))
                    backward = forward
                said += self._episodes.observe(
                    WORKER,
                    subject,
                    bool(slow.late[d, s] and cost.replica > 1 + COSTS) if np.isfinite(slow.alone[d, s]) else None,
                    tick_ms,
                    lambda s=subject, f=forward, b=backward, c=cost, p=peers: worker_verdict(  # type: ignore[misc]
                        s, f, b, c, cells.ranks - 1, p
                    ),
                )
        return said

    @staticmethod
    def _cost(even: Grid, usual: float, d: int, s: int, excess: float) -> Cost:
        """What one slow worker costs; `even` is the step with nobody slow, which takes `usual`."""
        with_it = even.durations.copy()
        with_it[d, s] *= np.exp(excess)
        own, order = slice(d, d + 1), even.order
        without = pipeline_time(even.durations[own], order[own])
        return Cost(ratio(pipeline_time(with_it[own], order[own]), without), ratio(even.time(with_it), usual))

    def _replicas(self, tick_ms: int, cells: Grid, slow: Slowness) -> list[Finding]:
        said = []
        for dp, heavy, shared in zip(cells.dps, slow.heavy.tolist(), slow.shared.tolist(), strict=True):
            group = f"dp {dp}"
            said += self._episodes.observe(
                REPLICA,
                Subject(scope="group", job=self._job, group=group),
                heavy,
                tick_ms,
                lambda group=group, shared=shared: replica_verdict(  # type: ignore[misc]
                    group, float(np.exp(shared)), len(cells.stages)
                ),
            )
        return said

    def _work(self, tick_ms: int, cells: Grid, work: Work) -> list[Finding]:
        job = Subject(scope="job", job=self._job)
        verdicts: list[tuple[Rule, Subject, bool, Callable[[Work], Verdict]]] = [
            (WORK, job, work.sequences, sequence_verdict),
            (STALLS, job, work.collects or work.stalls, stall_verdict),
        ]
        for stage in cells.stages:
            subject = Subject(scope="stage", job=self._job, group=str(stage))
            stage_words = partial(stage_verdict, replicas=len(cells.dps))
            verdicts.append((WORK, subject, work.stages and work.stage == stage, stage_words))
        return [
            finding
            for rule, subject, active, say in verdicts
            for finding in self._episodes.observe(rule, subject, active, tick_ms, lambda say=say: say(work))  # type: ignore[misc]
        ]

    def _worker(self, group: str, rank: int) -> Subject:
        """A verdict keeps the rank with which it opened: of several that work as one another may stand for them now."""
        known = [subject for subject in self._episodes.open(WORKER) if subject.group == group]
        return known[0] if known else Subject(scope="rank", job=self._job, rank=max(rank, 0), group=group)

    def _marked(self, finding: Finding, step: int) -> Finding:
        """The finding with the steps in which its trouble began and was first told."""
        if finding.state == "open":
            self._marks[finding.id] = (dict(self._ticks).get(finding.onset_ms, step), step)
        onset, detected = self._marks[finding.id]
        if finding.state == "close":
            del self._marks[finding.id]
        return msgspec.structs.replace(finding, onset_step=onset, detected_step=detected)
