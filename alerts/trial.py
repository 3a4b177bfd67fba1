"""A test of the way to the people on call: a marked event at each receiver, opened and closed, and what was said."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from alerts.content import TEST
from alerts.receiver import Outcome, Receiver
from runtime.clock import Clock
from schemas import AlertState, Incident
from schemas.finding import Evidence


class Step(NamedTuple):
    """One request: to whom, on which route, to do what, and what became of it."""

    receiver: str
    route: str
    action: str
    outcome: str
    answer: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.outcome == Outcome.DELIVERED.value


def try_out(
    receivers: Sequence[Receiver], cluster: str, clock: Clock, say: Callable[[Step], None] = lambda step: None
) -> list[Step]:
    """Open and close a test event at each receiver, of each team that has a route of its own. What could not be opened
    is not closed."""
    steps = []
    for receiver in receivers:
        routes = {receiver.route(incident): incident for incident in _one_for_each_team(cluster, clock.now_ms())}
        for number, (route, incident) in enumerate(routes.items()):
            incident = replace(incident, id=f"{incident.id}-{number}")
            handle = ""
            for action in ("trigger", "resolve"):
                begin = clock.monotonic()
                answer = receiver.deliver(_attempt(receiver, incident, action, route, handle))
                took = clock.monotonic() - begin
                step = Step(receiver.name, route, action, answer.outcome.value, answer.text, round(took, 3))
                steps.append(step)
                say(step)
                if not step.ok:
                    break
                handle = answer.handle or handle
    return steps


def _one_for_each_team(cluster: str, now_ms: int) -> list[Incident]:
    test = Incident(
        cluster=cluster,
        ts_ms=now_ms,
        id=f"{TEST}{now_ms}",
        revision=0,
        change="open",
        state="confirmed",
        kind="degradation",
        scope="cluster",
        cause="unknown",
        confidence=1.0,
        severity="info",
        onset_ms=now_ms,
        detected_ms=now_ms,
        summary="a test of alerts, asked for by a person: nothing is wrong",
        evidence=(Evidence(text="`lockstep alerts test` was run"),),
        action="Nothing: it closes by itself.",
    )
    causes = ("unknown", "gpu_degraded", "fabric_link", "leak", "data_loading")
    return [replace(test, cause=cause) for cause in causes]


def _attempt(receiver: Receiver, incident: Incident, action: str, route: str, handle: str) -> AlertState:
    over = action == "resolve"
    told = replace(
        incident,
        revision=1 if over else 0,
        change="resolve" if over else "open",
        state="resolved" if over else "confirmed",
        resolved_ms=incident.ts_ms if over else None,
    )
    return AlertState(
        cluster=incident.cluster,
        ts_ms=incident.ts_ms,
        receiver=receiver.name,
        incident=incident.id,
        revision=told.revision,
        action="resolve" if over else "trigger",
        status="intent",
        attempts=1,
        body=receiver.render(told, action),
        route=route,
        handle=handle,
    )
