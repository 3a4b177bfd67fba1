"""How fast one route of a receiver is sent to: never over its rate, and not at all while it is in trouble.

Pure: seconds of a monotonic clock come in, so a wall clock that jumps changes nothing.
"""

from collections import deque

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LATE_PAUSE_S = 30.0
"""After a 429 PagerDuty advises some 30 s between tries (Events API v2, rate limits)."""

KEY_PAUSE_S = 300.0
"""A refused key is a person's work: it is tried again every five minutes, and at once after a restart."""


class Pace:
    """At most `calls` in any `per_s` seconds; a pause after each failure, doubled while they go on."""

    def __init__(self, calls: int, per_s: float) -> None:
        self._calls, self._per_s = calls, per_s
        self._sent: deque[float] = deque(maxlen=calls)
        self._not_before_s = float("-inf")
        self._failures = 0

    def ready(self, now_s: float) -> bool:
        full = len(self._sent) == self._calls and now_s - self._sent[0] < self._per_s
        return not full and now_s >= self._not_before_s

    def sent(self, now_s: float) -> None:
        self._sent.append(now_s)

    def failed(self, now_s: float, least_s: float = 0.0) -> None:
        """A try came to nothing; `least_s` is what the receiver asks for, or its kind of trouble needs."""
        self._not_before_s = now_s + max(pause(self._failures), least_s)
        self._failures += 1

    def fine(self) -> None:
        self._failures, self._not_before_s = 0, float("-inf")


def pause(failures: int) -> float:
    """Seconds to wait after so many failures before this one.

    >>> pause(0), pause(3), pause(300)
    (1.0, 8.0, 60.0)
    """
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 16)))
