"""What would have been sent for incidents of the past: the same outbox and manners, a receiver that takes everything,
and the incidents' own time."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from alerts.manners import HOLDS, Hold, level
from alerts.outbox import Outbox
from alerts.receiver import Answer, Outcome, Receiver
from alerts.silences import Silences
from schemas import AlertState, Incident, Silence

STEP_MS = 1_000
AFTER_MS = 3_600_000
"""Held news is followed for an hour after the last incident of the period."""


class Sent(NamedTuple):
    """One request that would have been made, or a word on why not (`action` "held")."""

    ts_ms: int
    receiver: str
    route: str
    action: str
    incident: str
    level: str
    body: bytes
    why: str = ""


def rehearse(
    incidents: Iterable[Incident],
    receivers: Sequence[Receiver],
    silences: Sequence[Silence] = (),
    holds: Sequence[Hold] = HOLDS,
) -> list[Sent]:
    """Every request for `incidents` (all revisions, any order), by time."""
    told = sorted(incidents, key=lambda incident: (incident.ts_ms, incident.id, incident.revision))
    found = []
    for receiver in receivers:
        outboxes = {
            cluster: Outbox(
                receiver.name,
                receiver.render,
                route=receiver.route,
                knows=receiver.knows,
                holds=(Silences(cluster, silences), *holds),
                rate=receiver.rate,
            )
            for cluster in {incident.cluster for incident in told}
        }
        for cluster, outbox in outboxes.items():
            found += _run(outbox, receiver.name, [incident for incident in told if incident.cluster == cluster])
    return sorted(found, key=lambda sent: (sent.ts_ms, sent.receiver, sent.incident))


def _run(outbox: Outbox, name: str, told: Sequence[Incident]) -> list[Sent]:
    found: list[Sent] = []
    newest: dict[str, Incident] = {}
    now_ms = told[0].ts_ms
    for incident in told:
        # Seconds between two incidents count only while something waits.
        while now_ms + STEP_MS < incident.ts_ms and outbox.backlog():
            now_ms += STEP_MS
            found += _sent(outbox, name, newest, now_ms)
        now_ms = max(now_ms, incident.ts_ms)
        newest[incident.id] = incident
        dropped = outbox.offer(incident)
        if dropped is not None and dropped.status == "suppressed":
            found.append(_as_sent(dropped, name, newest, now_ms, "over before anybody was paged"))
        found += _sent(outbox, name, newest, now_ms)
    until_ms = now_ms + AFTER_MS
    while outbox.backlog() and now_ms < until_ms:
        now_ms += STEP_MS
        found += _sent(outbox, name, newest, now_ms)
    return found


def _sent(outbox: Outbox, name: str, newest: dict[str, Incident], now_ms: int) -> list[Sent]:
    found = []
    while (attempt := outbox.next(now_ms / 1000, now_ms)) is not None:
        found.append(_as_sent(attempt, name, newest, now_ms))
        outbox.settle(attempt.incident, Answer(Outcome.DELIVERED, ""), now_ms / 1000)
    return found + [_as_sent(held, name, newest, now_ms, held.held) for held in outbox.aside()]


def _as_sent(state: AlertState, name: str, newest: dict[str, Incident], now_ms: int, why: str = "") -> Sent:
    incident = newest[state.incident]
    action = "held" if why else state.action
    return Sent(now_ms, name, state.route, action, state.incident, level(incident), state.body, why)
