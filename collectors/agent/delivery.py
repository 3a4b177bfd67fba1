"""From the spool to Kafka: sent in order, confirmed by the broker, sent again otherwise.

Every record goes into the spool first; sending reads from there (from its memory while the broker keeps up). What is
confirmed is forgotten, what fails is sent again from the oldest on. So each accepted record arrives once or again, and
the same record twice is one row by its identity.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from collectors.agent.spool import Spool
from runtime.clock import Clock
from runtime.health import Counters
from runtime.log import Repeats
from schemas import codec
from schemas.record import Record

logger = logging.getLogger(__name__)

WINDOW = 1000
"""Records on their way at once: catching up goes at this many a call, and a failure sends at most this many twice."""

WINDOW_BYTES = 4 << 20
"""And so many bytes: in an outage the producer holds what is on its way in memory."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0

NEVER = ("TooLarge", "InvalidRecord")
"""Words in the names of Kafka's errors that no repetition cures: a topic may have a limit of its own."""

MOST_BYTES = 1_000_000
"""What a topic takes by Kafka's own default, less the batch's headers. A larger record would hold up all others."""


class Sender(Protocol):
    """The part of `runtime.kafka.Producer` in use."""

    def send(self, topic: str, key: str, value: bytes, on_done: Callable[[Exception | None], None] | None) -> None: ...
    def flush(self, timeout_s: float) -> bool: ...
    def close(self, timeout_s: float) -> None: ...


class Delivery:
    """Carries accepted records to a sender. `accept` and `pump` belong to one thread; answers may come on another.

    Counts delivered{topic} and dropped{undeliverable}; gauges spool_waiting and spool_bytes.
    """

    def __init__(
        self, spool: Spool, counters: Counters, clock: Clock, sender: Sender | None = None, window: int = WINDOW
    ) -> None:
        self._spool, self._counters, self._clock, self._sender = spool, counters, clock, sender
        self._window = window
        self._next = spool.delivered
        self._sent: dict[int, tuple[str, int]] = {}
        """Topic and size of what is on its way, by number; the oldest first."""
        self._sent_bytes = 0
        self._round = 0
        self._answers: list[tuple[int, int, Exception | None]] = []
        self._lock = threading.Lock()
        self._pause_s, self._resume_at = FIRST_PAUSE_S, float("-inf")
        self._repeats = Repeats(now=clock.monotonic)

    def connect(self, sender: Sender) -> None:
        """There is a broker now; what waited goes out from the oldest on."""
        self._sender = sender

    def accept(self, records: Iterable[Record]) -> None:
        """Take responsibility for these records. Never waits, never raises for disk or broker."""
        for record in records:
            value = codec.encode(record)
            if len(value) + len(record.key) <= MOST_BYTES:
                self._spool.append(record.topic, record.key, value)
            else:
                self._counters.add("dropped", label="too_large")
                self._repeats.log(logger, logging.ERROR, "large", f"topic={record.topic}: {len(value)} bytes dropped")

    def pump(self) -> None:
        """Take in answers and send what waits; call this every tick. Never waits."""
        now = self._clock.monotonic()
        self._hear(now)
        if self._sender is not None and now >= self._resume_at:
            room = self._window - len(self._sent), WINDOW_BYTES - self._sent_bytes
            entries, self._next = self._spool.read(self._next, *room)
            for entry in entries:
                self._sent[entry.number] = (entry.topic, len(entry.value))
                self._sent_bytes += len(entry.value)
                answer = partial(self._answer, self._round, entry.number)
                self._sender.send(entry.topic, entry.key, entry.value, answer)
        self._spool.confirm(self._oldest())
        self._spool.save()
        self._counters.gauge("spool_waiting", self._spool.waiting)
        self._counters.gauge("spool_bytes", self._spool.disk_bytes)

    def close(self, timeout_s: float) -> None:
        """Send what can be sent in that time; the rest is in the spool for the next start."""
        until_s = self._clock.monotonic() + timeout_s
        if self._sender is not None:
            self.pump()
            self._sender.flush(timeout_s)
            self._sender.close(max(0.0, until_s - self._clock.monotonic()))
            self._hear(self._clock.monotonic())
            self._spool.confirm(self._oldest())
        self._spool.close()

    def _oldest(self) -> int:
        """The number below which everything is confirmed or given up."""
        return next(iter(self._sent), self._next)

    def _answer(self, round_: int, number: int, error: Exception | None) -> None:
        with self._lock:
            self._answers.append((round_, number, error))

    def _hear(self, now: float) -> None:
        with self._lock:
            answers, self._answers = self._answers, []
        for round_, number, error in answers:
            if round_ != self._round or number not in self._sent:
                continue  # of before a failure: it was or will be sent again
            if error is None or any(word in repr(error) for word in NEVER):
                topic, size = self._sent.pop(number)
                self._sent_bytes -= size
                if error is None:
                    self._pause_s = FIRST_PAUSE_S
                    self._counters.add("delivered", label=topic)
                else:  # no broker will ever take it, and it must not hold up the others
                    self._counters.add("dropped", label="undeliverable")
                    self._repeats.log(logger, logging.ERROR, "refused", f"topic={topic}: record dropped: {error}")
            else:
                self._again(now, str(error) or type(error).__name__)
                return

    def _again(self, now: float, why: str) -> None:
        """Begin anew from the oldest that is not confirmed, after a pause that grows while it keeps failing."""
        self._counters.add("errors", label="delivery")
        self._repeats.log(logger, logging.WARNING, "again", f"broker: {why}; {self._spool.waiting} records wait")
        self._next = self._oldest()
        self._sent.clear()
        self._sent_bytes = 0
        self._round += 1
        self._resume_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
