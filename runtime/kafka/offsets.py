"""How far a topic reaches and how far groups have read, without joining any."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import lz4.frame
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import RetriableError

from runtime.errors import BrokerUnreachable
from runtime.kafka.client import all_partitions, connected
from runtime.settings import Connection

COORDINATOR_S = 15.0
"""A broker that was never asked about a group makes its topic for offsets first."""


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


Found = dict[Partition, int]


class Offsets:
    """Asks the broker about offsets; serves the embedded one too. Use from one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin: KafkaAdminClient = connected(connection, KafkaAdminClient, bootstrap_timeout_ms=10_000)
        self._reader: KafkaConsumer = connected(
            connection,
            KafkaConsumer,
            group_id=None,
            enable_auto_commit=False,
            max_partition_fetch_bytes=64 << 10,
            metrics_enabled=False,
        )

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """Every partition of those `topics` that exist (on the embedded broker asking makes them)."""
        found = all_partitions(self._connection, self._reader, sorted(topics))
        return [Partition(partition.topic, partition.partition) for partition in found]

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition the offset that its next message will get."""
        return self._listed(self._reader.end_offsets, partitions)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition the offset of the oldest message kept."""
        return self._listed(self._reader.beginning_offsets, partitions)

    def _listed(self, ask: Callable[..., Mapping[TopicPartition, int]], partitions: Iterable[Partition]) -> Found:
        asked = [TopicPartition(*partition) for partition in partitions]
        deadline = time.monotonic() + COORDINATOR_S
        while True:
            try:
                return _ours(ask(asked))
            except KeyError:
                # kafka-python 3.0.12 answers so while it does not know the leader of a topic just made.
                if time.monotonic() > deadline:
                    raise BrokerUnreachable(f"no offsets of {asked[0].topic} at {self._connection.broker}") from None
            time.sleep(0.1)

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition where `group` goes on; partitions it never committed are absent."""
        asked = [TopicPartition(*partition) for partition in partitions]
        deadline = time.monotonic() + COORDINATOR_S
        while True:
            try:
                found = self._admin.list_group_offsets({group: asked}).get(group, {})
                break
            except RetriableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        return {Partition(p.topic, p.partition): o.offset for p, o in found.items() if o.offset >= 0}

    def message_bytes(self, ends: Mapping[Partition, int], newest: int = 3) -> dict[str, float]:
        """Per topic the mean size of the `newest` messages of each of these partitions, as a broker keeps them.

        Every producer of ours compresses with lz4: each message is compressed by itself here, which is never less
        than its part of a batch. Topics whose messages did not come within a second are absent.
        """
        wanted = {TopicPartition(*partition): end for partition, end in ends.items() if end > 0}
        if not wanted:
            return {}
        self._reader.assign(list(wanted))
        for partition, end in wanted.items():
            self._reader.seek(partition, max(0, end - newest))
        sizes: dict[str, list[int]] = {}
        for _ in range(10):
            for partition, records in self._reader.poll(timeout_ms=100).items():
                sizes.setdefault(partition.topic, []).extend(_kept(r.key, r.value) for r in records)
            if len(sizes) == len({partition.topic for partition in wanted}):
                break
        return {topic: sum(seen) / len(seen) for topic, seen in sizes.items()}

    def close(self) -> None:
        self._admin.close()
        self._reader.close(autocommit=False)


def _kept(key: bytes | None, value: bytes | None) -> int:
    return len(lz4.frame.compress((key or b"") + (value or b"")))


def _ours(found: Mapping[TopicPartition, int]) -> dict[Partition, int]:
    return {Partition(partition.topic, partition.partition): offset for partition, offset in found.items()}
