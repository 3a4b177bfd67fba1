"""The embedded broker as a process of its own and as an object."""

import sys
import threading

import pytest

from runtime.broker import PARTITIONS, EmbeddedBroker, run
from runtime.errors import BrokerUnreachable, UserError
from runtime.kafka import Offsets, create_topics, wait_for_broker
from runtime.settings import Connection
from schemas.topics import JOB_TOPICS, TOPICS


def test_run_says_where_it_is_and_ends_when_told() -> None:
    ready, stop = threading.Event(), threading.Event()
    addresses: list[str] = []

    def say(address: str) -> None:
        addresses.append(address)
        ready.set()

    thread = threading.Thread(target=run, args=(Connection(), say, stop))
    thread.start()
    assert ready.wait(10)
    connection = Connection(broker=addresses[0], broker_embedded=True)
    wait_for_broker(connection, 5)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(BrokerUnreachable):
        wait_for_broker(connection, 0.5)


def test_brokers_do_not_know_each_other() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.address != other.address


def test_it_makes_every_topic_and_the_job_topics_alike(embedded: Connection) -> None:
    lines = create_topics(embedded, 12, 3, compacted=("lockstep-worker-node-changelog",))
    assert f"steps: {PARTITIONS} partitions, as the embedded broker makes them" in lines
    assert len(lines) == len(TOPICS) + 1
    offsets = Offsets(embedded)
    assert {len(offsets.partitions([topic])) for topic in JOB_TOPICS} == {PARTITIONS}
    offsets.close()


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UserError, match=r"pip install 'gpu-lockstep\[embedded\]'"), EmbeddedBroker():
        pass


def test_who_takes_it_for_a_kafka_is_told_what_it_is() -> None:
    with EmbeddedBroker() as broker, pytest.raises(BrokerUnreachable, match="--broker-embedded yes") as told:
        wait_for_broker(Connection(broker=broker.address), 1)
    assert "\n" not in str(told.value)
