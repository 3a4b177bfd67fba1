"""The writer's loop: poll, decode, insert, bury what is bad, commit. Commit comes last.

An offset is committed only when every row of its message is durable and every dead letter is acknowledged. A death at
any point means that messages come again; their rows replace themselves.

A batch is stored by a second thread while this one gathers the next; never two at a time, and never the next one before
the first is durable and committed. So while ClickHouse is away nothing is committed, and one batch waits beside the
one that cannot be stored: nothing more is taken.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from runtime.clock import Clock
from runtime.deadletters import TooManyBadMessages, dead_letter
from runtime.errors import BrokerLostRecords
from runtime.health import Counters, HealthReporter
from runtime.log import Repeats
from schemas.codec import encode
from schemas.record import Record
from storage.batch import Bad, Batch, Brakes, Message
from storage.insert import Away, Inserts
from storage.storing import Storing

PROCESS = "writer"
log = logging.getLogger("lockstep.writer")

LOOK_S = 0.5
"""Between two looks, in a wait, at whether health is due or the place in the group needs a poll."""

STORED_S = 0.1
"""A poll is no longer than this while a batch is being stored: a silent topic must not hold up its commit, for which
producers on the embedded broker wait."""

T = TypeVar("T")


class Limits(NamedTuple):
    """How much goes into a batch, and how patiently it is stored.

    ClickHouse wants few large inserts, about one per table and second (five times the rows cost its processor two
    fifths less a row); a reader wants rows within seconds. Bytes bound the writer's memory (decoded records and columns
    take several times as much, and two batches are in it). A poll takes all that has been fetched: what is left of a
    partition keeps it out of the next fetch. Who waits longer than `keep_place_s` polls one message, because Kafka
    takes a silent reader's partitions away (after five minutes).
    """

    batch_rows: int = 100_000
    batch_s: float = 2.0
    batch_bytes: int = 32 * 1024 * 1024
    poll_messages: int = 20_000
    retry_s: float = 0.5
    retry_longest_s: float = 30.0
    flush_s: float = 30.0
    keep_place_s: float = 60.0
    health_s: float = 10.0


class Consumer(Protocol):
    """Where messages come from. `commit` commits what had been polled when `position` was asked for."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Message]: ...
    def position(self) -> Any: ...
    def commit(self, position: Any) -> None: ...


class Producer(Protocol):
    """Where dead letters and health records go."""

    def send(
        self, topic: str, key: str, value: bytes, on_done: Callable[[Exception | None], None] | None = None
    ) -> None: ...
    def flush(self, timeout_s: float) -> bool: ...


class _Stopped(Exception):
    """Asked to stop while something could not be made durable: leave without a commit."""


