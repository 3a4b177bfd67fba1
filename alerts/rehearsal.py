"""What would have been sent for incidents of the past: the same outbox and manners, a receiver that takes everything,
and the incidents' own time."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from alerts.manners import HOLDS, STEADY_MS, STORM_S, Hold, level
from alerts.outbox import Outbox
from alerts.receiver import Answer, Outcome, Receiver
from alerts.silences import Silences
from schemas import AlertState, Incident, Silence

STEP_MS = 1_000
CLOSE_MS, FAR_STEP_MS = 60_000, 10_000
"""What has waited for a minute since the last news or request is looked at every ten seconds."""

QUIET_MS = round(max(STEADY_MS, 1000 * STORM_S)) + CLOSE_MS
"""So long after those, no hold changes its mind by itself; only a silence begins or ends."""

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
    turns_ms = sorted({turn_ms for silence in silences for turn_ms in (silence.from_ms, silence.until_ms)})
    found = []
    for receiver in receivers:
        outboxes = {
            cluster: Outbox(
                receiver.name,
                receiver.render,
                route=receiver.route,
                knows=receiver.knows,
                holds=(Silences(silences), *holds),
                rate=receiver.rate,
            )
            for cluster in {incident.cluster for incident in told}
        }
        for cluster, outbox in outboxes.items():
            found += _run(outbox, receiver.name, [i for i in told if i.cluster == cluster], turns_ms)
    return sorted(found, key=lambda sent: (sent.ts_ms, sent.receiver, sent.incident))


def _run(outbox: Outbox, name: str, told: Sequence[Incident], turns_ms: Sequence[int]) -> list[Sent]:
    """`turns_ms` are the moments at which silences begin and end, rising."""
    found: list[Sent] = []
    newest: dict[str, Incident] = {}
    now_ms = told[0].ts_ms

    def wait(until_ms: int) -> None:
        """Time passes while something waits."""
        nonlocal now_ms
        changed_ms = now_ms
        while outbox.backlog():
            still_ms = now_ms - changed_ms
            if still_ms > QUIET_MS:
                turn = bisect_right(turns_ms, now_ms)
                next_ms = changed_ms = turns_ms[turn] if turn < len(turns_ms) else until_ms
            else:
                next_ms = now_ms + (STEP_MS if still_ms < CLOSE_MS else FAR_STEP_MS)
            if next_ms >= until_ms:
                break
            now_ms = next_ms
            sent = _sent(outbox, name, newest, now_ms)
            if sent:
                found.extend(sent)
                changed_ms = now_ms

    for incident in told:
        wait(incident.ts_ms)
        now_ms = max(now_ms, incident.ts_ms)
        newest[incident.id] = incident
        dropped = outbox.offer(incident)
        if dropped is not None and dropped.status == "suppressed":
            found.append(_as_sent(dropped, name, newest, now_ms, "over before anybody was paged"))
        found += _sent(outbox, name, newest, now_ms)
    wait(now_ms + AFTER_MS)
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
