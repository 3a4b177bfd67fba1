"""Producers wait for readers where the broker forgets: the embedded one keeps 5 MB a partition and says nothing."""

import threading
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from runtime.clock import Clock, SystemClock
from runtime.kafka.offsets import Offsets, Partition
from runtime.settings import Connection

SOFT_BYTES = 2_000_000
HARD_BYTES = 4_000_000
"""Of the 5,242,880 that a partition keeps; the rest is for what other producers send between two looks."""

LOOK_S = 0.1
STILL_S = 2.0
WEIGH_S = 1.0
WEIGH_MESSAGES = 20
"""A topic's newest messages are weighed anew when so many more are unread, or after a second."""

UNKNOWN_BYTES = 20_000.0
"""What a message is taken to weigh where the broker did not show one in time."""


class Unread(NamedTuple):
    """What `group` has still to read of a partition; `size` in bytes as the broker keeps them, compressed."""

    group: str
    partition: Partition
    messages: int
    size: float

    def __str__(self) -> str:
        where = f"{self.partition.topic}/{self.partition.number}"
        return f"{self.group} has {self.messages} messages ({self.size / 1e6:.1f} MB) of {where} to read"


class _Weight(NamedTuple):
    size: float
    messages: int
    when_s: float


class Source(Protocol):
    """Where offsets come from: runtime.kafka.Offsets, or a fake."""

    def partitions(self, topics: list[str]) -> list[Partition]: ...
    def ends(self, partitions: list[Partition]) -> dict[Partition, int]: ...
    def committed(self, group: str, partitions: list[Partition]) -> dict[Partition, int]: ...
    def message_bytes(self, ends: Mapping[Partition, int]) -> dict[str, float]: ...
    def close(self) -> None: ...


class EmbeddedPacer:
    """Says when more may be sent. Call `wait` before each batch of at most about 1 MB a partition (a tick of a fleet).

    `groups` are the readers that run, with the topics each reads: only they are waited for, from their first message
    on, whether they have committed yet or not. A reader that is not started must not be named, or nothing is ever
    sent; one that has stopped for good holds the producer, which is the point.

    Above 2 MB unread in a partition the producer waits while readers move on. Readers that hold messages back until
    later ones arrive (a tick waits for all its nodes) do not move on by themselves: where nothing has been committed
    for 2 s more may be sent, up to 4 MB. On any broker but the embedded one nothing waits.
    """

    def __init__(
        self,
        connection: Connection,
        groups: Mapping[str, tuple[str, ...]],
        *,
        source: Source | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._groups = dict(groups)
        self._clock = clock or SystemClock()
        self._source: Source | None = source
        if source is None and connection.broker_embedded and groups:
            self._source = Offsets(connection)
        self._partitions: list[Partition] = []
        self._weights: dict[str, _Weight] = {}
        self._moved_s = self._clock.monotonic()
        self._committed: dict[tuple[str, Partition], int] = {}
        self.fullest: Unread | None = None
        """Who is furthest behind, as of the last look."""

    def wait(self, timeout_s: float, stop: threading.Event | None = None) -> bool:
        """True as soon as more may be sent; False after `timeout_s` or once `stop` is set (`fullest` says who)."""
        deadline = self._clock.monotonic() + timeout_s
        while not self._may_send():
            if self._clock.monotonic() >= deadline or (stop is not None and stop.is_set()):
                return False
            self._clock.sleep(LOOK_S)
        return True

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _may_send(self) -> bool:
        if self._source is None:
            return True
        self.fullest = max(self._look(self._source), key=lambda unread: unread.size, default=None)
        if self.fullest is None or self.fullest.size <= SOFT_BYTES:
            return True
        return self.fullest.size <= HARD_BYTES and self._clock.monotonic() - self._moved_s >= STILL_S

    def _look(self, source: Source) -> list[Unread]:
        if not self._partitions:
            self._partitions = source.partitions(sorted({topic for read in self._groups.values() for topic in read}))
        committed: dict[tuple[str, Partition], int] = {}
        for group, read in self._groups.items():
            mine = [partition for partition in self._partitions if partition.topic in read]
            found = source.committed(group, mine)
            committed.update(((group, partition), found.get(partition, 0)) for partition in mine)
        now = self._clock.monotonic()
        if committed != self._committed:
            self._committed, self._moved_s = committed, now
        ends = source.ends(self._partitions)
        left = {key: ends[key[1]] - position for key, position in committed.items() if ends[key[1]] > position}
        self._weigh(source, ends, left, now)
        return [
            Unread(group, partition, messages, messages * self._weights[partition.topic].size)
            for (group, partition), messages in left.items()
        ]

    def _weigh(
        self, source: Source, ends: dict[Partition, int], left: dict[tuple[str, Partition], int], now: float
    ) -> None:
        """Look at the newest messages of the fullest partition of each topic that has grown."""
        most: dict[str, tuple[int, Partition]] = {}
        for (_, partition), messages in left.items():
            most[partition.topic] = max(most.get(partition.topic, (0, partition)), (messages, partition))
        due = {}
        for topic, (messages, partition) in most.items():
            known = self._weights.get(topic)
            if known is None or messages >= known.messages + WEIGH_MESSAGES or now - known.when_s >= WEIGH_S:
                due[partition] = ends[partition]
        sizes = source.message_bytes(due) if due else {}
        for topic in {partition.topic for partition in due}:
            known = self._weights.get(topic)
            size = sizes.get(topic, known.size if known is not None else UNKNOWN_BYTES)
            self._weights[topic] = _Weight(size, most[topic][0], now)
