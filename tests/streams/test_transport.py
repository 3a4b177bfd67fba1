"""Events that were fetched too early come again."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import aiokafka
import pytest
from aiokafka import TopicPartition

from runtime.health import Counters
from runtime.kafka import Producer
from runtime.settings import Connection
from streams.transport import Only, seek_to_committed

pytestmark = pytest.mark.kafka


class Fetched(NamedTuple):
    """Offsets: fetched at once, with no partition active, after aiokafka's own seek, after ours."""

    early: list[int]
    inactive: list[int]
    theirs: list[int]
    ours: list[int]


async def _fetch(broker: Connection, topic: str, group: str, commit: int | None) -> Fetched:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.broker, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    partition = TopicPartition(topic, 0)

    async def fetched(active: set[TopicPartition], timeout_s: float) -> list[int]:
        records = await consumer._fetcher.fetched_records(Only(active), timeout=timeout_s)
        return [record.offset for record in records.get(partition, [])]

    await consumer.start()
    try:
        consumer.assign([partition])
        if commit is not None:
            await consumer.commit({partition: commit})
        inactive = await fetched(set(), 1.0)
        early = await fetched({partition}, 20.0)
        await consumer.seek_to_committed()
        theirs = await fetched({partition}, 1.0)
        await seek_to_committed(consumer)
        return Fetched(early, inactive, theirs, await fetched({partition}, 20.0))
    finally:
        await consumer.stop()


@pytest.mark.parametrize("commit", [None, 0, 2])
def test_events_fetched_before_the_seek_come_again(
    kafka: Connection, new_topic: Callable[..., str], unique: Callable[[str], str], commit: int | None
) -> None:
    """aiokafka leaves them out where the group is at the start; if that changes, ours is not needed any longer."""
    topic = new_topic(kafka, partitions=1)
    producer = Producer(kafka, "test", Counters())
    for number in range(5):
        producer.send(topic, "key", str(number).encode())
    assert producer.flush(20)
    producer.close(5)
    fetched = asyncio.run(_fetch(kafka, topic, unique("early"), commit))
    assert fetched.inactive == [], "none is none"
    assert fetched.early == list(range(commit or 0, 5))
    assert fetched.ours == fetched.early
    assert bool(fetched.theirs) == bool(commit)
