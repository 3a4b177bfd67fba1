"""The Kafka client against a real broker and the embedded one: what holds on one holds on the other."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from aiokafka.partitioner import murmur2

from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import (
    MAX_MESSAGE_BYTES,
    Consumer,
    Message,
    NotDelivered,
    Offsets,
    Partition,
    Producer,
    read_topic,
    wait_for_broker,
)
from runtime.settings import Connection

DEADLINE_S = 30.0

NewTopic = Callable[..., str]
Unique = Callable[[str], str]


def read(consumer: Consumer, count: int, max_records: int = 500) -> list[Message]:
    """`count` messages, or what came within the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    messages: list[Message] = []
    while len(messages) < count and time.monotonic() < deadline:
        messages += consumer.poll(min(max_records, count - len(messages)), 0.5)
    return messages


def write(connection: Connection, topic: str, values: list[bytes], keys: Callable[[int], str] = str) -> Counters:
    counters = Counters()
    producer = Producer(connection, "test", counters)
    for number, value in enumerate(values):
        producer.send(topic, keys(number), value)
    assert producer.flush(DEADLINE_S)
    producer.close(5)
    return counters


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_what_is_sent_is_read_in_order_for_each_key(broker: Connection, new_topic: NewTopic, unique: Unique) -> None:
    topic = new_topic(broker)
    counters = write(broker, topic, numbered(1000), keys=lambda n: f"node-{n % 10}")
    assert counters.totals() == {"sent": 1000}

    received = Counters()
    consumer = Consumer(broker, unique("group"), (topic,), "slot-0", counters=received)
    messages = read(consumer, 1000)
    assert len(consumer.assigned()) == 4
    consumer.close()

    assert received.totals() == {"received": 1000}
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for message in messages:
        by_key[message.key].append(int(message.value))
    assert {key: sorted(ns) for key, ns in by_key.items()} == by_key
    assert sum(len(ns) for ns in by_key.values()) == 1000
    assert abs(messages[0].timestamp_ms / 1000 - time.time()) < 600


def test_a_key_goes_to_the_partition_that_faust_expects(broker: Connection, new_topic: NewTopic) -> None:
    topic = new_topic(broker)
    keys = ["node-01", "job/17", "ä-ö", "", "x" * 300]
    write(broker, topic, numbered(len(keys)), keys=lambda n: keys[n])
    found = {message.key: message.partition for message in read_topic(broker, topic)}
    assert found == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % 4 for key in keys}


def test_a_restarted_consumer_resumes_at_its_commit(broker: Connection, new_topic: NewTopic, unique: Unique) -> None:
    topic, group = new_topic(broker), unique("group")
    write(broker, topic, numbered(100))
    consumer = Consumer(broker, group, (topic,), "slot-0")
    before = read(consumer, 40)
    consumer.commit()
    lost = read(consumer, 10)
    assert len(lost) == 10  # read, but not committed
    consumer.close()

    consumer = Consumer(broker, group, (topic,), "slot-0")
    after = read(consumer, 60)
    consumer.commit()
    assert consumer.poll(10, 0.5) == []
    consumer.close()
    assert Counter(m.value for m in before + after) == Counter(numbered(100))


