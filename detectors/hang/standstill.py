"""Hangs that a snapshot proves (dumps, RAS, logs) as findings: one per culprit, all of one job one incident."""

from collections.abc import Iterable, Mapping

import msgspec

from detectors.episode import Verdict
from detectors.hang.evidence import Hang
from schemas.finding import Evidence, Finding, Subject
from schemas.identity import episode_id


def findings(
    cluster: str, job: str, detector: str, hangs: Iterable[Hang], ts_ms: int, nodes: Mapping[int, str] | None = None
) -> list[Finding]:
    """The findings of hangs that were seen at `ts_ms`. `nodes` tells where a rank runs.

    Without culprits the subject is the link, the node or the group, or the job where none of them is known.
    """
    return [
        Finding(
            cluster=cluster,
            ts_ms=max(ts_ms, hang.onset_ms),
            id=episode_id(f"{detector}.{hang.cause}", "hang", subject, hang.onset_ms),
            revision=0,
            detector=detector,
            state="open",
            kind="hang",
            subject=subject,
            onset_ms=hang.onset_ms,
            **msgspec.structs.asdict(verdict(hang)),
        )
        for hang in hangs
        for subject in subjects(job, hang, nodes or {})
    ]


def verdict(hang: Hang) -> Verdict:
    """The words of a hang."""
    return Verdict(
        cause=hang.cause,
        score=float(hang.victims),
        confidence=hang.confidence,
        runner_up=hang.runner_up,
        victims=hang.victims,
        summary=hang.summary[:280],
        evidence=tuple(Evidence(text=text[:300]) for text in hang.evidence),
    )


def subjects(job: str, hang: Hang, nodes: Mapping[int, str]) -> list[Subject]:
    """Whom a hang blames."""
    if hang.ranks:
        return [Subject(scope="rank", job=job, rank=rank, node=nodes.get(rank, "")) for rank in hang.ranks]
    if hang.link:
        return [Subject(scope="link", job=job, node=hang.node, link=hang.link)]
    if hang.node:
        return [Subject(scope="node", job=job, node=hang.node)]
    if hang.group:
        return [Subject(scope="group", job=job, group=hang.group)]
    return [Subject(scope="job", job=job)]
