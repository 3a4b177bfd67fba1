"""Brokers for tests: a real Kafka (fixture `kafka`), the embedded one (`embedded`), or each in turn (`broker`).

The real one is LOCKSTEP_TEST_KAFKA (host:port) if set, else a container where a Docker engine answers, else a local
JVM. Where none can run, its tests skip and say why; with LOCKSTEP_REQUIRE_KAFKA=1 they fail instead.
"""

import contextlib
import gc
import itertools
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from local_kafka import VERSION, LocalKafka, Unavailable, local_kafka

from runtime.ports import free_port
from runtime.settings import Connection

_numbers = itertools.count()


def _docker_answers() -> bool:
    if os.environ.get("DOCKER_HOST"):
        return True  # somebody says so; if it does not, the tests say why
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect("/var/run/docker.sock")
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _container() -> Iterator[str]:
    """Apache Kafka in a container; raises Unavailable where no engine answers."""
    if not _docker_answers():
        raise Unavailable("no Docker engine answers")
    from testcontainers.core.container import DockerContainer

    port = free_port()
    container = (
        DockerContainer(f"apache/kafka:{VERSION}")
        .with_bind_ports(port, port)
        .with_env("KAFKA_NODE_ID", "1")
        .with_env("KAFKA_PROCESS_ROLES", "broker,controller")
        .with_env("KAFKA_LISTENERS", f"PLAINTEXT://:{port},CONTROLLER://:9093")
        .with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://127.0.0.1:{port}")
        .with_env("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER")
        .with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")
        .with_env("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@localhost:9093")
        .with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        .with_env("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1")
        .with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
        .with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
        .with_env("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
        .with_env("KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", "1000")
    )
    with container:
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def _provided() -> Iterator[str]:
    given = os.environ.get("LOCKSTEP_TEST_KAFKA")
    if given:
        yield given
        return
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(_container())
        except Unavailable as no_container:
            try:
                address = stack.enter_context(local_kafka()).address
            except Unavailable as no_jvm:
                raise Unavailable(f"{no_container}; {no_jvm}") from None
        yield address


def without_kafka(reason: str) -> NoReturn:
    """Skip, or fail where a real Kafka is required."""
    if os.environ.get("LOCKSTEP_REQUIRE_KAFKA") == "1":
        pytest.fail(f"a real Kafka is required: {reason}", pytrace=False)
    pytest.skip(f"no real Kafka: {reason} (set LOCKSTEP_TEST_KAFKA=host:port)")


@pytest.fixture(scope="session")
def _real_kafka() -> Iterator[Connection | str]:
    """The connection, or why there is none: asked once, however many tests need it."""
    from runtime.kafka import wait_for_broker

    with contextlib.ExitStack() as stack:
        try:
            connection = Connection(broker=stack.enter_context(_provided()))
        except Unavailable as error:
            yield str(error)
            return
        wait_for_broker(connection, 60)
        yield connection


@pytest.fixture(scope="session")
def kafka(_real_kafka: Connection | str) -> Connection:
    """A real Apache Kafka, one for the whole test session: use topic and group names of your own (`unique`)."""
    if isinstance(_real_kafka, str):
        without_kafka(_real_kafka)
    return _real_kafka


@pytest.fixture
def embedded() -> Iterator[Connection]:
    """An embedded broker of this test's own."""
    from runtime.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker.connection()


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> Connection:
    """Each broker in turn: what holds on one must hold on the other."""
    connection: Connection = request.getfixturevalue(request.param)
    return connection


@pytest.fixture(scope="session")
def _own_kafka() -> Iterator[LocalKafka]:
    with contextlib.ExitStack() as stack:
        try:
            own = stack.enter_context(local_kafka())
        except Unavailable as error:
            without_kafka(str(error))
        yield own


@pytest.fixture
def own_kafka(_own_kafka: LocalKafka) -> Iterator[LocalKafka]:
    """A real Kafka that a test may stop, kill and start again; also speaks TLS and wants a user there."""
    yield _own_kafka
    gc.collect()  # sockets that clients lost with the broker
    if not _own_kafka.running:
        _own_kafka.start()


@pytest.fixture
def new_topic(unique: Callable[[str], str]) -> Callable[..., str]:
    """Makes a topic at a broker and returns its name; the embedded broker makes it by itself, with 4 partitions."""

    def make(connection: Connection, partitions: int = 4, **settings: str) -> str:
        name = unique(f"topic{next(_numbers)}")
        if not connection.broker_embedded:
            from kafka import KafkaAdminClient

            admin = KafkaAdminClient(bootstrap_servers=connection.broker)
            wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": settings}
            admin.create_topics({name: wanted}, wait_for_metadata=True)
            admin.close()
        return name

    return make


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names for topics and groups that no other test uses."""
    mark = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{mark}"
