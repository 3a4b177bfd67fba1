"""Runs one worker in this process until it is told to stop."""

import asyncio
import logging
import threading
from contextlib import ExitStack
from typing import Any

from faust.tables.recovery import ServiceStopped
from threadpoolctl import threadpool_limits

from runtime.clock import Clock, SystemClock
from runtime.errors import UserError
from runtime.health import Counters, serve_metrics
from runtime.kafka import Offsets, wait_for_broker
from streams import places
from streams.agent import PROCESS
from streams.app import create_app
from streams.models import TOPIC as MODELS
from streams.models import Models
from streams.plan import detection, load_model
from streams.settings import WorkerSettings
from streams.topics import changelog_topic
from streams.worker import Plan, Worker

log = logging.getLogger(__name__)

BROKER_S = 30.0

READY_S = 120.0
"""From the start to the first event: 2 s with an empty state; a gigabyte of state takes a minute."""

STOP_S = 12.0
"""A worker whose broker is gone ends after this; whoever keeps it running would kill it at 15 s."""

__all__ = ["WorkerSettings", "run"]


def run(settings: WorkerSettings, stop: threading.Event, plan: Plan | None = None, clock: Clock | None = None) -> None:
    """Detect until `stop` is set; `plan` replaces the product's detectors.

    Raises what made the worker fail: then the process must end and be started again.
    """
    clock, counters = clock or SystemClock(), Counters()
    models = None
    if plan is None:
        models = Models(load_model(settings.model_path), counters)
        plan = detection(models, settings.findings_per_10k_gpu_days)
    check_topics(settings, plan, stop)
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))  # a node's matrices are small: threads would wait for one another
        if settings.prometheus_port:
            stack.callback(serve_metrics(PROCESS, counters, settings.prometheus_port))
        stack.enter_context(asyncio.Runner()).run(_serve(settings, stop, plan, models, clock, counters))


def check_topics(settings: WorkerSettings, plan: Plan, stop: threading.Event | None = None) -> None:
    """UserError where a topic is not there, or what is read together has not one number of partitions.

    Faust would leave a missing topic out without a word. The embedded broker makes topics as they are asked for.
    """
    wait_for_broker(settings, BROKER_S, stop=stop)
    if settings.broker_embedded:
        return
    needed = {places.TOPIC, MODELS} | {topic for topics, _ in plan.values() for topic in topics}
    needed |= {changelog_topic(agent, settings.group) for agent in plan}
    asked = Offsets(settings)
    try:
        found = asked.partitions(sorted(needed))
    finally:
        asked.close()
    counts = {topic: sum(partition.topic == topic for partition in found) for topic in needed}
    missing = sorted(topic for topic, count in counts.items() if not count)
    if missing:
        raise UserError(f"no topic {', '.join(missing)} at {settings.broker}: run `lockstep topics create`")
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{topic} {count}" for topic, count in sorted(counts.items()))
        raise UserError(f"topics must have one number of partitions, they have: {said}")


async def _serve(
    settings: WorkerSettings,
    stop: threading.Event,
    plan: Plan,
    models: Models | None,
    clock: Clock,
    counters: Counters,
) -> None:
    asyncio.get_running_loop().set_exception_handler(_unretrieved)
    app = create_app(settings)
    worker = Worker(app, plan, settings, clock, counters, models)
    await worker.start()
    starting = asyncio.create_task(app.start())
    give_up_s = clock.monotonic() + READY_S
    while not (stop.is_set() or worker.failure or app.should_stop or (starting.done() and starting.exception())):
        await asyncio.sleep(0.1)
        if not starting.done() and clock.monotonic() > give_up_s:
            worker.fail(RuntimeError(f"not ready after {READY_S:g} s: Faust's recovery hangs"))
    try:
        async with asyncio.timeout(STOP_S):
            await app.stop()
            await worker.stop()
    except TimeoutError:
        log.warning("the worker did not stop in order within %g s", STOP_S)
    if not starting.done():
        starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    failure = worker.failure or app.crash_reason or (None if starting.cancelled() else starting.exception())
    if failure is not None and not stop.is_set():
        raise failure


def _unretrieved(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Faust ends some of its waits by an exception that nobody takes: that a worker stops is no error."""
    if not isinstance(context.get("exception"), ServiceStopped):
        loop.default_exception_handler(context)
