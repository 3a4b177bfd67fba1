"""What a receiver of alerts must be able to do, and how its answers are judged."""

from enum import Enum
from typing import Protocol

from schemas import Incident


class Outcome(Enum):
    """What became of one request."""

    DELIVERED = "delivered"
    RETRY = "retry"
    """Nobody knows, or not now: send the same bytes again later."""
    RETRY_LATE = "retry_late"
    """The receiver limits our rate: leave it alone for a while."""
    REJECTED = "rejected"
    """The receiver will never take this: our bug or a revoked key."""


class Receiver(Protocol):
    """One place alerts go to. `render` is pure; `deliver` makes one request and never raises for an answer."""

    name: str

    def render(self, incident: Incident, action: str) -> bytes:
        """The request for this incident, without secrets, the same bytes every time."""
        ...

    def deliver(self, body: bytes) -> tuple[Outcome, str]:
        """Send `body`; the outcome and, in a few words, the answer."""
        ...
