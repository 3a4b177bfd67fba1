"""A consumer whose broker is gone ends like any other."""

import asyncio
from typing import Any, cast

import pytest
from aiokafka.consumer.fetcher import Fetcher
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from runtime.health import Counters
from streams.ending import ended
from streams.models import Follower, Models
from streams.transport import _Thread


class Gone:
    """aiokafka's consumer while a request of its own pauses before the next try."""

    async def stop(self) -> None:
        fetcher = object.__new__(Fetcher)
        fetcher._fetch_task = asyncio.create_task(asyncio.sleep(60))
        fetcher._fetch_waiters = set()
        fetcher._pending_tasks = {asyncio.create_task(asyncio.sleep(60))}
        await asyncio.sleep(0)
        await fetcher.close()


def test_a_consumer_whose_broker_is_gone_ends_as_if_nothing_were(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Gone().stop())  # else there is nothing left to do here
    asyncio.run(ended(Gone().stop()))
    consumer: Any = Gone()
    asyncio.run(Follower(cast(Models, None), consumer, Counters(), lambda _: None).stop())
    monkeypatch.setattr(AIOKafkaConsumerThread, "on_thread_stop", lambda _: Gone().stop())
    asyncio.run(_Thread.on_thread_stop(object.__new__(_Thread)))


def test_whoever_is_cancelled_itself_while_it_waits_for_that_is() -> None:
    async def cancelled() -> None:
        waiting = asyncio.create_task(ended(asyncio.sleep(60)))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
