"""Faust's Kafka transport with a shorter fetch.

Faust lets a fetch wait 1.5 s for messages. A fetch asks for the partitions whose messages were all taken when it was
sent; while it waits, others run dry and nobody asks for them, so quiet topics slow busy ones down. On the embedded
broker, which gives one batch of a partition a fetch, that came to a few messages a second.
"""

import logging
from typing import Any, ClassVar

from faust.transport.drivers import aiokafka

FETCH_WAIT_MS = 50
"""Twenty empty fetches a second and worker cost next to nothing."""

_LOGGER = logging.getLogger("faust")
"""mode would log for a class of ours under this module's name, where its talk counts as ours."""


class _Thread(aiokafka.AIOKafkaConsumerThread):
    logger = _LOGGER

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class _Consumer(aiokafka.Consumer):
    logger = _LOGGER

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class Transport(aiokafka.Transport):
    """`faust.App.transport` for our apps."""

    Consumer: ClassVar[type[Any]] = _Consumer
