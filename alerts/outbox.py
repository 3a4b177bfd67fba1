"""What must be sent for each incident, decided so that a death at any instruction repeats at most one request.

One incident at one receiver lives like this: its newest news is stored when it comes; before each request the exact
bytes are stored as being attempted; after it the outcome. After a death the stored attempts are taken up again: one
whose outcome is unknown is repeated byte for byte (it may have arrived), news that was never attempted may still be
replaced by newer news, or dropped when the incident is already over, because nobody should be paged for that. Once a
resolve was attempted no trigger follows: at PagerDuty it would open a second incident.

A page is updated and closed where it was opened. Where that route is gone (its key was taken away), what is still open
is opened anew on the route of today; what is over can only be closed by hand, and is said.

Pure: time comes in, records come out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from alerts.manners import FLAP_WINDOW_MS, LEVELS, STORM_S, Hold, Situation, about, escalates, level
from alerts.pace import KEY_PAUSE_S, LATE_PAUSE_S, Pace, pause
from alerts.receiver import Answer, Outcome
from schemas import AlertState, Incident
from schemas.codec import WireError, decode, encode
from schemas.identity import digest

Action = Literal["trigger", "update", "resolve"]

UPDATE_S = 60.0
"""Growth is told at most once a minute; what makes it worse, or another cause, at once."""

KEPT_MS = 31 * 86_400_000
"""How long an incident that is over is remembered: longer than its topic keeps the news of it."""

MOST_FINDINGS, MOST_CULPRITS = 200, 100
"""Of a storm's incident so many are kept here: a stored state must stay far below Kafka's limit of a message."""

LOOK_S = 1.0
"""What is held is looked at again so often."""

TRIES = 4
"""So often one request is tried before others go first."""

GONE = "its key is gone: close the page by hand"


class Entry(msgspec.Struct):
    """One incident that is not over here: what was last stored, its newest news, and when to try next."""

    state: AlertState
    latest: Incident | None
    told: Incident | None = None
    told_s: float = float("-inf")
    not_before_s: float = float("-inf")
    failures: int = 0
    reached: bool = True
    """Whether the attempt in flight may have arrived."""
    mark: str = ""
    """The newest news' fingerprint."""

    @property
    def in_flight(self) -> bool:
        return self.state.status == "intent" and self.state.attempts > 0

    @property
    def opened(self) -> bool:
        """Whether the receiver may hold it open."""
        if self.in_flight:
            return self.reached or self.state.action != "trigger"
        return self.state.status == "delivered" or (self.state.status == "rejected" and self.state.action != "trigger")


