"""Fixtures: a stage of one test's own, on each broker."""

from collections.abc import Callable, Iterator

import pytest
from stream_stage import Stage

from runtime.broker import EmbeddedBroker
from runtime.settings import Connection


@pytest.fixture
def stage(broker: Connection, unique: Callable[[str], str]) -> Iterator[Stage]:
    """On each broker in turn."""
    built = Stage(broker, unique("stage"))
    yield built
    built.close()


@pytest.fixture
def embedded_stage(embedded: Connection, unique: Callable[[str], str]) -> Iterator[Stage]:
    built = Stage(embedded, unique("stage"))
    yield built
    built.close()


@pytest.fixture
def kafka_stage(kafka: Connection, unique: Callable[[str], str]) -> Iterator[Stage]:
    """On a real Kafka only: what depends on static membership or compaction."""
    built = Stage(kafka, unique("stage"))
    yield built
    built.close()


@pytest.fixture(scope="module")
def _busy() -> Iterator[Stage]:
    with EmbeddedBroker() as broker:
        built = Stage(broker.connection(), "busy")
        built.worker()
        yield built
        built.close()


@pytest.fixture
def busy_stage(_busy: Stage, unique: Callable[[str], str]) -> Stage:
    """A cluster of one's own on an embedded broker where a worker runs already."""
    return _busy.beside(unique("cluster"))
