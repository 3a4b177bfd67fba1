"""Faust's Kafka transport with a shorter fetch, and without the two ways in which events get lost at a start.

Faust lets a fetch wait 1.5 s for messages. A fetch asks for the partitions whose messages were all taken when it was
sent; while it waits, others run dry and nobody asks for them, so quiet topics slow busy ones down. On the embedded
broker, which gives one batch of a partition a fetch, that came to a few messages a second.

Lost were events that are fetched before the partitions are put to where the group left off:
docs/decisions/faust-facts.md.
"""

import logging
from collections.abc import Mapping, Set
from typing import Any, ClassVar

from faust.transport.drivers import aiokafka
from faust.types import TP

from streams.ending import ended

FETCH_WAIT_MS = 50
"""Twenty empty fetches a second and worker cost next to nothing."""

_LOGGER = logging.getLogger("faust")
"""mode would log for a class of ours under this module's name, where its talk counts as ours."""


class Only:
    """These partitions, whichever they are when asked, and none where there is none: aiokafka takes an empty set for
    all it has."""

    def __init__(self, active: Set[TP]) -> None:
        self._active = active

    def __contains__(self, tp: object) -> bool:
        return tp in self._active


async def seek_to_committed(consumer: Any) -> Mapping[TP, int | None]:
    """Put all partitions of an aiokafka consumer to where its group left off, and return where that is; None where it
    never was. aiokafka's own leaves those alone that are committed at 0 or not at all, wherever they are by now."""
    committed: Mapping[TP, int | None] = await consumer.seek_to_committed()
    left = [tp for tp, offset in committed.items() if not offset]
    if left:
        await consumer.seek_to_beginning(*left)
    return committed


class _Thread(aiokafka.AIOKafkaConsumerThread):
    logger = _LOGGER

    async def seek_to_committed(self) -> Any:
        return await self.call_thread(seek_to_committed, self._ensure_consumer())

    async def on_thread_stop(self) -> None:
        await ended(super().on_thread_stop())

    async def _fetch_records(self, consumer: Any, active_partitions: Any, *args: Any, **kwargs: Any) -> Any:
        only: Any = Only(active_partitions)
        return await super()._fetch_records(consumer, only, *args, **kwargs)

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
