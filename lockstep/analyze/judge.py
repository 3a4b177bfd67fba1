"""One run through the same detectors as live, and what an online run would have said when."""

from detectors.incident import IncidentBook
from detectors.job import JobDetector
from lockstep.analyze.recording import Progress, Run
from schemas.incident import Incident

CLUSTER = "local"


def judge(run: Run, progress: Progress) -> list[Incident]:
    """The incidents of one run, oldest first: those that were confirmed, and suspects still open at its end.

    Each is the newest word on it, with the moment of its first detection.
    """
    detector, book = JobDetector(CLUSTER, run.job), IncidentBook(CLUSTER)
    newest: dict[str, Incident] = {}
    confirmed: set[str] = set()
    label = f"run {run.run}" if run.run is not None else f"job {run.job}"
    for number, (tick_ms, records) in enumerate(run.ticks):
        if number % 200 == 199:
            progress(f"judging {label}", number + 1)
        said = [incident for f in detector.update(tick_ms, records) for incident in book.apply(f)]
        for incident in said + book.advance(tick_ms):
            if not incident.findings:
                newest.pop(incident.id, None)
                continue
            if incident.state == "confirmed":
                confirmed.add(incident.id)
            if incident.state in ("suspect", "confirmed") or incident.id not in newest:
                newest[incident.id] = incident
    open_ids = {incident.id for incident in book.open()}
    kept = [i for i in newest.values() if i.id in confirmed or i.id in open_ids]
    return sorted(kept, key=lambda incident: (incident.onset_ms, incident.id))
