"""The writer's loop: poll, decode, insert, bury what is bad, commit. Commit comes last.

An offset is committed only when every row of its message is durable and every dead letter is acknowledged. A death at
any point means that messages come again; their rows replace themselves. While ClickHouse is away nothing is
committed and nothing more is taken.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from runtime.clock import Clock
from runtime.deadletters import dead_letter
from runtime.errors import BrokerLostRecords
from runtime.health import Counters, HealthReporter
from runtime.log import Repeats
from schemas.codec import encode
from schemas.record import Record
from storage.batch import Bad, Batch, Brakes, Message
from storage.insert import Away, Inserts, insert
from storage.native import Packed
from storage.tables import BY_RECORD

PROCESS = "writer"
log = logging.getLogger("lockstep.writer")

T = TypeVar("T")


class Limits(NamedTuple):
    """How much goes into a batch, and how patiently it is stored.

    ClickHouse wants few large inserts, about one per table and second (five times the rows cost its processor two
    fifths less a row); a reader wants rows within seconds. Bytes bound the writer's memory (decoded records and columns
    take several times as much). Who waits longer than
    `keep_place_s` polls one message, because Kafka takes a silent reader's partitions away (after five minutes).
    """

    batch_rows: int = 100_000
    batch_s: float = 2.0
    batch_bytes: int = 32 * 1024 * 1024
    poll_messages: int = 500
    retry_s: float = 0.5
    retry_longest_s: float = 30.0
    flush_s: float = 30.0
    keep_place_s: float = 60.0
    health_s: float = 10.0


class Consumer(Protocol):
    """Where messages come from. `commit` commits everything polled."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Message]: ...
    def commit(self) -> None: ...


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
        self._newest_tick_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Until `stop`; raises UserError where a person is needed (brake, missing table, refused user)."""
        try:
            while not stop.is_set():
                self.turn(stop)
        except BrokerLostRecords:
            self._report("records lost")
            raise
        self._report()

    def turn(self, stop: threading.Event) -> int:
        """One batch, from poll to commit; returns the number of messages committed."""
        self._report_when_due()
        batch = self._gather(stop)
        if not batch.messages:
            self._counters.gauge("lag_s", 0.0)
            return 0
        try:
            self._settle(batch, stop)
            while self._held:
                self._settle(self._held_back(), stop)
        except _Stopped:
            return 0
        self._consumer.commit()
        self._newest_tick_ms = max(self._newest_tick_ms, batch.newest_tick_ms)
        self._counters.gauge("lag_s", max(0, self._clock.now_ms() - batch.newest_sent_ms) / 1000)
        return batch.messages

    def _gather(self, stop: threading.Event) -> Batch:
        batch, limits = Batch(), self._limits
        until = self._clock.monotonic() + limits.batch_s
        self._next_poll = self._clock.monotonic() + limits.keep_place_s
        while batch.rows < limits.batch_rows and batch.bytes < limits.batch_bytes and not stop.is_set():
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                break
            for message in self._consumer.poll(limits.poll_messages, left_s):
                batch.add(message, self._brakes)
        return batch

    def _held_back(self) -> Batch:
        batch, held = Batch(), self._held
        self._held = []
        for message in held:
            batch.add(message, self._brakes)
        return batch

    def _settle(self, batch: Batch, stop: threading.Event) -> None:
        """Everything of the batch durable, or _Stopped."""
        for name, count in batch.unknown.items():
            self._ignored(name, count)
        self._store(batch, stop)
        self._bury(batch.bad, stop)

    def _store(self, batch: Batch, stop: threading.Event) -> None:
        for record, taken in batch.taken.items():
            known: dict[str, Packed] = {}
            for table in BY_RECORD[record]:
                stored = self._insist(partial(insert, self._client, table, taken, known), stop)
                self._counters.add("sent", stored.rows, table.name)
                for name, count in stored.unknown.items():
                    self._ignored(name, count)
                for one, why in stored.unfit:
                    batch.refuse(Bad(one.message, "unfit", why), self._brakes)

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
            if self._clock.monotonic() >= self._next_poll:
                self._next_poll = self._clock.monotonic() + self._limits.keep_place_s
                self._held += self._consumer.poll(1, 0.0)
            self._report_when_due()
            self._clock.sleep(min(left_s, 0.5))

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