class Outbox:
    """The incidents of one receiver: `render`, `route`, `knows`, `rate` and `refresh_s` are the receiver's own
    (`alerts.receiver.Receiver`), `holds` say what must wait."""

    def __init__(
        self,
        receiver: str,
        render: Callable[[Incident, str], bytes],
        *,
        route: Callable[[Incident], str] = lambda incident: "",
        knows: Callable[[str], bool] = lambda route: True,
        holds: Sequence[Hold] = (),
        rate: tuple[int, float] = (100, 60.0),
        refresh_s: float = 0.0,
    ) -> None:
        self._receiver, self._render, self._route, self._knows = receiver, render, route, knows
        self._holds, self._rate, self._refresh_s = tuple(holds), rate, refresh_s
        self._entries: dict[str, Entry] = {}
        self._over: dict[str, int] = {}
        self._ended: dict[str, list[int]] = {}
        self._paces: dict[str, Pace] = {}
        self._pages: list[float] = []
        self._aside: list[AlertState] = []
        self.orphans = 0
        self.refused_keys: set[str] = set()

    def restore(self, states: Iterable[AlertState]) -> None:
        """Take up what earlier lives stored; the newest record of an incident wins."""
        for state in states:
            if state.receiver != self._receiver:
                continue
            self._entries.pop(state.incident, None)
            self._over.pop(state.incident, None)
            if _over(state):
                self._remember(state)
                continue
            latest = latest_of(state)
            if latest is None and state.status == "intent" and not state.body:
                continue  # nothing to send, and nothing was: its next revision begins anew
            self._entries[state.incident] = Entry(
                state=state, latest=latest, mark=fingerprint(latest) if latest else ""
            )

    def offer(self, incident: Incident) -> AlertState | None:
        """News of an incident: the record to store now, or None where it changes nothing that will be sent."""
        entry = self._entries.get(incident.id)
        if incident.id in self._over or (entry is not None and entry.state.attempted_resolve):
            return None
        if entry is None:
            if incident.change == "resolve" or incident.state == "suspect":
                return None
            news = _trimmed(incident)
            entry = self._entries[incident.id] = Entry(state=self._first(news), latest=news, mark=fingerprint(news))
            return entry.state
        if incident.revision <= max(entry.state.revision, entry.latest.revision if entry.latest else 0):
            return None
        entry.latest = _trimmed(incident)
        entry.mark = fingerprint(entry.latest)
        if incident.change == "resolve" and not entry.opened:
            return self._drop(entry)
        if not self._pending(entry):
            return None
        entry.state = replace(entry.state, latest=encode(entry.latest))
        return entry.state

    def next(self, now_s: float, now_ms: int = 0) -> AlertState | None:
        """The most urgent request that may be made now, marked as attempted: store it before sending it."""
        waiting = [e for e in self._entries.values() if e.not_before_s <= now_s and self._due(e, now_s)]
        open_now: list[Incident] | None = None
        for entry in sorted(waiting, key=_urgency):
            if entry.opened and not self._knows(entry.state.route) and not self._reroute(entry):
                continue
            route = entry.state.route if entry.opened else self._route_of(entry)
            if not self._paces.setdefault(route, Pace(*self._rate)).ready(now_s):
                continue
            if not (entry.in_flight and entry.opened) and not _is_end(entry):
                if open_now is None:
                    open_now = [e.latest for e in self._entries.values() if e.latest and e.opened]
                if self._wait(entry, now_s, now_ms, open_now):
                    continue
            return self._attempt(entry, route, now_s)
        return None

    def settle(self, incident: str, answer: Answer, now_s: float) -> list[AlertState]:
        """What became of the attempt: the records to store."""
        entry = self._entries[incident]
        pace = self._paces.setdefault(entry.state.route, Pace(*self._rate))
        if answer.outcome in (Outcome.RETRY, Outcome.RETRY_LATE, Outcome.KEY_REFUSED):
            least = {Outcome.RETRY_LATE: LATE_PAUSE_S, Outcome.KEY_REFUSED: KEY_PAUSE_S}.get(answer.outcome, 0.0)
            pace.failed(now_s, max(least, answer.after_s))
            if answer.outcome is Outcome.KEY_REFUSED:
                self.refused_keys.add(entry.state.route)
            entry.reached = entry.reached or answer.arrived
            entry.not_before_s = now_s + max(pause(entry.failures), least, answer.after_s)
            entry.failures += 1
            entry.state = replace(entry.state, response=answer.text[:200])
            return []
        pace.fine()
        self.refused_keys.discard(entry.state.route)
        entry.failures, entry.not_before_s, entry.told_s = 0, float("-inf"), now_s
        done = answer.outcome is Outcome.DELIVERED
        entry.state = replace(
            entry.state,
            status="delivered" if done else "rejected",
            response=answer.text[:200],
            handle=answer.handle or entry.state.handle,
            body=b"",
            latest=b"" if entry.state.action == "resolve" or entry.latest is None else encode(entry.latest),
        )
        stored = [entry.state]
        if _over(entry.state):
            self._finish(entry)
        elif not entry.opened and entry.latest is not None and entry.latest.change == "resolve":
            stored.append(self._drop(entry))
        return stored

    def aside(self) -> list[AlertState]:
        """Records to store that no request follows: what is held and why, what can only be closed by hand."""
        stored, self._aside = self._aside, []
        return stored

    def forget(self, now_ms: int) -> None:
        """Incidents that have been over for a month need not be remembered."""
        for incident in [i for i, ts_ms in self._over.items() if now_ms - ts_ms > KEPT_MS]:
            del self._over[incident]
        for which, times in list(self._ended.items()):
            if now_ms - times[-1] > KEPT_MS:
                del self._ended[which]

    def open_count(self) -> int:
        """Incidents the receiver holds open, as far as is known here."""
        return sum(e.state.status == "delivered" for e in self._entries.values())

    def backlog(self) -> int:
        """News that is still to be sent, held or not."""
        return sum(self._pending(entry) for entry in self._entries.values())

    def held(self) -> int:
        return sum(bool(entry.state.held) for entry in self._entries.values())

    def oldest_waiting_ms(self) -> int | None:
        """When the oldest news came that should be sent and is not."""
        times = [
            (e.latest.ts_ms if e.latest else e.state.ts_ms)
            for e in self._entries.values()
            if not e.state.held and self._pending(e)
        ]
        return min(times, default=None)

    def _pending(self, entry: Entry) -> bool:
        latest, state = entry.latest, entry.state
        if state.status == "intent" or latest is None:
            return state.status == "intent"
        if latest.change == "resolve" or not (self._knows(state.route) or state.status == "rejected"):
            return True
        return latest.revision > state.revision and entry.mark != state.fingerprint

    def _due(self, entry: Entry, now_s: float) -> bool:
        stale = self._refresh_s and entry.state.status == "delivered" and now_s - entry.told_s >= self._refresh_s
        return self._pending(entry) or bool(stale and entry.latest is not None)

    def _wait(self, entry: Entry, now_s: float, now_ms: int, open_now: Sequence[Incident]) -> bool:
        """Whether this must wait; a new reason is noted."""
        latest = entry.latest
        if latest is None:
            return False
        grown = entry.opened and self._pending(entry) and not escalates(entry.told, latest)
        if grown and now_s - entry.told_s < UPDATE_S:
            return True
        self._pages = [at for at in self._pages if now_s - at < STORM_S]
        situation = Situation(entry.opened, now_ms, open_now, self._earlier(latest), len(self._pages))
        reason = next((said for hold in self._holds if (said := hold(latest, situation))), "")
        if reason:
            entry.not_before_s = now_s + LOOK_S
        if reason and reason != entry.state.held:
            entry.state = replace(entry.state, held=reason[:300])
            self._aside.append(entry.state)
        return bool(reason)

    def _earlier(self, incident: Incident) -> int:
        """How often the same was paged within the hour before it, and is over."""
        begin = incident.detected_ms - FLAP_WINDOW_MS
        return sum(ts_ms >= begin for ts_ms in self._ended.get(about(incident), ()))

    def _reroute(self, entry: Entry) -> bool:
        """The route is gone: take the incident to today's, or give up where it is over. Whether there is more to do."""
        if entry.latest is None or _is_end(entry):
            self.orphans += 1
            entry.state = replace(
                entry.state, action="resolve", status="rejected", response=GONE, attempted_resolve=True,
                body=b"", latest=b"",
            )  # fmt: skip
            self._aside.append(entry.state)
            self._finish(entry)
            return False
        self.orphans += entry.state.status == "delivered"
        entry.state = replace(entry.state, status="intent", action="trigger", attempts=0, handle="", route="")
        entry.told = None
        return True

    def _attempt(self, entry: Entry, route: str, now_s: float) -> AlertState:
        state, latest = entry.state, entry.latest
        again = entry.in_flight and (entry.reached or latest is None or latest.revision == state.revision)
        if not again and latest is not None:
            action: Action = "resolve" if latest.change == "resolve" else "update" if entry.opened else "trigger"
            state = replace(
                state,
                ts_ms=latest.ts_ms,
                revision=latest.revision,
                action=action,
                status="intent",
                body=self._render(latest, action),
                fingerprint=entry.mark,
                attempts=0,
                response="",
                route=route,
                about=about(latest),
                held="",
                latest=encode(latest),
            )
            entry.reached = False
            entry.told = latest
            if action == "trigger":
                self._pages.append(now_s)
        entry.state = replace(
            state,
            attempts=state.attempts + 1,
            attempted_resolve=state.attempted_resolve or state.action == "resolve",
        )
        self._paces[route].sent(now_s)
        return entry.state

    def _route_of(self, entry: Entry) -> str:
        return self._route(entry.latest) if entry.latest is not None else entry.state.route

    def _drop(self, entry: Entry) -> AlertState:
        # The receiver never heard of it, so nobody needs to hear that it is over. It counts as no page.
        latest = entry.latest
        entry.state = replace(
            entry.state,
            revision=latest.revision if latest else entry.state.revision,
            status="suppressed",
            attempted_resolve=True,
            body=b"",
            latest=b"",
            about="",
        )
        self._finish(entry)
        return entry.state

    def _finish(self, entry: Entry) -> None:
        self._entries.pop(entry.state.incident, None)
        self._remember(entry.state)

    def _remember(self, state: AlertState) -> None:
        self._over[state.incident] = state.ts_ms
        if state.about and state.status == "delivered":
            self._ended.setdefault(state.about, []).append(state.ts_ms)
            self._ended[state.about].sort()

    def _first(self, incident: Incident) -> AlertState:
        return AlertState(
            cluster=incident.cluster,
            ts_ms=incident.ts_ms,
            receiver=self._receiver,
            incident=incident.id,
            revision=incident.revision,
            action="trigger",
            status="intent",
            latest=encode(incident),
        )


