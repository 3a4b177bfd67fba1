"""Topics on a real broker: created once, checked ever after, never changed behind an operator's back."""

import os
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from local_kafka import LocalKafka

from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import Offsets, Producer, create_topics, read_topic
from runtime.settings import Connection
from schemas.topics import DAY_MS, JOB_TOPICS, TOPICS

CHANGELOG = "lockstep-worker-node-changelog"

pytestmark = pytest.mark.kafka


def cleared(client: KafkaAdminClient) -> None:
    """Other tests of the session make our topics too, with other settings."""
    ours = {*TOPICS, CHANGELOG}
    if present := sorted(ours & set(client.list_topics())):
        client.delete_topics(present)
    deadline = time.monotonic() + 30
    while ours & set(client.list_topics()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def admin(own_kafka: LocalKafka) -> Iterator[KafkaAdminClient]:
    """A broker without any of our topics."""
    client = KafkaAdminClient(bootstrap_servers=own_kafka.address)
    cleared(client)
    yield client
    cleared(client)
    client.close()


@pytest.fixture
def connection(own_kafka: LocalKafka, admin: KafkaAdminClient) -> Connection:
    return Connection(broker=own_kafka.address)


def configured(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    found = admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")["topic"][topic]
    return {key: entry["value"] for key, entry in found.items()}


def test_topics_get_their_partitions_retention_and_compaction(connection: Connection, admin: KafkaAdminClient) -> None:
    lines = create_topics(connection, 3, 1, compacted=(CHANGELOG,))
    assert lines == [f"{name}: created, 3 partitions" for name in [*TOPICS, CHANGELOG]]
    assert {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics([*TOPICS, CHANGELOG])} == {
        name: 3 for name in [*TOPICS, CHANGELOG]
    }
    frames = configured(admin, "node-frames")
    assert frames["retention.ms"] == str(DAY_MS)
    assert frames["cleanup.policy"] == "delete"
    for compacted in ("inventory", CHANGELOG):
        assert configured(admin, compacted)["cleanup.policy"] == "compact"
    assert {configured(admin, name)["message.timestamp.type"] for name in TOPICS} == {"LogAppendTime"}


def test_creating_again_changes_nothing_and_fills_gaps(connection: Connection, admin: KafkaAdminClient) -> None:
    create_topics(connection, 3, 1)
    admin.delete_topics(["events"])
    deadline = time.monotonic() + 30
    while "events" in admin.list_topics():
        assert time.monotonic() < deadline
    lines = create_topics(connection, 3, 1)
    assert sorted(lines) == sorted(
        [f"{name}: exists, 3 partitions" for name in TOPICS if name != "events"] + ["events: created, 3 partitions"]
    )


def test_what_must_not_differ_is_one_error_and_nothing_is_created(
    connection: Connection, admin: KafkaAdminClient
) -> None:
    other = {"num_partitions": 2, "replication_factor": 1}
    admin.create_topics({JOB_TOPICS[0]: other, "models": other}, wait_for_metadata=True)
    with pytest.raises(UserError) as told:
        create_topics(connection, 3, 1)
    said = str(told.value)
    assert "\n" not in said
    assert f"{JOB_TOPICS[0]} has 2 partitions, not 3" in said
    assert "models has cleanup.policy=delete, not compact" in said
    assert set(admin.list_topics()) & set(TOPICS) == {JOB_TOPICS[0], "models"}


def test_another_retention_is_the_operators_choice_and_mentioned(
    connection: Connection, admin: KafkaAdminClient
) -> None:
    settings = {"retention.ms": "60000", "message.timestamp.type": "LogAppendTime"}
    admin.create_topics(
        {"steps": {"num_partitions": 3, "replication_factor": 1, "configs": settings}}, wait_for_metadata=True
    )
    assert f"steps: exists, 3 partitions, retention.ms=60000 instead of {DAY_MS}" in create_topics(connection, 3, 1)
    assert configured(admin, "steps")["retention.ms"] == "60000"


def test_more_copies_than_brokers_is_one_line(connection: Connection) -> None:
    with pytest.raises(UserError, match=r"did not create the topics: .*[Rr]eplication") as told:
        create_topics(connection, 3, 2)
    assert "\n" not in str(told.value)


def test_offsets_are_told_without_joining(connection: Connection) -> None:
    create_topics(connection, 3, 1)
    producer = Producer(connection, "test", Counters())
    for number in range(30):
        producer.send("events", str(number), os.urandom(400))
    assert producer.flush(30)
    producer.close(5)
    assert len(list(read_topic(connection, "events"))) == 30
    offsets = Offsets(connection)
    partitions = offsets.partitions(["events", "no-such-topic"])
    assert len(partitions) == 3
    ends = offsets.ends(partitions)
    assert sum(ends.values()) == 30
    assert set(offsets.starts(partitions).values()) == {0}
    assert offsets.committed("nobody", partitions) == {}
    assert 400 < offsets.message_bytes(ends)["events"] < 450  # random bytes do not compress
    offsets.close()
