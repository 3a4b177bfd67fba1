"""The sentences of a pipeline's verdicts."""

from typing import NamedTuple

from detectors.episode import Verdict
from detectors.incident.cause import Witness, judge
from detectors.pipeline.work import STRAGGLES, Work
from schemas.causes import Cause
from schemas.finding import Evidence, Subject

NOTICED = 1.01
"""A job is called slower from 1 % on."""


class Cost(NamedTuple):
    """How many times longer one worker alone makes its own replica's pipeline, and the whole step."""

    replica: float
    job: float


def worker_verdict(subject: Subject, forward: float, backward: float, cost: Cost, victims: int, peers: str) -> Verdict:
    """One slow worker; `forward` and `backward` are its times over those of `peers`."""
    why = judge(Witness(timed=True))
    longest, most, least = "forward", forward, backward
    if backward > forward:
        longest, most, least = "backward", backward, forward
    effect = f"job {cost.job:.2f} times slower"
    if cost.job < NOTICED:
        effect = f"its replica {cost.replica:.2f} times slower"
    return Verdict(
        cause=why.cause,
        score=max(cost) - 1,
        confidence=why.confidence,
        runner_up=why.runner_up,
        victims=victims,
        slowdown=round(cost.job, 3) if cost.job >= NOTICED else None,
        summary=f"{subject.group} (rank {subject.rank}) computes {most:.2f} times as long as {peers}, {effect}",
        evidence=(
            Evidence(
                text=(
                    f"its {longest} takes {most:.2f} times, the other direction {least:.2f} times as long as {peers}, "
                    "in all its microbatches"
                ),
                metric=f"{longest}_compute",
                value=most,
                baseline=1.0,
            ),
            Evidence(
                text=(
                    f"replayed with all others as fast as their peers, it makes its replica's pipeline "
                    f"{cost.replica:.2f} and the whole step {cost.job:.2f} times as long"
                ),
                metric="what_if_slowdown",
                value=cost.job,
                baseline=1.0,
            ),
        ),
    )


def replica_verdict(group: str, longer: float, stages: int) -> Verdict:
    """A replica whose stages are all slow alike: more work, or one node that holds all of it."""
    return Verdict(
        cause="work_imbalance",
        score=longer - 1,
        confidence=0.6,
        slowdown=round(longer, 3),
        summary=f"all {stages} stages of {group} compute {longer:.2f} times as long as their peers: uneven work",
        evidence=(
            Evidence(
                text=(
                    f"every stage of {group} takes at least {longer:.2f} times as long as the same stage of the other "
                    "replicas: it has more work, or all of it lies on one slow node"
                ),
                metric="compute",
                value=longer,
                baseline=1.0,
            ),
        ),
    )


def sequence_verdict(work: Work) -> Verdict:
    """Microbatches of unequal work."""
    evidence = [
        Evidence(
            text=(
                f"with equal microbatches the step would take {1 / work.by_microbatch:.0%} of its time; forward and "
                f"backward, and neighbouring stages, are long for the same microbatches (r = {work.coherence:.2f})"
            ),
            metric="what_if_slowdown",
            value=work.by_microbatch,
            baseline=1.0,
        ),
    ]
    second: Cause | None = None
    if work.by_stage_alone > STRAGGLES:
        second = "stage_imbalance"
        evidence.append(
            Evidence(
                text=(
                    f"stage {work.stage} has {work.weight:.2f} times the work of the others; with equal microbatches "
                    f"that would make the step {work.by_stage_alone:.2f} times longer"
                ),
                metric="stage_compute",
                value=work.weight,
                baseline=1.0,
            )
        )
    return Verdict(
        cause="sequence_imbalance",
        score=work.by_microbatch - 1,
        confidence=0.85,
        runner_up=second,
        slowdown=round(work.by_microbatch, 3),
        summary=f"sequence lengths differ between microbatches, job {work.by_microbatch:.2f} times slower",
        evidence=tuple(evidence),
    )


def stage_verdict(work: Work, replicas: int) -> Verdict:
    """One stage with more work than the others, in all replicas. A single one cannot tell that from a slow worker."""
    which = f"stage {work.stage}" + (", the last one," if work.last else "")
    second: Cause | None = "sequence_imbalance" if work.by_microbatch > STRAGGLES else None
    if replicas == 1:
        second = "gpu_degraded"
    return Verdict(
        cause="stage_imbalance",
        score=work.by_stage - 1,
        confidence=0.85 if replicas > 1 else 0.5,
        runner_up=second,
        slowdown=round(work.by_stage, 3),
        summary=f"{which} has {work.weight:.2f} times the work of the others, job {work.by_stage:.2f} times slower",
        evidence=(
            Evidence(
                text=(
                    f"{which} computes {work.weight:.2f} times as long as the mean of the others, and longest in "
                    + (
                        f"{work.agree:.0%} of the {replicas} replicas: no single worker is the reason"
                        if replicas > 1
                        else "the only replica, which cannot tell more work from a slow worker"
                    )
                ),
                metric="stage_compute",
                value=work.weight,
                baseline=1.0,
            ),
            Evidence(
                text=f"with equal stages the step would take {1 / work.by_stage:.0%} of its time",
                metric="what_if_slowdown",
                value=work.by_stage,
                baseline=1.0,
            ),
        ),
    )


def stall_verdict(work: Work) -> Verdict:
    """Single operations that are long on changing workers: collections of garbage where the trace names them."""
    if work.collects:
        return Verdict(
            cause="python_stall",
            score=work.pauses,
            confidence=0.8,
            slowdown=round(1 + work.pauses, 3),
            summary=f"garbage collection pauses a worker for {work.pauses:.0%} of each step; others wait",
            evidence=(
                Evidence(
                    text=f"the pauses named in the trace add up to {work.pauses:.0%} of the step's computation",
                    metric="gc",
                    value=work.pauses,
                    baseline=0.0,
                ),
            ),
        )
    return Verdict(
        cause="sporadic_stall",
        score=work.by_microbatch - 1,
        confidence=0.6,
        slowdown=round(work.by_microbatch, 3),
        summary=f"single operations take long on changing workers, job {work.by_microbatch:.2f} times slower",
        evidence=(
            Evidence(
                text=(
                    "what is long is not long for the same microbatch on other stages or in the other direction "
                    f"(r = {work.coherence:.2f}), so it does not come from the data"
                ),
                metric="what_if_slowdown",
                value=work.by_microbatch,
                baseline=1.0,
            ),
        ),
    )
