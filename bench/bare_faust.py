"""Faust doing nothing: the product's app takes frames and drops them. Beside it `bench.streams` says what is ours.

    python -m bench.bare_faust --broker HOST:PORT --events N

Prints one JSON object: the CPU microseconds of a frame, between the first tenth of N and all of them.
"""

import argparse
import asyncio
import json
import time
from typing import Any

from streams.app import create_app
from streams.settings import WorkerSettings


async def taken(broker: str, events: int) -> float:
    """CPU microseconds of this process for one event."""
    app = create_app(WorkerSettings(broker=broker, cluster="bench", group="bare-faust"))
    count, began, done = 0, 0.0, asyncio.Event()
    warm = events // 10

    async def body(stream: Any) -> None:
        nonlocal count, began
        async for _event in stream.events():
            count += 1
            if count == warm:
                began = time.process_time()
            if count == events:
                done.set()

    app.agent(app.topic("node-frames", key_type=bytes, value_type=bytes, acks=False))(body)
    starting = asyncio.create_task(app.start())
    try:
        await asyncio.wait_for(done.wait(), 300)
        return (time.process_time() - began) / (events - warm) * 1e6
    finally:
        await app.stop()
        await asyncio.gather(starting, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bare_faust", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--broker", required=True)
    parser.add_argument("--events", type=int, required=True)
    asked = parser.parse_args()
    print(json.dumps({"us_an_event": asyncio.run(taken(asked.broker, asked.events))}))


if __name__ == "__main__":
    main()
