"""The end of an aiokafka consumer."""

import asyncio
from collections.abc import Awaitable


async def ended(stopping: Awaitable[None]) -> None:
    """Await a consumer's stop. While its broker is gone it lets the cancelling of its own fetch out (`Fetcher.close`
    waits for a request that pauses before the next try), as if whoever stops it had been cancelled: Faust's thread
    then dies without a word to who waits for it, and a worker takes all its time to end."""
    try:
        await stopping
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
