"""One run through the same detectors as live, and what an online run would have said when."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from detectors.event_watch import EventWatch
from detectors.incident.book import IncidentBook
from detectors.job.detector import JobDetector, JobRecord
from lockstep.analyze.recording import CLUSTER as CLUSTER
from lockstep.analyze.recording import Progress, Run
from schemas.event import Event
from schemas.finding import Finding
from schemas.incident import Incident
from schemas.inventory import Inventory

HALF = 0.5
"""Under this part of the operations rounds are judged by chance: confidence falls with it, down to half."""


def revisions(run: Run, progress: Progress) -> Iterator[Incident]:
    """Every revision of every incident of one run, as an online run would have written it."""
    detector, book = JobDetector(run.cluster, run.job), IncidentBook(run.cluster)
    watches: dict[str, EventWatch] = {}
    label = f"run {run.run}" if run.run is not None else f"job {run.job}"
    for number, (tick_ms, records) in enumerate(run.ticks):
        if number % 200 == 199:
            progress(f"judging {label}", number + 1)
        findings: list[Finding] = []
        events: list[Event] = []
        of_job: list[JobRecord] = []
        for record in records:
            if isinstance(record, Finding):
                findings.append(record)
            elif isinstance(record, Event):
                watch = watches.setdefault(record.node, EventWatch(run.cluster, record.node))
                findings += watch.note(record, record.gpu, tick_ms)
                events.append(record)
            elif isinstance(record, Inventory):
                book.apply(record)
            else:
                of_job.append(record)
        if of_job or not records:
            findings += detector.update(tick_ms, of_job)
        for finding in findings:
            yield from book.apply(finding)
        for event in events:
            yield from book.apply(event)
        yield from book.advance(tick_ms)


def judge(run: Run, progress: Progress) -> list[Incident]:
    """The incidents of one run, oldest first: those that were confirmed, and suspects still open at its end.

    Each is the newest word on it while it went on, with the moment of its first detection.
    """
    found = fold(revisions(run, progress))
    if run.coverage >= HALF:
        return found
    share = 0.5 + run.coverage
    return [replace(incident, confidence=incident.confidence * share) for incident in found]


def fold(history: Iterable[Incident]) -> list[Incident]:
    """Of a history of revisions, the incidents that `judge` reports."""
    newest: dict[str, Incident] = {}
    confirmed: set[str] = set()
    unfinished: set[str] = set()
    for incident in history:
        if not incident.findings:
            newest.pop(incident.id, None)
            unfinished.discard(incident.id)
            continue
        if incident.state == "confirmed":
            confirmed.add(incident.id)
        (unfinished.discard if incident.state == "resolved" else unfinished.add)(incident.id)
        if incident.state in ("suspect", "confirmed") or incident.id not in newest:
            newest[incident.id] = incident
    kept = [i for i in newest.values() if i.id in confirmed | unfinished]
    return sorted(kept, key=lambda incident: (incident.onset_ms, incident.id))
