"""Silences and maintenance windows: who wants no pages about what, why, and until when."""

from collections.abc import Iterable
from datetime import UTC, datetime

from alerts.manners import Situation
from detectors.incident.relation import rack
from schemas import Incident, Silence


class Silences:
    """The silences of every cluster; a hold (`alerts.manners.Hold`), judged by the wall clock."""

    def __init__(self, known: Iterable[Silence] = ()) -> None:
        self._silences: dict[tuple[str, str], Silence] = {}
        for silence in known:
            self.put(silence)

    def put(self, silence: Silence) -> None:
        """Take in the newest word on a silence."""
        self._silences[silence.cluster, silence.id] = silence

    def all(self) -> tuple[Silence, ...]:
        """Every silence ever told of, in the order of their beginning."""
        return tuple(sorted(self._silences.values(), key=lambda s: (s.from_ms, s.id)))

    def active(self, now_ms: int) -> tuple[Silence, ...]:
        return tuple(s for s in self._silences.values() if active(s, now_ms))

    def __call__(self, incident: Incident, situation: Situation) -> str:
        for silence in self._silences.values():
            if active(silence, situation.now_ms) and covers(silence, incident):
                until = datetime.fromtimestamp(silence.until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
                return f"silenced by {silence.author} until {until}: {silence.reason} ({silence.id})"
        return ""


def active(silence: Silence, now_ms: int) -> bool:
    return not silence.ended and silence.from_ms <= now_ms < silence.until_ms


def covers(silence: Silence, incident: Incident) -> bool:
    """Whether all that the silence names holds, in its cluster. Rack and node must hold for every culprit: a fault that
    reaches beyond the window is paged."""
    if silence.cluster != incident.cluster or (silence.cause is not None and silence.cause != incident.cause):
        return False
    jobs = [incident.job, *(s.job for s in incident.culprits)]
    if silence.job and not any(job and _fits(silence.job, job) for job in jobs):
        return False
    if (silence.rack or silence.node) and not incident.culprits:
        return False
    return all(
        (not silence.rack or _fits(silence.rack, s.rack or rack(s.node, {})))
        and (not silence.node or _fits(silence.node, s.node))
        for s in incident.culprits
    )


def _fits(pattern: str, value: str) -> bool:
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern
