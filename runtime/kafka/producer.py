"""Sending: never blocks the caller, never grows without bound, never gives up on the broker."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.errors import (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)

from runtime.errors import BrokerUnreachable, UserError
from runtime.health import Counters
from runtime.kafka.client import MAX_MESSAGE_BYTES, connected
from runtime.log import Repeats
from runtime.settings import Connection
from schemas.codec import encode
from schemas.record import Record

log = logging.getLogger("lockstep.kafka")

OnDone = Callable[[Exception | None], None]

IN_FLIGHT = 1000
IN_FLIGHT_BYTES = 8 << 20
FOR_EVER_MS = 2**31 - 1
"""kafka-python's own limit on a delivery, out of the way: it keeps order and retries until the broker is back."""

RECONNECT_S = 1.0
METADATA_S = 2.0
UNKNOWN_S = 5.0
"""A topic without metadata is asked for again after this; the others go on meanwhile."""

CLOSE_S = 1.0
SILENT_S = 5.0
"""So long without an acknowledgement, and the log says that the broker is away."""

REFUSALS = (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)
"""What the broker will refuse again, however often it is sent."""


class NotDelivered(Exception):
    """The message did not get to the broker, and nobody will try again."""


class BufferFull(NotDelivered):
    """It waited longest when the buffer was full."""


class _Waiting(NamedTuple):
    number: int
    topic: str
    key: bytes
    value: bytes
    on_done: OnDone | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value)


