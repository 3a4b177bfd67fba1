"""An incident as a person reads it, at a terminal at 3 a.m."""

from datetime import UTC, datetime

from schemas import Incident
from schemas.causes import CAUSES

WIDTH = 10


def incident_text(incident: Incident) -> str:
    """Who, what, since when, evidence, what to do, and the SQL to look further."""
    facts = CAUSES[incident.cause]
    lines = [
        f"{incident.severity.upper():<{WIDTH}} {incident.summary}",
        _line("who", "; ".join(subject.label() for subject in incident.culprits) or "nobody in particular"),
        _line("why", f"{incident.cause}: {facts.words} ({incident.confidence:.0%} sure{_or(incident)})"),
        _line("since", f"{_time(incident.onset_ms)}, seen {_time(incident.detected_ms)}"),
    ]
    if incident.slowdown is not None or incident.victims:
        slower = f"{incident.slowdown:.2f} times slower, " if incident.slowdown is not None else ""
        lines.append(_line("impact", f"{slower}{incident.victims} ranks wait"))
    for i, evidence in enumerate(incident.evidence):
        lines.append(_line("evidence" if i == 0 else "", evidence.text))
    lines.append(_line("do", incident.action or facts.action))
    for i, line in enumerate(incident.sql.splitlines()):
        lines.append(_line("look at" if i == 0 else "", line))
    lines.append(_line("incident", f"{incident.id}, {incident.state}"))
    return "\n".join(lines) + "\n"


def _line(name: str, text: str) -> str:
    return f"{name:<{WIDTH}} {text}"


def _or(incident: Incident) -> str:
    return f", else {incident.runner_up}" if incident.runner_up else ""


def _time(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%H:%M:%S UTC")
