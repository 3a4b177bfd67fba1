"""What a receiver of alerts must be able to do, and how its answers are judged."""

from enum import Enum
from typing import NamedTuple, Protocol

from schemas import AlertState, Incident


class Outcome(Enum):
    """What became of one request."""

    DELIVERED = "delivered"
    RETRY = "retry"
    """Nobody knows, or not now: send the same bytes again later."""
    RETRY_LATE = "retry_late"
    """The receiver limits our rate: leave it alone for a while."""
    REJECTED = "rejected"
    """The receiver will never take this event: our bug."""
    KEY_REFUSED = "key_refused"
    """The receiver does not know us: a wrong or revoked key. A person must act; the event is kept until then."""


class Answer(NamedTuple):
    """What the receiver said, in a few words. `handle` is what it calls the alert, where it names it itself;
    `after_s` is the pause it asks for; `arrived` False where the request certainly did not get there."""

    outcome: Outcome
    text: str
    handle: str = ""
    after_s: float = 0.0
    arrived: bool = True


class Receiver(Protocol):
    """One place alerts go to. All but `deliver` is pure; `deliver` makes its requests and never raises for an answer.

    `rate` is how many deliveries it may get, in how many seconds, by route. `refresh_s` is how often it must be told
    again what is still open, 0 where it remembers.
    """

    name: str
    rate: tuple[int, float]
    refresh_s: float

    def render(self, incident: Incident, action: str) -> bytes:
        """The request for this incident, without secrets, the same bytes every time."""
        ...

    def route(self, incident: Incident) -> str:
        """Whom a new alert about it goes to: a word for people, and a hash where a key belongs to it."""
        ...

    def knows(self, route: str) -> bool:
        """Whether alerts that were opened on this route can still be reached."""
        ...

    def deliver(self, attempt: AlertState) -> Answer:
        """Send the attempt's body on its route."""
        ...
