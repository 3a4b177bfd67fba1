"""What must be sent for each incident, decided so that a death at any instruction repeats at most one request.

One incident at one receiver lives like this: an intent is stored with its exact bytes (`attempts` 0), then stored
again as being attempted, then sent, then its outcome is stored. After a death the stored intents are taken up again:
an attempted one is repeated byte for byte (it may have arrived), one never attempted may still be replaced by newer
news or dropped when the incident is already over, because nobody should be paged for that. Once a resolve was
attempted no trigger follows: at PagerDuty it would open a second incident.

Pure: time comes in, records come out.
"""

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

from alerts.receiver import Outcome
from schemas import AlertState, Incident
from schemas.identity import digest

Action = Literal["trigger", "update", "resolve"]

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
LATE_RETRY_S = 30.0
"""After a 429 PagerDuty advises some 30 s between tries (Events API v2, rate limits)."""


class Entry(msgspec.Struct):
    """One incident: what was last stored, the newest news that waits behind it, and when to try next."""

    state: AlertState
    waiting: Incident | None = None
    not_before_s: float = 0.0
    failures: int = 0


class Outbox:
    """The incidents of one receiver. `render` makes the bytes (`alerts.receiver.Receiver.render`)."""

    def __init__(self, receiver: str, render: Callable[[Incident, str], bytes]) -> None:
        self._receiver, self._render = receiver, render
        self._entries: dict[str, Entry] = {}

    def restore(self, states: Iterable[AlertState]) -> None:
        """Take up what earlier lives stored; the newest record of an incident wins."""
        for state in states:
            if state.receiver == self._receiver:
                self._entries[state.incident] = Entry(state=state)

    def offer(self, incident: Incident) -> AlertState | None:
        """News of an incident: the intent to store now, or None where nothing has to be sent (yet)."""
        entry = self._entries.get(incident.id)
        if entry is None:
            if incident.change == "resolve" or incident.state == "suspect":
                return None
            return self._intend(incident, "trigger", None)
        if entry.state.attempted_resolve or incident.revision <= entry.state.revision:
            return None
        if entry.state.status == "intent":
            if entry.state.attempts == 0:
                return self._supersede(entry, incident)
            if entry.waiting is None or incident.revision > entry.waiting.revision:
                entry.waiting = incident
            return None
        return self._follow(entry, incident)

    def due(self, now_s: float) -> list[AlertState]:
        """Intents to attempt now, each already marked as attempted: store them before sending."""
        ready = [e for e in self._entries.values() if e.state.status == "intent" and e.not_before_s <= now_s]
        for entry in ready:
            entry.state = replace(
                entry.state,
                attempts=entry.state.attempts + 1,
                attempted_resolve=entry.state.attempted_resolve or entry.state.action == "resolve",
            )
        return [entry.state for entry in ready]

    def settle(self, incident: str, outcome: Outcome, answer: str, now_s: float) -> list[AlertState]:
        """What became of the attempt: the records to store (the outcome, and the next intent where news waited)."""
        entry = self._entries[incident]
        if outcome in (Outcome.RETRY, Outcome.RETRY_LATE):
            pause = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**entry.failures)
            entry.failures += 1
            entry.not_before_s = now_s + (max(pause, LATE_RETRY_S) if outcome is Outcome.RETRY_LATE else pause)
            return []
        status: Literal["delivered", "rejected"] = "delivered" if outcome is Outcome.DELIVERED else "rejected"
        entry.state = replace(entry.state, status=status, response=answer[:200])
        entry.failures, entry.not_before_s = 0, 0.0
        stored = [entry.state]
        waiting, entry.waiting = entry.waiting, None
        if waiting is not None and not entry.state.attempted_resolve:
            following = self._follow(entry, waiting)
            stored += [following] if following is not None else []
        return stored

    def may_commit(self) -> bool:
        """Whether everything offered is durable; news that waits behind an attempt is not yet."""
        return all(entry.waiting is None for entry in self._entries.values())

    def open_count(self) -> int:
        """Incidents the receiver holds open, as far as is known here."""
        return sum(not e.state.attempted_resolve and e.state.status == "delivered" for e in self._entries.values())

    def backlog(self) -> int:
        """Intents not settled yet."""
        return sum(entry.state.status == "intent" for entry in self._entries.values())

    def _supersede(self, entry: Entry, incident: Incident) -> AlertState:
        # Nothing was sent for this intent yet, so it may change or, where the incident is over, be dropped.
        if incident.change == "resolve" and entry.state.action == "trigger":
            entry.state = replace(
                entry.state, revision=incident.revision, status="suppressed", attempted_resolve=True, body=b""
            )
            return entry.state
        action: Action = "resolve" if incident.change == "resolve" else entry.state.action
        return self._intend(incident, action, entry)

    def _follow(self, entry: Entry, incident: Incident) -> AlertState | None:
        if entry.state.status == "rejected" and entry.state.action == "trigger" and incident.change == "resolve":
            return None  # The receiver never opened it.
        if incident.change == "resolve":
            return self._intend(incident, "resolve", entry)
        if fingerprint(incident) == entry.state.fingerprint:
            return None
        return self._intend(incident, "trigger" if entry.state.status == "rejected" else "update", entry)

    def _intend(self, incident: Incident, action: Action, entry: Entry | None) -> AlertState:
        state = AlertState(
            cluster=incident.cluster,
            ts_ms=incident.ts_ms,
            receiver=self._receiver,
            incident=incident.id,
            revision=incident.revision,
            action=action,
            status="intent",
            body=self._render(incident, action),
            fingerprint=fingerprint(incident),
        )
        if entry is None:
            self._entries[incident.id] = Entry(state=state)
        else:
            entry.state = state
        return state


def fingerprint(incident: Incident) -> str:
    """What is worth telling again when it changes: cause, severity, culprits, and victims by order of magnitude."""
    culprits = ",".join(sorted(subject.label() for subject in incident.culprits))
    return digest(incident.kind, incident.cause, incident.severity, culprits, incident.victims.bit_length())
