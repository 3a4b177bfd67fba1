"""The broker is away, comes late, goes and comes back: nobody blocks, the oldest goes first, nothing else is lost."""

import re
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer
from kafka.net.compat import KafkaNetClient
from local_kafka import LocalKafka

from runtime.errors import BrokerUnreachable
from runtime.health import Counters
from runtime.kafka import BufferFull, Consumer, NotDelivered, Producer, read_topic, wait_for_broker
from runtime.kafka.client import BUSY_MS, PatientClient, connected
from runtime.ports import free_port
from runtime.settings import Connection

# kafka-python leaves the sockets of refused connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

DEADLINE_S = 60.0
NewTopic = Callable[..., str]


@pytest.fixture
def nowhere() -> Connection:
    """An address where nobody listens."""
    return Connection(broker=f"127.0.0.1:{free_port()}")


@pytest.fixture
def no_broker() -> Iterator[Connection]:
    """An address where something listens that is no broker: it says hello as a mail server does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                link.sendall(b"220 mail ready\r\n")
                link.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield Connection(broker=f"127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_no_broker_is_one_line_that_says_where(nowhere: Connection) -> None:
    for ask in (lambda: wait_for_broker(nowhere, 0.5), lambda: Consumer(nowhere, "group", ("events",), None)):
        with pytest.raises(BrokerUnreachable) as told:
            ask()
        assert str(told.value) == (
            f"no broker at {nowhere.broker}: Connection refused; start one, or give --broker HOST:PORT"
        )


def test_a_wrong_port_is_one_line_that_says_why(no_broker: Connection) -> None:
    with pytest.raises(BrokerUnreachable, match="what listens there is no Kafka broker, or wants TLS") as told:
        wait_for_broker(no_broker, 0.5)
    assert "\n" not in str(told.value)


def test_a_name_that_means_nothing_is_one_line() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no broker at no-such-host\.invalid:9092: .*(resol|known)"):
        wait_for_broker(Connection(broker="no-such-host.invalid:9092"), 0.5)


@pytest.mark.parametrize("name", ["..", "a" * 64 + ".b", "a..b"])
def test_what_can_be_no_name_is_one_line(name: str) -> None:
    with pytest.raises(BrokerUnreachable, match=rf"no broker at {re.escape(name)}:9092: .* is no host name"):
        wait_for_broker(Connection(broker=f"{name}:9092"), 0.5)


def test_without_a_broker_nobody_blocks_and_the_oldest_goes_first(nowhere: Connection) -> None:
    counters, outcomes = Counters(), dict[int, Exception | None]()

    def note(number: int) -> Callable[[Exception | None], None]:
        return lambda error: outcomes.__setitem__(number, error)

    producer = Producer(nowhere, "test", counters, bound=10)
    started = time.monotonic()
    for number in range(25):
        producer.send("events", "node", str(number).encode(), note(number))
    assert time.monotonic() - started < 1
    assert list(outcomes) == list(range(15))
    assert {type(error) for error in outcomes.values()} == {BufferFull}
    assert counters.totals()["dropped{buffer_full}"] == 15
    assert not producer.flush(0.1)

    producer.close(0.1)
    assert list(outcomes) == list(range(25))
    assert {type(outcomes[number]) for number in range(15, 25)} == {NotDelivered}
    assert counters.totals()["dropped{closed}"] == 10
    assert "sent" not in counters.totals()


def test_the_bound_counts_bytes_too(nowhere: Connection) -> None:
    counters = Counters()
    producer = Producer(nowhere, "test", counters, bound_bytes=10_000)
    for _ in range(30):
        producer.send("events", "", bytes(1000))
    assert counters.totals()["dropped{buffer_full}"] == 20
    producer.close(0)


@pytest.mark.parametrize(("delay_s", "wait_ms"), [(0, BUSY_MS), (0.9, 900.0)])
def test_a_sender_whose_broker_takes_nothing_waits_before_it_looks_again(
    delay_s: float, wait_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python's own answer is in seconds, which its sender takes for milliseconds: it would never rest."""
    monkeypatch.setattr(KafkaNetClient, "connection_delay", lambda _, node: delay_s)
    assert PatientClient.__new__(PatientClient).connection_delay(7) == wait_ms


def test_every_producer_has_such_a_sender(embedded: Connection) -> None:
    producer = connected(embedded, KafkaProducer, metrics_enabled=False)
    assert isinstance(producer._sender._client, PatientClient)
    producer.close()


