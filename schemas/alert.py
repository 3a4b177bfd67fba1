"""Compacted records that processes steer by: forest models, agent control, the alerter's outbox."""

from typing import Literal

from schemas.record import Name, Natural, Record


class Model(Record, frozen=True, kw_only=True, tag="model"):
    """A forest model: `payload` is the portable file of `detectors.forest` (arrays and JSON, never a pickle)."""

    topic = "models"

    name: Name
    model: Name
    payload: bytes

    @property
    def key(self) -> str:
        return self.name

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.name)


class Control(Record, frozen=True, kw_only=True, tag="control"):
    """What agents should do: interval and enabled collectors; `node` "*" means all."""

    topic = "control"

    node: Name
    interval_s: float = 1.0
    collectors: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.node

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.node)


class AlertState(Record, frozen=True, kw_only=True, tag="alert_state"):
    """Where one incident stands at one receiver: the intent before each request, the outcome after it.

    `body` is the request without its secrets, so that a repeat after a death is byte for byte the same.
    `attempts` counts the requests made; 0 means none was, so the body may still be replaced. `fingerprint` is what
    the receiver was last told that matters. `attempted_resolve` is sticky: once set, no trigger is ever sent again
    for this incident.
    """

    topic = "alert-state"

    receiver: Name
    incident: Name
    revision: Natural
    action: Literal["trigger", "update", "resolve"]
    status: Literal["intent", "delivered", "rejected", "suppressed"]
    body: bytes = b""
    fingerprint: str = ""
    attempts: Natural = 0
    response: str = ""
    attempted_resolve: bool = False

    @property
    def key(self) -> str:
        return f"{self.receiver}/{self.incident}"

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.receiver, self.incident, self.revision, self.action, self.status)