@pytest.mark.kafka
def test_what_is_polled_after_a_position_was_taken_is_not_committed_with_it(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    topic, group = new_topic(kafka), unique("group")
    write(kafka, topic, numbered(100))
    consumer = Consumer(kafka, group, (topic,), "slot-0")
    before = read(consumer, 40)
    position = consumer.position()
    assert len(read(consumer, 50)) == 50
    consumer.commit(position)
    consumer.close()

    consumer = Consumer(kafka, group, (topic,), "slot-0")
    after = read(consumer, 60)
    consumer.close()
    assert Counter(m.value for m in before + after) == Counter(numbered(100))


def test_a_message_of_a_million_bytes_arrives_and_a_larger_one_is_refused(
    broker: Connection, new_topic: NewTopic
) -> None:
    topic, counters = new_topic(broker), Counters()
    outcomes: list[Exception | None] = []
    producer = Producer(broker, "test", counters)
    largest = os.urandom(MAX_MESSAGE_BYTES - 1)  # random: does not compress
    producer.send(topic, "k", largest, outcomes.append)
    producer.send(topic, "k", largest + b"12", outcomes.append)
    assert producer.flush(DEADLINE_S)
    producer.close(5)
    refused = [error for error in outcomes if error is not None]
    assert len(outcomes) == 2
    assert [type(error) for error in refused] == [NotDelivered]
    assert "1000000 is the most" in str(refused[0])
    assert counters.totals() == {"sent": 1, "dropped{too_large}": 1}
    assert [message.value for message in read_topic(broker, topic)] == [largest]


def test_many_threads_share_a_producer(broker: Connection, new_topic: NewTopic) -> None:
    topic, counters = new_topic(broker), Counters()
    producer = Producer(broker, "test", counters)

    def send(name: str) -> None:
        for number in range(200):
            producer.send(topic, name, str(number).encode())

    threads = [threading.Thread(target=send, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert producer.flush(DEADLINE_S)
    producer.close(5)
    by_key: dict[bytes | None, list[bytes]] = defaultdict(list)
    for message in read_topic(broker, topic):
        by_key[message.key].append(message.value)
    assert by_key == {f"t{n}".encode(): numbered(200) for n in range(4)}


def test_send_and_wait_returns_when_the_broker_has_it(broker: Connection, new_topic: NewTopic) -> None:
    topic = new_topic(broker)
    producer = Producer(broker, "test", Counters())
    producer.send_and_wait(topic, "k", b"now", DEADLINE_S)
    assert [message.value for message in read_topic(broker, topic)] == [b"now"]
    with pytest.raises(NotDelivered, match="is the most"):
        producer.send_and_wait(topic, "k", bytes(MAX_MESSAGE_BYTES), DEADLINE_S)
    producer.close(5)
    with pytest.raises(NotDelivered, match="closed"):
        producer.send_and_wait(topic, "k", b"late", 1)


def test_a_reader_without_a_group_starts_at_either_end(broker: Connection, new_topic: NewTopic) -> None:
    topic = new_topic(broker)
    write(broker, topic, numbered(20))
    assert list(read_topic(broker, new_topic(broker))) == []
    everything = Consumer(broker, None, (topic,), None)
    assert Counter(m.value for m in read(everything, 20)) == Counter(numbered(20))
    everything.close()
    news = Consumer(broker, None, (topic,), None, from_start=False)
    assert news.poll(10, 1.0) == []
    write(broker, topic, [b"news"])
    assert [m.value for m in read(news, 1)] == [b"news"]
    news.close()


def test_wait_for_broker_returns_at_once_where_one_is(broker: Connection) -> None:
    wait_for_broker(broker, 5)


KILLED = """
import sys
from runtime.kafka import Consumer
from runtime.settings import Connection
address, group, topic, instance = sys.argv[1:]
consumer = Consumer(Connection(broker=address), group, (topic,), instance or None, session_timeout_s=6)
while not consumer.poll(100, 1.0):
    pass
consumer.commit()
print("reading", flush=True)
while True:
    consumer.poll(100, 1.0)
"""


def back_after_kill_s(kafka: Connection, topic: str, group: str, instance: str) -> float:
    """Seconds from the kill of a consumer to the first message that its successor reads."""
    write(kafka, topic, numbered(100))
    command = [sys.executable, "-c", KILLED, kafka.broker, group, topic, instance]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "reading\n"
        victim.send_signal(signal.SIGKILL)
    write(kafka, topic, numbered(100))
    started = time.monotonic()
    successor = Consumer(kafka, group, (topic,), instance or None, session_timeout_s=6)
    assert read(successor, 1)
    took_s = time.monotonic() - started
    successor.close()
    return took_s


@pytest.mark.kafka
@pytest.mark.slow
def test_a_killed_consumer_with_an_instance_id_is_back_at_once(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    static_s = back_after_kill_s(kafka, new_topic(kafka), unique("group"), "slot-0")
    dynamic_s = back_after_kill_s(kafka, new_topic(kafka), unique("group"), "")
    assert static_s < 3
    assert dynamic_s > 3  # waits until the session of the dead one has timed out (6 s, less its last heartbeat)


@pytest.mark.kafka
def test_two_members_share_the_partitions_and_a_late_commit_does_no_harm(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    topic, group = new_topic(kafka), unique("group")
    write(kafka, topic, numbered(100))
    counters = Counters()
    first = Consumer(kafka, group, (topic,), "slot-0", counters=counters)
    assert len(read(first, 40)) == 40
    position = first.position()
    assert len(read(first, 60)) == 60
    second = Consumer(kafka, group, (topic,), "slot-1")
    deadline, came = time.monotonic() + DEADLINE_S, 0
    while (len(first.assigned()), len(second.assigned())) != (2, 2):
        assert time.monotonic() < deadline
        first.poll(100, 0.1)
        came += len(second.poll(100, 0.1))
    assert first.assigned().isdisjoint(second.assigned())
    with contextlib.closing(Offsets(kafka)) as offsets:
        moved = [Partition(*one) for one in second.assigned()]
        ends = offsets.ends(moved)
        read(second, sum(ends.values()) - came)
        second.commit()
        first.commit(position)
        assert offsets.committed(group, moved) == ends, "not set back by the one who had them before"
    first.commit()
    first.close()
    second.close()


def test_a_join_whose_answer_comes_after_a_poll_has_ended_is_completed(
    broker: Connection, new_topic: NewTopic, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(broker)
    write(broker, topic, numbered(10))
    consumer = Consumer(broker, unique("group"), (topic,), "slot-0")
    assert len(read(consumer, 10)) == 10
    coordinator = consumer._client._coordinator
    join = coordinator._do_join_and_sync_async

    async def slow_join() -> bytes:
        answer: bytes = await join()
        await coordinator._manager._net.sleep(1.5)
        return answer

    monkeypatch.setattr(coordinator, "_do_join_and_sync_async", slow_join)
    coordinator._assignment_snapshot = {}  # as after a join that did not know of the topic yet: joins again
    write(broker, topic, numbered(10))
    consumer.poll(10, 0.1)
    monkeypatch.setattr(coordinator, "_do_join_and_sync_async", join)
    assert read(consumer, 10), "it has its partitions again"
    consumer.close()


@pytest.mark.kafka
def test_a_second_process_in_the_same_slot_is_told_to_leave(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    topic, group = new_topic(kafka), unique("group")
    write(kafka, topic, numbered(10))
    first = Consumer(kafka, group, (topic,), "slot-0")
    assert read(first, 10)
    second = Consumer(kafka, group, (topic,), "slot-0")
    assert read(second, 10)
    with pytest.raises(UserError, match=r"runs in the same slot \(slot-0\)"):
        first.commit()
    first.close()
    second.close()


@pytest.mark.kafka
def test_a_topic_that_is_not_there_does_not_hold_up_the_others(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    there, missing, counters = new_topic(kafka), unique("missing"), Counters()
    producer = Producer(kafka, "test", counters)
    for number in range(20):
        producer.send(missing, "k", b"?")
        producer.send(there, "k", str(number).encode())
    deadline = time.monotonic() + DEADLINE_S
    while counters.totals().get("sent", 0) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    producer.close(0)
    assert [m.value for m in read_topic(kafka, there)] == numbered(20)
    assert counters.totals()["dropped{closed}"] == 20


@pytest.mark.kafka
def test_reading_a_topic_that_is_not_there_is_one_line(kafka: Connection, unique: Unique) -> None:
    with pytest.raises(UserError, match="run `lockstep topics create`"):
        list(read_topic(kafka, unique("missing")))


@pytest.mark.kafka
def test_records_deleted_before_they_were_read_are_counted(
    kafka: Connection, new_topic: NewTopic, unique: Unique
) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    topic, group, counters = new_topic(kafka, partitions=1), unique("group"), Counters()
    write(kafka, topic, numbered(100))
    consumer = Consumer(kafka, group, (topic,), "slot-0", counters=counters)
    assert len(read(consumer, 10)) == 10
    consumer.commit()
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=kafka.broker)
    admin.delete_records({TopicPartition(topic, 0): 60})
    admin.close()
    consumer = Consumer(kafka, group, (topic,), "slot-0", counters=counters)
    assert [m.offset for m in read(consumer, 40)] == list(range(60, 100))
    consumer.close()
    assert counters.totals()["dropped{retention}"] == 50