class Producer:
    """Sends to any topic from any thread; acknowledged by all replicas, idempotent, in order per key.

    Messages wait in our own buffer of `bound` messages and `bound_bytes` bytes (kafka-python 3 has no bound); at most
    1000 of them and 8 MiB are handed on at a time. Where the buffer is full the one that waited longest goes, counted
    as dropped{buffer_full}. The connection is made by a thread of its own, now or whenever a broker is there.

    `on_done` is called once for every message, with None when the broker has it, from another thread: be quick there.
    Delivery is at least once: what a broken connection leaves in doubt is sent again.
    """

    def __init__(
        self,
        connection: Connection,
        client_id: str,
        counters: Counters,
        bound: int = 10_000,
        bound_bytes: int = 64 << 20,
    ) -> None:
        self._connection, self._client_id, self._counters = connection, client_id, counters
        self._bound, self._bound_bytes = bound, bound_bytes
        self._state = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._in_flight: dict[int, _Waiting] = {}
        self._in_flight_bytes = 0
        self._again: list[_Waiting] = []
        self._number = 0
        self._closing = False
        self._not_before: dict[str, float] = {}
        self._acknowledged_s = time.monotonic()
        self._silent = False
        self._repeats = Repeats()
        self._thread = threading.Thread(target=self._work, name=f"producer-{client_id}", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: str, value: bytes, on_done: OnDone | None = None) -> None:
        """Line the message up and return at once."""
        message = _Waiting(0, topic, key.encode(), value, on_done)
        if message.size > MAX_MESSAGE_BYTES:
            self._drop(message, "too_large", NotDelivered(f"{message.size} bytes; {MAX_MESSAGE_BYTES} is the most"))
            return
        dropped = []
        with self._state:
            if self._closing:
                dropped.append(message)
            else:
                self._number += 1
                self._waiting.append(message._replace(number=self._number))
                self._waiting_bytes += message.size
                while len(self._waiting) > self._bound or self._waiting_bytes > self._bound_bytes:
                    dropped.append(self._take(0))
                self._state.notify_all()
        for oldest in dropped:
            if self._closing:
                self._drop(oldest, "closed", NotDelivered("the producer is closed"))
            else:
                self._drop(
                    oldest, "buffer_full", BufferFull(f"{self._bound} messages or {self._bound_bytes} bytes wait")
                )

    def send_record(self, record: Record, on_done: OnDone | None = None) -> None:
        """Send `record` to its own topic under its own key."""
        self.send(record.topic, record.key, encode(record), on_done)

    def send_and_wait(self, topic: str, key: str, value: bytes, timeout_s: float) -> None:
        """Return when the broker has it. Raises NotDelivered, or BrokerUnreachable after `timeout_s`: it may still
        arrive then."""
        done = threading.Event()
        outcome: list[Exception | None] = []

        def on_done(error: Exception | None) -> None:
            outcome.append(error)
            done.set()

        self.send(topic, key, value, on_done)
        if not done.wait(timeout_s):
            raise BrokerUnreachable(
                f"the broker at {self._connection.broker} did not acknowledge a message to {topic} "
                f"within {timeout_s:g} s"
            )
        if outcome[0] is not None:
            raise outcome[0]

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything sent so far is with the broker or given up; False after `timeout_s`."""
        with self._state:
            newest = self._number
            return self._state.wait_for(lambda: self._oldest() > newest, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Flush for at most `timeout_s`, then stop; what is left is counted as dropped{closed}."""
        with self._state:
            self._closing = True
        self.flush(timeout_s)
        with self._state:
            left = [*self._in_flight.values(), *self._again, *self._waiting]
            self._waiting.clear()
            self._again.clear()
            self._in_flight.clear()
            self._waiting_bytes = self._in_flight_bytes = 0
            self._state.notify_all()
        if left:
            log.warning("%d messages were not sent before the end", len(left))
        for message in left:
            self._drop(message, "closed", NotDelivered("the producer was closed before the broker had it"))
        self._thread.join(METADATA_S + CLOSE_S + RECONNECT_S)

    # Everything below runs in the producer's own thread or in kafka-python's.

    def _work(self) -> None:
        client = self._connect()
        if client is None:
            return
        while (message := self._next()) is not None:
            try:
                future = client.send(message.topic, message.value, message.key)
            except KafkaTimeoutError:
                self._not_before[message.topic] = time.monotonic() + UNKNOWN_S
                self._failed(message, None, f"no metadata of topic {message.topic}")
                continue
            except Exception as error:
                self._failed(message, error, str(error))
                continue
            self._not_before.pop(message.topic, None)
            future.add_callback(self._arrived, message)
            future.add_errback(self._refused, message)
        _close(client)

    def _connect(self) -> KafkaProducer | None:
        while True:
            try:
                return connected(
                    self._connection,
                    KafkaProducer,
                    client_id=self._client_id,
                    acks="all",
                    enable_idempotence=True,
                    compression_type="lz4",
                    linger_ms=20,
                    batch_size=256 << 10,
                    max_request_size=MAX_MESSAGE_BYTES + 1000,
                    request_timeout_ms=10_000,
                    delivery_timeout_ms=FOR_EVER_MS,
                    max_block_ms=int(METADATA_S * 1000),
                    bootstrap_timeout_ms=10_000,
                    metadata_max_age_ms=60_000,
                    metrics_enabled=False,
                )
            except UserError as error:
                self._counters.add("errors", 1, "broker_unreachable")
                self._repeats.log(log, logging.WARNING, "connect", f"{error}; trying again")
            with self._state:
                if self._state.wait_for(lambda: self._closing and not self._waiting, RECONNECT_S):
                    return None

    def _next(self) -> _Waiting | None:
        """The next message that may be handed on, waiting for one; None at the end."""
        with self._state:
            while True:
                if self._again and not self._in_flight:
                    self._again.sort()
                    self._waiting.extendleft(reversed(self._again))
                    self._waiting_bytes += sum(message.size for message in self._again)
                    self._again.clear()
                if self._closing and not self._waiting and not self._again and not self._in_flight:
                    return None
                if len(self._in_flight) < IN_FLIGHT and self._in_flight_bytes < IN_FLIGHT_BYTES and not self._again:
                    now = time.monotonic()
                    for index, message in enumerate(self._waiting):
                        if not self._not_before or self._not_before.get(message.topic, 0.0) <= now:
                            self._take(index)
                            self._in_flight[message.number] = message
                            self._in_flight_bytes += message.size
                            return message
                self._state.wait(0.2 if self._waiting or self._in_flight else None)
                self._say_if_silent()

    def _take(self, index: int) -> _Waiting:
        message = self._waiting[index]
        del self._waiting[index]
        self._waiting_bytes -= message.size
        return message

    def _count(self) -> int:
        return len(self._waiting) + len(self._again) + len(self._in_flight)

    def _oldest(self) -> int:
        numbers = [*self._in_flight, *(message.number for message in self._again)]
        if self._waiting:
            numbers.append(self._waiting[0].number)
        return min(numbers, default=self._number + 1)

    def _landed(self, message: _Waiting) -> bool:
        """Take it out of what is in flight; False where the producer gave it up before."""
        if self._in_flight.pop(message.number, None) is None:
            return False
        self._in_flight_bytes -= message.size
        self._state.notify_all()
        return True

    def _arrived(self, message: _Waiting, metadata: object) -> None:
        with self._state:
            mine = self._landed(message)
            self._acknowledged_s = time.monotonic()
            if self._silent:
                self._silent = False
                log.warning("the broker at %s answers again; %d messages wait", self._connection.broker, self._count())
        if mine:
            self._counters.add("sent")
            if message.on_done is not None:
                message.on_done(None)

    def _refused(self, message: _Waiting, error: Exception) -> None:
        self._failed(message, error if isinstance(error, REFUSALS) else None, f"{message.topic}: {error}")

    def _failed(self, message: _Waiting, final: Exception | None, why: str) -> None:
        """Give the message up where the failure is `final`, else line it up again in its old place."""
        with self._state:
            if not self._landed(message):
                return
            if final is None:
                self._again.append(message)
        if final is None:
            self._counters.add("errors", 1, "produce")
            self._repeats.log(log, logging.WARNING, "again", f"{why}; trying again")
        else:
            self._repeats.log(log, logging.ERROR, "refused", f"the broker will not take a message: {why}")
            self._drop(message, "refused", NotDelivered(why))

    def _drop(self, message: _Waiting, reason: str, error: NotDelivered) -> None:
        self._counters.add("dropped", 1, reason)
        if message.on_done is not None:
            message.on_done(error)

    def _say_if_silent(self) -> None:
        now = time.monotonic()
        if not self._in_flight:
            self._acknowledged_s = now
        elif not self._silent and now - self._acknowledged_s > SILENT_S:
            self._silent = True
            log.warning("the broker at %s does not answer; messages wait for it", self._connection.broker)


def _close(client: KafkaProducer) -> None:
    try:
        client.close(timeout=CLOSE_S)
    except KafkaError:  # batches that never got an answer: its close gives up on itself there
        client._sender.force_close()
        client._sender.join(CLOSE_S)
