"""A standstill that a collector proved, as an event: `hang` and `hang_over`."""

from collectors.base import event
from schemas.event import Event
from schemas.finding import Finding

MOST_TEXT = 300


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