def latest_of(state: AlertState) -> Incident | None:
    """The newest news of a stored state; None where there is none, or none that this version can read."""
    try:
        latest = decode(state.latest, topic="incidents") if state.latest else None
    except WireError:
        return None
    return latest if isinstance(latest, Incident) else None


def untold_since_ms(state: AlertState) -> int | None:
    """Since when a stored state has news that is still to be sent, held or not; None where all is told."""
    latest = latest_of(state)
    if state.status == "intent":
        return state.ts_ms
    if state.status != "delivered" or state.attempted_resolve or latest is None:
        return None
    grown = latest.revision > state.revision and fingerprint(latest) != state.fingerprint
    return latest.ts_ms if grown or latest.change == "resolve" else None


def fingerprint(incident: Incident) -> str:
    """What is worth telling again when it changes: cause, severity, culprits, members, and victims by order of
    magnitude."""
    culprits = ",".join(sorted(subject.label() for subject in incident.culprits))
    members = ",".join(incident.members)
    return digest(incident.kind, incident.cause, level(incident), culprits, members, incident.victims.bit_length())


def _over(state: AlertState) -> bool:
    return state.status == "suppressed" or (state.attempted_resolve and state.status in ("delivered", "rejected"))


def _is_end(entry: Entry) -> bool:
    latest = entry.latest
    return entry.state.action == "resolve" or (latest is not None and latest.change == "resolve")


def _urgency(entry: Entry) -> tuple[int, bool, int, int]:
    """What is in flight already is tried first, so that in an outage the rest can still be replaced or dropped; but
    after a few failures it goes last, so that one event that is never taken blocks nothing. Then the gravest."""
    ending = _is_end(entry)
    grave = 1 if ending or entry.latest is None else LEVELS.index(level(entry.latest))
    return entry.failures // TRIES, not entry.in_flight, grave, 1 if ending else 2 if entry.opened else 0


def _trimmed(incident: Incident) -> Incident:
    return replace(incident, findings=incident.findings[:MOST_FINDINGS], culprits=incident.culprits[:MOST_CULPRITS])
