"""Faust's Kafka transport with a shorter fetch.

Faust lets a fetch wait 1.5 s for messages. A fetch asks for the partitions whose messages were all taken when it was
sent; while it waits, others run dry and nobody asks for them, so quiet topics slow busy ones down. On the embedded
broker, which gives one batch of a partition a fetch, that came to a few messages a second.
"""

from typing import Any, ClassVar

from faust.transport.drivers import aiokafka

FETCH_WAIT_MS = 50
"""Twenty empty fetches a second and worker cost next to nothing."""


class _Thread(aiokafka.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class _Consumer(aiokafka.Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class Transport(aiokafka.Transport):
    """`faust.App.transport` for our apps."""

    Consumer: ClassVar[type[Any]] = _Consumer
