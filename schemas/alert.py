"""Compacted records that processes steer by: forest models, agent control, the alerter's outbox, silences."""

from typing import Literal

from schemas.causes import Cause
from schemas.record import Name, Natural, Record, TimeMs


class Model(Record, frozen=True, kw_only=True, tag="model"):
    """A publication: from `ts_ms` on the forest `model` scores the cluster, until the next one.

    `payload` is the portable file of `detectors.forest.model` (arrays and JSON, never a pickle); empty: each worker's
    own forest. `name` is one of ten places that publications take in turn.
    """

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

    `body` is the request without its secrets, so that a repeat after a death is byte for byte the same; it is empty
    before the first try and after the outcome. `attempts` counts the requests made; 0 means none was, so what will be
    sent may still change. `fingerprint` is what the receiver was last told that matters. `attempted_resolve` is
    sticky: once set, no trigger is ever sent again for this incident. `latest` is the newest news of the incident (an
    encoded Incident), told already or not; it is dropped when the incident is over. `route` is where it was opened (a
    team and a hash of its key), `handle` what the receiver calls it, `about` what a returning fault has in common with
    its last time, `held` why nothing is sent at present.
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
    latest: bytes = b""
    route: str = ""
    handle: str = ""
    about: str = ""
    held: str = ""

    @property
    def key(self) -> str:
        return f"{self.receiver}/{self.incident}"

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.receiver, self.incident, self.revision, self.action, self.status)


class Silence(Record, frozen=True, kw_only=True, tag="silence"):
    """Somebody wants no pages about something for a while: a maintenance window, or a fault that is known.

    What is given of `rack`, `node`, `job` and `cause` must all hold; a `*` at the end stands for any rest. Nothing
    given means everything in the cluster. `ended` is an early end.
    """

    topic = "alert-state"

    id: Name
    author: Name
    reason: Name
    from_ms: TimeMs
    until_ms: TimeMs
    rack: str = ""
    node: str = ""
    job: str = ""
    cause: Cause | None = None
    ended: bool = False

    @property
    def key(self) -> str:
        return f"silence/{self.id}"

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.id, self.ended)