class Writer:
    """Moves messages into ClickHouse, batch by batch."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        client: Inserts,
        cluster: str,
        health: HealthReporter,
        counters: Counters,
        clock: Clock,
        limits: Limits | None = None,
    ) -> None:
        self._consumer, self._producer, self._client = consumer, producer, client
        self._cluster, self._health, self._counters = cluster, health, counters
        self._clock, self._limits = clock, limits or Limits()
        self._brakes = Brakes()
        self._repeats = Repeats(now=clock.monotonic)
        self._next_health = clock.monotonic()
        self._next_poll = clock.monotonic()
        self._held: list[Message] = []
        self._storing: Storing | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._newest_tick_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Until `stop`; raises UserError where a person is needed (brake, missing table, refused user)."""
        try:
            while not stop.is_set():
                self.turn(stop)
            self.settle(stop)
        except _Stopped:
            log.info("stopped before everything was stored: the rest is read again")
        except BrokerLostRecords:
            self._report("records lost")
            raise
        finally:
            self._thread.shutdown()
        self._report()

    def turn(self, stop: threading.Event) -> int:
        """Gather a batch while the one before it is stored, settle that one, hand this one on; returns the number of
        messages gathered."""
        self._report_when_due()
        try:
            batch = self._gather(stop)
        except TooManyBadMessages:
            self.settle(stop)
            raise
        self.settle(stop)
        if batch.messages:
            self._storing = Storing(self._client, self._thread, batch)
        else:
            self._counters.gauge("lag_s", 0.0)
        return batch.messages

    def settle(self, stop: threading.Event) -> None:
        """What is being stored becomes durable and is committed, or _Stopped."""
        storing = self._storing
        if storing is None:
            return
        self._insist(partial(self._stored, storing), stop)
        self._storing, batch = None, storing.batch
        self._take_stock(storing)
        self._bury(batch.bad, stop)
        self._consumer.commit(batch.position)
        self._newest_tick_ms = max(self._newest_tick_ms, batch.newest_tick_ms)
        self._counters.gauge("lag_s", max(0, self._clock.now_ms() - batch.newest_sent_ms) / 1000)

    def _gather(self, stop: threading.Event) -> Batch:
        batch, limits = Batch(), self._limits
        until = self._clock.monotonic() + limits.batch_s
        self._next_poll = self._clock.monotonic() + limits.keep_place_s
        while batch.rows < limits.batch_rows and batch.bytes < limits.batch_bytes and not stop.is_set():
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                break
            self._take(batch)
            patience_s = left_s if self._storing is None else min(left_s, STORED_S)
            for message in self._consumer.poll(min(limits.poll_messages, limits.batch_rows), patience_s):
                batch.add(message, self._brakes)
            if self._storing is not None and self._storing.done():
                self.settle(stop)
        self._take(batch)
        batch.position = self._consumer.position()
        return batch

    def _take(self, batch: Batch) -> None:
        """Messages that were polled in a wait."""
        held, self._held = self._held, []
        for message in held:
            batch.add(message, self._brakes)

    def _stored(self, storing: Storing) -> None:
        storing.begin()
        while not storing.ended(LOOK_S):
            self._keep_place()
            self._report_when_due()
        storing.outcome()

    def _take_stock(self, storing: Storing) -> None:
        for name, rows in storing.rows.items():
            self._counters.add("sent", rows, name)
        for name, count in storing.unknown.items():
            self._ignored(name, count)
        for bad in storing.unfit:
            storing.batch.refuse(bad, self._brakes)

    def _bury(self, bad: Sequence[Bad], stop: threading.Event) -> None:
        left = list(bad)

        def attempt() -> None:
            failed: list[Bad] = []
            for one in left:
                self._send_letter(one, failed)
            flushed = self._producer.flush(self._limits.flush_s)
            left[:] = failed if flushed else left
            if left:
                raise Away("dead_letters", f"{len(left)} dead letters were not acknowledged")

        if left:
            self._insist(attempt, stop)
        for one in bad:
            self._counters.add("dropped", label=one.reason)

    def _send_letter(self, bad: Bad, failed: list[Bad]) -> None:
        message = bad.message
        origin = (message.topic, message.partition, message.offset)
        # The message's own time: the same letter, however often the message is read.
        when = max(0, message.timestamp_ms)
        letter = dead_letter(self._cluster, PROCESS, origin, bad.reason, bad.detail, message.value, when)

        def done(error: Exception | None) -> None:
            if error is not None:
                failed.append(bad)

        self._producer.send(letter.topic, letter.key, encode(letter), done)

    def _insist(self, attempt: Callable[[], T], stop: threading.Event) -> T:
        """The outcome of `attempt`, however long the other side is away; _Stopped where `stop` came first."""
        delay_s = self._limits.retry_s
        while True:
            try:
                return attempt()
            except Away as error:
                self._counters.add("errors", label=error.code)
                self._repeats.log(log, logging.WARNING, error.code, f"waiting, nothing is committed or lost: {error}")
            self._wait(delay_s, stop)
            if stop.is_set():
                raise _Stopped
            delay_s = min(2 * delay_s, self._limits.retry_longest_s)

    def _wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait without losing the place in the group; health goes on."""
        until = self._clock.monotonic() + seconds
        while not stop.is_set() and (left_s := until - self._clock.monotonic()) > 0:
            self._keep_place()
            self._report_when_due()
            self._clock.sleep(min(left_s, LOOK_S))

    def _keep_place(self) -> None:
        if self._clock.monotonic() >= self._next_poll:
            self._next_poll = self._clock.monotonic() + self._limits.keep_place_s
            self._held += self._consumer.poll(1, 0.0)

    def _ignored(self, name: str, count: int) -> None:
        self._counters.add("dropped", count, "unknown_column")
        self._repeats.log(log, logging.INFO, name, f"{name} has no column here: migrate and upgrade the writer")

    def _report_when_due(self) -> None:
        if self._clock.monotonic() >= self._next_health:
            self._report()

    def _report(self, note: str = "") -> None:
        self._next_health = self._clock.monotonic() + self._limits.health_s
        if self._newest_tick_ms:
            self._counters.gauge("age_s", max(0, self._clock.now_ms() - self._newest_tick_ms) / 1000)
        record: Record = self._health.record(note)
        self._producer.send(record.topic, record.key, encode(record))
