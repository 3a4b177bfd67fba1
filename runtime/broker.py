"""A broker inside this process, for one machine and for trying: librdkafka's in-memory cluster of one.

It speaks Kafka's protocol to any client. It keeps records in memory, about 5 MB a partition, and forgets the oldest
ones without a word when a partition is full (`runtime.pace` is what its producers wait with); topics make themselves,
with four partitions; a group's first members wait three seconds for each other. Its port cannot be chosen.
"""

import threading
from collections.abc import Callable
from types import TracebackType

from runtime.errors import UserError
from runtime.settings import Connection

KEPT_BYTES = 5 << 20
"""What librdkafka's mock keeps per partition, measured in batches as they came, compressed."""

PARTITIONS = 4


class EmbeddedBroker:
    """The broker runs from `__enter__` to `__exit__`; `address` is where, `connection()` how to speak to it."""

    def __init__(self) -> None:
        self.address = ""
        self._handle: object = None

    def __enter__(self) -> "EmbeddedBroker":
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise UserError("the embedded broker is not installed: pip install 'gpu-lockstep[embedded]'") from None
        # The address given here is replaced by the in-memory cluster's own.
        handle = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "localhost", "log_level": 0})
        (broker,) = handle.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self._handle = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle = None  # its destructor ends the cluster and its threads

    def connection(self, cluster: str = "default") -> Connection:
        """Settings of a client of this broker."""
        return Connection(broker=self.address, broker_embedded=True, cluster=cluster)


def run(settings: Connection, ready: Callable[[str], None], stop: threading.Event) -> None:
    """Be the broker until `stop`; `ready` gets its address once it answers."""
    with EmbeddedBroker() as broker:
        ready(broker.address)
        stop.wait()
