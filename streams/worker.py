"""One worker: its agents on one Faust app, commits, rebalances, and its own health."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import faust
from faust.types import TP

from runtime.clock import Clock
from runtime.errors import BrokerLostRecords
from runtime.health import Counters, HealthReporter
from schemas import Inventory
from schemas.codec import encode
from streams.agent import PROCESS, Agent
from streams.app import commit, reader, urgent_producer
from streams.models import TOPIC as MODELS
from streams.models import Follower, Models
from streams.partition import EventTime, Open
from streams.places import Places
from streams.settings import WorkerSettings, instance

log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long a stop or rebalance waits for what is on its way; what is late comes again from the last commit."""

EMBEDDED_COMMIT_S = 0.2

STALLED_S = 60.0
"""Events that lie there so long: fetching has stopped, which Faust does not always notice after a rebalance."""

NO_INPUT_S = 60.0
"""After so long without an event the health record says so: nobody else can tell that all nodes fell silent."""

Plan = Mapping[str, tuple[Sequence[str], Open]]
"""Agents by name: the topics of one, and what opens a partition of it."""


class Worker:
    """Runs the agents of `plan` inside `app`; `models` are those by which the plan's nodes are scored."""

    def __init__(
        self,
        app: faust.App,
        plan: Plan,
        settings: WorkerSettings,
        clock: Clock,
        counters: Counters,
        models: Models | None = None,
    ) -> None:
        self._app, self._settings, self._clock, self.counters = app, settings, clock, counters
        self._committed: dict[TP, int] = {}
        self.failure: BaseException | None = None
        self._urgent = urgent_producer(settings)
        event_time, self._places = EventTime(), Places()
        self._models = None
        if models is not None:
            self._models = Follower(models, reader(settings, MODELS), counters, event_time.now_ms)
        self.agents = {
            name: Agent(
                app,
                name,
                topics,
                open_partition,
                settings=settings,
                clock=clock,
                counters=counters,
                event_time=event_time,
                places=self._places,
                send=self._send,
                send_now=self._send_now,
                fail=self.fail,
            )
            for name, (topics, open_partition) in plan.items()
        }
        self._reporter = HealthReporter(settings.cluster, PROCESS, instance(settings), clock.now_ms(), counters, clock)
        app.on_partitions_revoked.connect(self._revoked)
        app.on_before_shutdown.connect(self._stopping)
        app.task()(self._follow_places)
        app.task()(self._follow_models)
        app.timer(_commit_interval_s(settings))(self._commit_in_turn)
        app.timer(1.0)(self._tick)
        app.timer(settings.health_interval_s)(self._report)

    async def start(self) -> None:
        """Before the app starts."""
        await self._urgent.start()
        if self._models is not None:
            await self._models.start()

    async def stop(self) -> None:
        """After the app has stopped."""
        await self._urgent.stop()
        if self._models is not None:
            await self._models.stop()

    def fail(self, error: BaseException) -> None:
        """The process must end: what is not finished comes again after the restart, never in a worker that goes on."""
        if self.failure is None:
            self.failure = error

    async def commit(self) -> None:
        """Commit what is finished. Faust's own commit is not used: docs/decisions/acknowledgement.md."""
        positions = {tp: offset for agent in self.agents.values() for tp, offset in agent.intake.committable().items()}
        fresh = {tp: offset for tp, offset in positions.items() if self._committed.get(tp) != offset}
        if fresh and await commit(self._app, fresh):
            self._committed.update(fresh)

    async def _follow_places(self) -> None:
        await self._in_background(lambda: self._places.follow(reader(self._settings, Inventory.topic)))

    async def _follow_models(self) -> None:
        if self._models is not None:
            await self._in_background(self._models.follow)

    async def _in_background(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.fail(error)

    async def _commit_in_turn(self) -> None:
        if not self._app.rebalancing:
            await self.commit()

    async def _tick(self) -> None:
        if not self._app.rebalancing:
            for agent in self.agents.values():
                await agent.tick()

    async def _report(self) -> None:
        """Say how the worker is; end it where events lie there and it does not take them."""
        if self._app.rebalancing:
            return
        idle_s = min(self._clock.monotonic() - agent.last_s for agent in self.agents.values())
        partitions = [tp for agent in self.agents.values() for tp in agent.intake.partitions()]
        ends = await self._app.consumer.highwaters(*partitions)
        unread = sum(agent.intake.behind(ends) for agent in self.agents.values())
        if unread and idle_s > STALLED_S:
            self.fail(RuntimeError(f"{unread} events wait and none was taken for {idle_s:.0f} s"))
        self.counters.gauge("lag_s", max(agent.lag_s for agent in self.agents.values()) if unread else 0.0)
        self.counters.gauge("unread", unread)
        self.counters.gauge("last_event_age_s", idle_s)
        self.counters.gauge("open_events", sum(agent.intake.open() for agent in self.agents.values()))
        record = self._reporter.record("no input" if idle_s > NO_INPUT_S else "")
        await self._send(record.topic, record.key.encode(), encode(record), None)

    async def _send(self, topic: str, key: bytes, value: bytes | None, partition: int | None) -> Awaitable[object]:
        return self._counted(await self._app.producer.send(topic, key, value, partition, None, None))

    async def _send_now(self, topic: str, key: bytes, value: bytes | None, partition: int | None) -> Awaitable[object]:
        return self._counted(await self._urgent.send(topic, value, key, partition))

    def _counted(self, future: Any) -> Awaitable[object]:
        future.add_done_callback(self._delivered)
        sent: Awaitable[object] = future
        return sent

    def _delivered(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.counters.add("sent")

    async def _revoked(self, *_: Any, **__: Any) -> None:
        await self._let_go()

    async def _stopping(self, *_: Any, **__: Any) -> None:
        await self._let_go()

    async def _let_go(self) -> None:
        """Finish what is on its way, commit, and drop the rest. A gap is committed too, or every restart would meet it
        again, and said by the last health record."""
        lost = isinstance(self.failure, BrokerLostRecords)
        if self.failure is None or lost:
            try:
                async with asyncio.timeout(DRAIN_S):
                    await asyncio.gather(*(agent.drained() for agent in self.agents.values()))
            except TimeoutError:
                log.warning("not all was sent within %g s; the rest comes again", DRAIN_S)
        await self.commit()
        if lost:
            record = self._reporter.record("records lost")
            await (await self._send_now(record.topic, record.key.encode(), encode(record), None))
        for agent in self.agents.values():
            await agent.close()
        self._committed.clear()


def _commit_interval_s(settings: WorkerSettings) -> float:
    """Whoever feeds the embedded broker waits for commits, so there they come often."""
    return (
        min(settings.commit_interval_s, EMBEDDED_COMMIT_S) if settings.broker_embedded else settings.commit_interval_s
    )
