"""What could not be used goes to the dead letters, with a brake.

One bad message must not stop a consumer; a bad deploy must not drain a topic into the dead letters. So each bad
message is kept with its origin and reason, and too many of them stop the process with a clear word.
"""

from collections import deque

from runtime.errors import UserError
from schemas import DeadLetter

KEPT_BYTES = 64 * 1024


def dead_letter(
    cluster: str, process: str, origin: tuple[str, int, int], reason: str, detail: str, payload: bytes, now_ms: int
) -> DeadLetter:
    """The letter for the message at `origin` (topic, partition, offset); at most 64 KiB of it is kept."""
    topic, partition, offset = origin
    return DeadLetter(
        cluster=cluster,
        ts_ms=now_ms,
        process=process,
        origin_topic=topic,
        origin_partition=partition,
        origin_offset=offset,
        reason=reason,
        detail=detail[:2000],
        payload=payload[:KEPT_BYTES],
    )


class TooManyBadMessages(UserError):
    """The brake: stop and let a person look, nothing further is acknowledged."""


class Brake:
    """Stops a consumer when bad messages come in a long run, or make up too much of the recent ones.

    `longest_run` bad ones in a row, or more than `ratio` of the last `window` messages (judged once the window is
    full). The defaults let a burst of garbage from one sender pass and catch a writer of a wrong version.
    """

    def __init__(self, longest_run: int = 1000, ratio: float = 0.5, window: int = 2000) -> None:
        self._longest_run, self._ratio, self._window = longest_run, ratio, window
        self._recent: deque[bool] = deque(maxlen=window)
        self._bad = 0
        self._run = 0

    def good(self, count: int = 1) -> None:
        self._run = 0
        for _ in range(min(count, self._window)):
            self._push(False)

    def bad(self, reason: str) -> None:
        """Count a bad message; raises TooManyBadMessages when it is one too many."""
        self._run += 1
        self._push(True)
        full = len(self._recent) == self._recent.maxlen
        if self._run >= self._longest_run or (full and self._bad > self._ratio * len(self._recent)):
            raise TooManyBadMessages(
                f"stopped: {self._bad} of the last {len(self._recent)} messages could not be used (last: {reason}); "
                "look at them with `lockstep topics tail dead-letters`, then start again"
            )

    def _push(self, bad: bool) -> None:
        if len(self._recent) == self._recent.maxlen:
            self._bad -= self._recent[0]
        self._recent.append(bad)
        self._bad += bad