def test_waiting_for_an_acknowledgement_ends_in_one_line(nowhere: Connection) -> None:
    producer = Producer(nowhere, "test", Counters())
    with pytest.raises(BrokerUnreachable, match=r"did not acknowledge a message to events within 0\.2 s"):
        producer.send_and_wait("events", "node", b"?", 0.2)
    producer.close(0)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_producer_started_before_its_broker_delivers_what_its_bound_kept(
    own_kafka: LocalKafka, new_topic: NewTopic
) -> None:
    connection, counters = Connection(broker=own_kafka.address), Counters()
    topic = new_topic(connection)
    own_kafka.stop()
    producer = Producer(connection, "test", counters, bound=100)
    for number in range(250):
        producer.send(topic, "key", str(number).encode())
    own_kafka.start()
    assert producer.flush(DEADLINE_S)
    producer.close(5)
    assert [int(m.value) for m in read_topic(connection, topic)] == list(range(150, 250))
    assert counters.totals()["sent"] == 100
    assert counters.totals()["dropped{buffer_full}"] == 150


@pytest.mark.kafka
@pytest.mark.slow
def test_an_outage_loses_only_what_the_bound_dropped_and_keeps_the_order(
    own_kafka: LocalKafka, new_topic: NewTopic
) -> None:
    connection, counters = Connection(broker=own_kafka.address), Counters()
    topic = new_topic(connection)
    dropped: list[int] = []
    producer = Producer(connection, "test", counters, bound=500)

    def send(numbers: range) -> None:
        for number in numbers:
            producer.send(topic, f"key-{number % 5}", str(number).encode(), lambda e, n=number: e and dropped.append(n))

    send(range(100))
    assert producer.flush(DEADLINE_S)
    own_kafka.kill()
    send(range(100, 3000))
    own_kafka.start()
    send(range(3000, 3100))
    assert producer.flush(DEADLINE_S)
    producer.close(5)

    assert dropped  # 2900 were sent while the broker was away; 1000 on the way and 500 waiting is all there is room for
    assert counters.totals()["dropped{buffer_full}"] == len(dropped)
    assert counters.totals()["sent"] == 3100 - len(dropped)
    arrived: dict[bytes | None, list[int]] = defaultdict(list)
    for message in read_topic(connection, topic):
        arrived[message.key].append(int(message.value))
    expected: dict[bytes | None, list[int]] = defaultdict(list)
    for number in sorted(set(range(3100)) - set(dropped)):
        expected[f"key-{number % 5}".encode()].append(number)
    assert arrived == expected


@pytest.mark.kafka
@pytest.mark.slow
def test_a_consumer_outlives_an_outage(own_kafka: LocalKafka, new_topic: NewTopic) -> None:
    connection = Connection(broker=own_kafka.address)
    topic = new_topic(connection)
    producer = Producer(connection, "test", Counters())
    consumer = Consumer(connection, topic, (topic,), "slot-0")
    seen: list[bytes] = []

    def exchange(value: bytes) -> None:
        producer.send(topic, "key", value)
        deadline = time.monotonic() + DEADLINE_S
        while value not in seen:
            assert time.monotonic() < deadline
            seen.extend(message.value for message in consumer.poll(100, 0.5))
        consumer.commit()

    exchange(b"before")
    own_kafka.kill()
    assert consumer.poll(100, 1.0) == []
    own_kafka.start()
    exchange(b"after")
    producer.close(5)
    consumer.close()
    assert seen == [b"before", b"after"]


GROWTH = """
import os, sys
from kafka import KafkaProducer
from runtime.broker import EmbeddedBroker
from runtime.health import Counters
from runtime.kafka import Producer

def resident_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

value = os.urandom(1000)
with EmbeddedBroker() as broker:
    if sys.argv[1] == "ours":
        producer = Producer(broker.connection(), "test", Counters(), bound=1000)
        producer.send_and_wait("events", "key", value, 30)
        send = lambda: producer.send("events", "key", value)
    else:
        producer = KafkaProducer(bootstrap_servers=broker.address, api_version=(2, 3))
        producer.send("events", value, b"key").get(30)
        send = lambda: producer.send("events", value, b"key")
before_mb = resident_mb()
for _ in range(40_000):
    send()
print(resident_mb() - before_mb, flush=True)
os._exit(0)
"""


def test_only_a_producer_with_a_bound_stays_small_while_the_broker_is_away() -> None:
    """kafka-python 3 has no bound of its own: 40,000 messages of 1000 bytes stay in memory."""
    grown_mb = {
        kind: float(subprocess.run([sys.executable, "-c", GROWTH, kind], capture_output=True, check=True).stdout)
        for kind in ("ours", "kafka-python")
    }
    print(grown_mb)
    assert grown_mb["kafka-python"] > 40
    assert grown_mb["ours"] < 20
