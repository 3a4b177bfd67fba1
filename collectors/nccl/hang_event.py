"""A standstill that a collector proved, as an event: `hang` and `hang_over`."""

from collections.abc import Collection

from collectors.base import event
from collectors.job.processes import Work
from schemas.event import Event
from schemas.finding import Finding

MOST_TEXT = 300


def job_of(rank: int | None, works: Collection[Work]) -> str:
    """The job that a rank on this node works for: the only one with such a rank, else the only one here, else ""."""
    mine = {work.job for work in works if rank is not None and work.rank == rank} or {work.job for work in works}
    return next(iter(mine)) if len(mine) == 1 else ""


def hang_event(job: str, finding: Finding, source: str) -> Event:
    """One culprit of a standstill. The event's rank is whom it is about, on whichever node that is."""
    detail = {
        "cause": finding.cause,
        "confidence": f"{finding.confidence:.2f}",
        "victims": str(finding.victims),
        "source": source,
        "host": finding.subject.node,
        "evidence": "; ".join(item.text for item in finding.evidence)[:MOST_TEXT],
    }
    return event(
        "hang", severity="critical", job=job, rank=finding.subject.rank, text=finding.summary[:MOST_TEXT], detail=detail
    )


def over_event(job: str, source: str) -> Event:
    """The job goes on."""
    return event("hang_over", job=job, text="the job moves again", detail={"source": source})
