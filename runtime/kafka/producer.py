"""Sending: never blocks the caller, never grows without bound, never gives up on the broker."""

import logging
import threading
import time

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
from runtime.kafka.buffer import Buffer, OnDone, Waiting
from runtime.kafka.client import MAX_MESSAGE_BYTES, connected
from runtime.log import Repeats
from runtime.settings import Connection
from schemas.codec import encode
from schemas.record import Record

log = logging.getLogger("lockstep.kafka")

FOR_EVER_MS = 2**31 - 1
"""kafka-python's own limit on a delivery, out of the way: it keeps order and retries until the broker is back."""

RECONNECT_S = 1.0
METADATA_S = 2.0
UNKNOWN_S = 5.0
"""A topic without metadata is asked for again after this; the others go on meanwhile."""

CLOSE_S = 1.0
LOOK_S = 0.2
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
        linger_ms: int = 20,
    ) -> None:
        """`linger_ms` is how long a message waits for others to go with it: none for who sends once a second."""
        self._linger_ms = linger_ms
        self._connection, self._client_id, self._counters = connection, client_id, counters
        self._where = connection.broker
        self._full = f"{bound} messages or {bound_bytes} bytes wait"
        self._state = threading.Condition()
        self._buffer = Buffer(bound, bound_bytes)
        self._closing = False
        self._acknowledged_s = time.monotonic()
        self._silent = False
        self._repeats = Repeats()
        self._thread = threading.Thread(target=self._work, name=f"producer-{client_id}", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: str, value: bytes, on_done: OnDone | None = None) -> None:
        """Line the message up and return at once."""
        size = len(value) + len(key)
        if size > MAX_MESSAGE_BYTES:
            self._drop(on_done, "too_large", NotDelivered(f"{size} bytes; {MAX_MESSAGE_BYTES} is the most"))
            return
        with self._state:
            closed = self._closing
            dropped = [] if closed else self._buffer.add(topic, key.encode(), value, on_done)
            self._state.notify_all()
        if closed:
            self._drop(on_done, "closed", NotDelivered("the producer is closed"))
        for oldest in dropped:
            self._drop(oldest.on_done, "buffer_full", BufferFull(self._full))

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
                f"the broker at {self._where} did not acknowledge a message to {topic} within {timeout_s:g} s"
            )
        if outcome[0] is not None:
            raise outcome[0]

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything sent so far is with the broker or given up; False after `timeout_s`."""
        with self._state:
            newest = self._buffer.newest
            return self._state.wait_for(lambda: self._buffer.oldest > newest, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Flush for at most `timeout_s`, then stop; what is left is counted as dropped{closed}."""
        with self._state:
            self._closing = True
        self.flush(timeout_s)
        with self._state:
            left = self._buffer.give_up()
            self._state.notify_all()
        if left:
            log.warning("%d messages were not sent before the end", len(left))
        for message in left:
            self._drop(message.on_done, "closed", NotDelivered("the producer was closed before the broker had it"))
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
                with self._state:
                    self._buffer.put_off(message.topic, time.monotonic() + UNKNOWN_S)
                self._failed(message, None, f"no metadata of topic {message.topic}")
                continue
            except Exception as error:
                self._failed(message, error, str(error))
                continue
            with self._state:
                self._buffer.resume(message.topic)
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
                    linger_ms=self._linger_ms,
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
                if self._state.wait_for(lambda: self._closing and not self._buffer, RECONNECT_S):
                    return None

    def _next(self) -> Waiting | None:
        """The next message that may be handed on, waiting for one; None at the end."""
        with self._state:
            while (message := self._buffer.take(time.monotonic())) is None:
                if self._closing and not self._buffer:
                    return None
                self._state.wait(LOOK_S if self._buffer else None)
                self._say_if_silent()
            return message

    def _arrived(self, message: Waiting, metadata: object) -> None:
        with self._state:
            mine = self._buffer.landed(message)
            self._state.notify_all()
            self._acknowledged_s = time.monotonic()
            if self._silent:
                self._silent = False
                log.warning("the broker at %s answers again; %d messages wait", self._where, len(self._buffer))
        if mine:
            self._counters.add("sent")
            _tell(message.on_done, None)

    def _refused(self, message: Waiting, error: Exception) -> None:
        self._failed(message, error if isinstance(error, REFUSALS) else None, f"{message.topic}: {error}")

    def _failed(self, message: Waiting, final: Exception | None, why: str) -> None:
        """Give the message up where the failure is `final`, else line it up again in its old place."""
        with self._state:
            if final is None:
                self._buffer.back(message)
                mine = False
            else:
                mine = self._buffer.landed(message)
            self._state.notify_all()
        if final is None:
            self._counters.add("errors", 1, "produce")
            self._repeats.log(log, logging.WARNING, "again", f"{why}; trying again")
        elif mine:
            self._repeats.log(log, logging.ERROR, "refused", f"the broker will not take a message: {why}")
            self._drop(message.on_done, "refused", NotDelivered(why))

    def _drop(self, on_done: OnDone | None, reason: str, error: NotDelivered) -> None:
        self._counters.add("dropped", 1, reason)
        _tell(on_done, error)

    def _say_if_silent(self) -> None:
        now = time.monotonic()
        if not self._buffer.under_way:
            self._acknowledged_s = now
        elif not self._silent and now - self._acknowledged_s > SILENT_S:
            self._silent = True
            log.warning("the broker at %s does not answer; messages wait for it", self._where)


def _tell(on_done: OnDone | None, error: Exception | None) -> None:
    """A caller's mistake in there must not end the thread that delivers."""
    if on_done is not None:
        try:
            on_done(error)
        except Exception:
            log.exception("a callback of a sent message failed")


def _close(client: KafkaProducer) -> None:
    try:
        client.close(timeout=CLOSE_S)
    except KafkaError:  # batches that never got an answer: its close gives up on itself there
        client._sender.force_close()
        client._sender.join(CLOSE_S)
