"""Reading: what was polled is committed when the caller says so; a gap in offsets never passes unseen."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from runtime.errors import BrokerLostRecords, BrokerUnreachable, UserError
from runtime.health import Counters
from runtime.kafka.client import Message, all_partitions, connected, session_s
from runtime.settings import Connection
from schemas.topics import TOPICS

log = logging.getLogger("lockstep.kafka")

COMMIT_S = 30.0
MOVED = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""The partitions went to another member before the commit: it reads them again from the last one."""


class Position(NamedTuple):
    """How far a consumer has polled, for a later `commit`. `lost` says which records were missing up to here."""

    ends: dict[TopicPartition, OffsetAndMetadata]
    lost: str


class Consumer:
    """Reads `topics` for a `group`, from its last commit, or where there is none from the oldest record kept (the end
    with `from_start` False). Without a group it reads every partition and keeps no position.

    `instance_id` is the slot of this process in its group: a successor with the same one takes over at once after a
    kill, without a rebalance; never run two at a time with the same. Use from one thread, and poll at least every
    five minutes. Whoever has much to catch up with polls all that was fetched at once (`max_records` of thousands): a
    partition of which something is left over is not asked for again yet, and the question about the others alone may
    wait half a second for records that they do not have. Raises BrokerUnreachable where no broker is there.

    Records deleted before they were read are counted as dropped{retention} and logged. On the embedded broker, where
    only too fast a producer does that, they also raise BrokerLostRecords: from the `commit` that puts the position
    behind them, so that what was polled is not lost too and a restart goes on (without a group, from `poll`).
    """

    def __init__(
        self,
        connection: Connection,
        group: str | None,
        topics: Iterable[str],
        instance_id: str | None,
        *,
        from_start: bool = True,
        counters: Counters | None = None,
        session_timeout_s: float | None = None,
    ) -> None:
        self._connection, self._group, self._topics = connection, group, tuple(topics)
        self._counters = counters or Counters()
        session_ms = int(1000 * (session_timeout_s or session_s(connection)))
        self._client: KafkaConsumer = connected(
            connection,
            KafkaConsumer,
            client_id=f"{group or 'reader'}-{instance_id or 'any'}",
            group_id=group,
            group_instance_id=instance_id if group and not connection.broker_embedded else None,
            auto_offset_reset="earliest" if from_start else "latest",
            enable_auto_commit=False,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            fetch_max_bytes=4 << 20,
            request_timeout_ms=20_000,
            metadata_max_age_ms=30_000,
            bootstrap_timeout_ms=10_000,
            metrics_enabled=False,
        )
        self._next: dict[TopicPartition, OffsetAndMetadata] = {}
        self._lost = ""
        if group is None:
            self._assign_all()
        else:
            self._client.subscribe(self._topics, listener=_Forget(self._next))
            if connection.broker_embedded:
                # Or the first join would share out the partitions of topics it knows nothing of, and a join takes 4 s.
                for topic in self._topics:
                    self._client.partitions_for_topic(topic)

    def poll(self, max_records: int, timeout_s: float) -> list[Message]:
        """At most `max_records` messages, in order within each partition; none after `timeout_s`."""
        # kafka-python 3.0.12 takes a join that a change of topics led to for done once its leader has shared out the
        # partitions: a poll that ends before the answer to that comes would leave it without any, for ever.
        coordinator = self._client._coordinator
        coordinator.rejoin_needed |= coordinator.rejoining
        try:
            polled = self._client.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except KafkaError as error:
            raise self._told(error) from None
        for partition, records in polled.items():
            self._check(partition, records)
        messages = [
            Message(partition.topic, partition.partition, r.offset, r.key, r.value or b"", r.timestamp)
            for partition, records in polled.items()
            for r in records
        ]
        self._counters.add("received", len(messages))
        return messages

    def position(self) -> Position:
        """What has been polled so far, for a `commit` after more has been polled."""
        lost, self._lost = self._lost, ""
        return Position(dict(self._next), lost)

    def commit(self, position: Position | None = None) -> None:
        """What was polled up to `position`, or so far, need not be read again. Returns when the broker has it.

        Where partitions have moved to another member meanwhile their commit is void and they are read again there:
        counted as errors{commit}, no exception. Raises BrokerUnreachable after 30 s without an answer, and after the
        commit BrokerLostRecords where what it commits has a gap.
        """
        ends = None if position is None else self._still_here(position)
        try:
            if ends is None or ends:
                self._client.commit(ends, timeout_ms=COMMIT_S * 1000)
        except MOVED as error:
            self._counters.add("errors", 1, "commit")
            log.warning("%s: a commit came too late, some messages will be read again (%s)", self._group, error)
            return
        except KafkaError as error:
            raise self._told(error) from None
        lost = self.position().lost if position is None else position.lost
        if lost:
            raise BrokerLostRecords(lost)

    def assigned(self) -> set[tuple[str, int]]:
        """The partitions this consumer has now."""
        return {(partition.topic, partition.partition) for partition in self._client.assignment()}

    def to_the_end(self) -> Iterator[Message]:
        """Everything up to what is the end now, for a consumer without a group."""
        left = self._client.end_offsets(list(self._client.assignment()))
        while left := {partition: end for partition, end in left.items() if self._client.position(partition) < end}:
            yield from self.poll(1000, 1.0)

    def close(self) -> None:
        """Stop reading; nothing is committed. A member with an instance id stays in the group for its successor."""
        self._client.close(autocommit=False, timeout_ms=5000)

    def _assign_all(self) -> None:
        found = all_partitions(self._connection, self._client, self._topics)
        missing = sorted(set(self._topics) - {partition.topic for partition in found})
        if missing:
            self.close()
            raise UserError(f"no topic {', '.join(missing)} at {self._connection.broker}: run `lockstep topics create`")
        self._client.assign(found)

    def _still_here(self, position: Position) -> dict[TopicPartition, OffsetAndMetadata]:
        """Without what has gone to another member since, or has come back and is read again."""
        here = self._next
        return {p: end for p, end in position.ends.items() if p in here and here[p].offset >= end.offset}

    def _check(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        before, last = self._next.get(partition), records[-1]
        expected = None if before is None else before.offset
        if before is None and self._group is not None:
            expected = self._client.committed(partition, timeout_ms=COMMIT_S * 1000)
        self._next[partition] = OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)
        lost = 0
        for record in records:
            if expected is not None and record.offset > expected:
                lost += record.offset - expected
            expected = record.offset + 1
        topic = TOPICS.get(partition.topic)
        if not lost or (topic is not None and topic.retention_ms is None):
            return  # compaction leaves gaps on purpose
        what = f"{lost} records of {partition.topic}/{partition.partition} were deleted before {self._group} read them"
        self._counters.add("dropped", lost, "retention")
        if not self._connection.broker_embedded:
            log.error("%s: its retention is too short for so long a pause", what)
            return
        self._lost = f"{what}: the embedded broker is full; go slower, or use a real Kafka"
        log.error("%s", self._lost)
        if self._group is None:
            raise BrokerLostRecords(self._lost)

    def _told(self, error: KafkaError) -> UserError:
        if isinstance(error, FencedInstanceIdError):
            return UserError(
                f"another process of {self._group} runs in the same slot ({self._client.config['group_instance_id']}); "
                "give this one a slot of its own"
            )
        return BrokerUnreachable(f"{self._group} lost the broker at {self._connection.broker}: {error}")


class _Forget(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Positions of partitions that went to another member mean nothing any more."""

    def __init__(self, positions: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._positions = positions

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        for partition in revoked:
            self._positions.pop(partition, None)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        for partition in assigned:
            self._positions.pop(partition, None)


def read_topic(connection: Connection, topic: str) -> Iterator[Message]:
    """Everything that is on `topic` now, oldest first within each partition; UserError where there is no such topic."""
    consumer = Consumer(connection, None, (topic,), None)
    try:
        yield from consumer.to_the_end()
    finally:
        consumer.close()
