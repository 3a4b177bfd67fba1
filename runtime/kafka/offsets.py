"""How far a topic reaches and how far groups have read, without joining any."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec

from runtime.kafka.client import connected
from runtime.settings import Connection


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


class Offsets:
    """Asks the broker about offsets; serves the embedded one too. Use from one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin: KafkaAdminClient = connected(connection, KafkaAdminClient, bootstrap_timeout_ms=10_000)
        self._reader: KafkaConsumer | None = None

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """Every partition of those `topics` that exist (on the embedded broker asking makes them)."""
        described = self._admin.describe_topics(sorted(topics))
        return [
            Partition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        ]

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition the offset that its next message will get."""
        return self._list(partitions, OffsetSpec.LATEST)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition the offset of the oldest message kept."""
        return self._list(partitions, OffsetSpec.EARLIEST)

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Per partition where `group` goes on; partitions it never committed are absent."""
        asked = [TopicPartition(*partition) for partition in partitions]
        found = self._admin.list_group_offsets({group: asked}).get(group, {})
        return {Partition(p.topic, p.partition): o.offset for p, o in found.items() if o.offset >= 0}

    def message_bytes(self, ends: Mapping[Partition, int], newest: int = 5) -> dict[str, int]:
        """Per topic the size of the largest of the `newest` messages of these partitions, keys included.

        Topics whose messages did not come within a second are absent.
        """
        if self._reader is None:
            self._reader = connected(
                self._connection, KafkaConsumer, group_id=None, enable_auto_commit=False, metrics_enabled=False
            )
        wanted = {TopicPartition(*partition): end for partition, end in ends.items() if end > 0}
        largest: dict[str, int] = {}
        if not wanted:
            return largest
        self._reader.assign(list(wanted))
        for partition, end in wanted.items():
            self._reader.seek(partition, max(0, end - newest))
        for _ in range(10):
            for partition, records in self._reader.poll(timeout_ms=100).items():
                size = max(len(r.key or b"") + len(r.value or b"") for r in records)
                largest[partition.topic] = max(largest.get(partition.topic, 0), size)
            if len(largest) == len({partition.topic for partition in wanted}):
                break
        return largest

    def close(self) -> None:
        self._admin.close()
        if self._reader is not None:
            self._reader.close(autocommit=False)

    def _list(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        asked = {TopicPartition(*partition): spec for partition in partitions}
        found = self._admin.list_partition_offsets(asked) if asked else {}
        return {Partition(p.topic, p.partition): o.offset for p, o in found.items()}
