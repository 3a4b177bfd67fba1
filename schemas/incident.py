"""One fault, one incident: opened, updated, resolved."""

from typing import Literal

from schemas.causes import Cause, Kind, Scope
from schemas.event import Severity
from schemas.finding import Evidence, Subject
from schemas.record import Name, Natural, Record, Share, TimeMs

IncidentState = Literal["suspect", "confirmed", "recovering", "resolved"]


class Incident(Record, frozen=True, kw_only=True, tag="incident"):
    """The whole incident as of `revision` (a reader needs only the newest one).

    `id` never changes while it lives; `change` says why this revision was written. `findings` are the ids of the
    verdicts it joins, at most 1,000. `members` are the nodes that these are about besides the culprits ("r03-t07
    (4 GPUs)"), at most 64. `sql` shows the evidence in ClickHouse.
    """

    topic = "incidents"

    id: Name
    revision: Natural
    change: Literal["open", "update", "resolve"]
    state: IncidentState
    kind: Kind
    scope: Scope
    cause: Cause
    confidence: Share
    runner_up: Cause | None = None
    severity: Severity = "warning"
    job: str = ""
    culprits: tuple[Subject, ...] = ()
    victims: Natural = 0
    slowdown: float | None = None
    onset_ms: TimeMs
    detected_ms: TimeMs
    resolved_ms: TimeMs | None = None
    onset_step: Natural | None = None
    detected_step: Natural | None = None
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    action: str = ""
    sql: str = ""
    findings: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.id, self.revision)
