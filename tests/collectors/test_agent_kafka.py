"""The agent against real brokers: what it accepted is there, whatever the broker went through."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from local_kafka import LocalKafka

from collectors.agent.delivery import Delivery
from collectors.agent.service import AgentSettings, run
from collectors.agent.spool import Spool
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import Message, Producer, create_topics, read_topic
from runtime.settings import Connection
from schemas.codec import decode
from schemas.event import Event
from schemas.frame import NodeFrame

# kafka-python leaves the sockets of refused connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

DEADLINE_S = 90.0


def until(what: Callable[[], object], within_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def there(connection: Connection, topic: str) -> list[Message]:
    """What is on a topic; nothing on one that nobody has written to yet."""
    try:
        return list(read_topic(connection, topic))
    except UserError:
        return []


def test_the_agent_of_this_machine_sends_frames(embedded: Connection, tmp_path: Path) -> None:
    settings = AgentSettings(
        broker=embedded.broker,
        broker_embedded=True,
        cluster="eos",
        node="node-7",
        collectors="host",
        interval_s=0.25,
        spool_dir=str(tmp_path),
    )
    stop = threading.Event()
    agent = threading.Thread(target=run, args=(settings, stop))
    agent.start()
    until(lambda: len(there(embedded, "node-frames")) >= 2)
    stop.set()
    agent.join(DEADLINE_S)
    frames = [decode(message.value, "node-frames") for message in there(embedded, "node-frames")]
    assert all(isinstance(frame, NodeFrame) for frame in frames)
    assert len({frame.identity for frame in frames}) == len(frames) >= 2
    assert [message.key for message in there(embedded, "health")][-1] == b"agent/node-7"


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_killed_while_the_agent_sends_and_an_agent_killed_meanwhile_lose_nothing(
    own_kafka: LocalKafka, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    connection = Connection(broker=own_kafka.address)
    create_topics(connection, 4, 1)
    cluster, counters = unique("cluster"), Counters()

    def record(number: int) -> Event:
        return Event(cluster=cluster, node=f"n{number % 7}", ts_ms=0, run_id=1, seq=number, kind="test")

    def live() -> tuple[Delivery, Spool, Producer]:
        spool = Spool(tmp_path, 64 << 20, counters)
        producer = Producer(connection, "test", counters)
        return Delivery(spool, counters, SystemClock(), producer), spool, producer

    delivery, spool, producer = live()
    delivery.accept(map(record, range(500)))
    delivery.pump()
    own_kafka.kill()
    delivery.accept(map(record, range(500, 3000)))
    delivery.pump()
    spool._end_segment()  # the agent is killed: nothing of its memory is left
    spool._reader.close()
    producer.close(0)
    delivery, spool, producer = live()
    delivery.accept(map(record, range(3000, 3100)))
    own_kafka.start()

    def drained() -> bool:
        delivery.pump()
        return spool.waiting == 0

    until(drained)
    delivery.close(5)
    found = [decode(message.value, "events") for message in read_topic(connection, "events")]
    mine = [event.seq for event in found if isinstance(event, Event) and event.cluster == cluster]
    assert sorted(set(mine)) == list(range(3100))
