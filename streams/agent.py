"""One Faust agent around the partitions of one kind: takes single events, decodes, decides, and lines steps up."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import faust
import mode
from faust.types import TP

from runtime.clock import Clock
from runtime.deadletters import Brake, dead_letter
from runtime.health import Counters
from schemas import DeadLetter, Record
from schemas.codec import WireError, decode, encode
from streams.acknowledge import Token
from streams.intake import Intake
from streams.lane import Lane, Send, Step
from streams.partition import EventTime, Open, Partition, Surroundings
from streams.places import Places
from streams.settings import WorkerSettings
from streams.state import read
from streams.topics import changelog_topic

PROCESS = "worker"


class _Assigned:
    """One partition while it is this worker's: its decisions and their lane."""

    def __init__(self, partition: Partition, lane: Lane, pump: asyncio.Task[None]) -> None:
        self.partition, self.lane, self.pump = partition, lane, pump
        self.ahead: frozenset[str] = frozenset()


class Agent:
    """Everything of one kind of partition in this worker.

    `fail` stops the worker: what is not finished is done again after the restart, never in a process that goes on.
    """

    def __init__(
        self,
        app: faust.App,
        name: str,
        topics: Sequence[str],
        open_partition: Open,
        *,
        settings: WorkerSettings,
        clock: Clock,
        counters: Counters,
        event_time: EventTime,
        places: Places,
        send: Send,
        send_now: Send,
        fail: Callable[[BaseException], None],
    ) -> None:
        self.topics = tuple(topics)
        self._app, self._open, self._settings = app, open_partition, settings
        self._clock, self._counters, self._event_time, self._places = clock, counters, event_time, places
        self._send, self._send_now, self._fail = send, send_now, fail
        self._changelog = changelog_topic(name, settings.group)
        self.intake = Intake(app, settings, counters)
        self._brake = Brake()
        self._assigned: dict[int, _Assigned] = {}
        self._stored: dict[int, dict[bytes, bytes]] = {}
        self._table = app.Table(name, key_type=bytes, value_type=bytes, on_changelog_event=self._remember)
        self._table.on_recover(self._recovered)
        channel = app.topic(*topics, key_type=bytes, value_type=bytes, acks=False)
        app.agent(channel, name=name, concurrency=1, supervisor_strategy=mode.CrashingSupervisor)(self._body())
        self.lag_s = 0.0
        self.last_s = clock.monotonic()

    def _body(self) -> Callable[[Any], Awaitable[None]]:
        async def body(stream: Any) -> None:
            try:
                async for event in stream.events():
                    await self._take(event.message)
            except Exception as error:
                self._fail(error)
                await asyncio.Event().wait()  # Faust would start the next one where this one failed

        return body

    async def _take(self, message: Any) -> None:
        offsets = await self.intake.accept(message.tp, message.offset)
        if offsets is None:
            return
        self._counters.add("received")
        self.last_s = self._clock.monotonic()
        self.lag_s = max(0.0, self._clock.now_ms() / 1000 - message.timestamp)
        held = self._assigned[message.partition]
        token = Token(offsets, message.topic, message.partition, message.offset)
        async with held.lane.turn:
            for step in self._decide(held.partition, message.value or b"", token):
                await held.lane.put(step)
        self._balance(message.partition, held)

    def _decide(self, partition: Partition, payload: bytes, token: Token) -> Sequence[Step]:
        try:
            record = decode(payload, token.topic)
        except WireError as error:
            self._counters.add("errors", 1, error.reason)
            self._brake.bad(error.reason)
            letter = self._letter(self._settings.cluster, token, error.reason, error.detail, payload)
            return (Step((token,), (letter,)),)
        self._brake.good()
        return partition.take(record, token, self.lag_s)

    async def tick(self) -> None:
        """Let time pass for partitions all of whose events are taken; call about once a second."""
        for number, held in list(self._assigned.items()):
            self._balance(number, held)
            if any(self.intake.unread(TP(topic, number)) for topic in self.topics):
                continue
            async with held.lane.turn:
                for step in held.partition.tick():
                    await held.lane.put(step)

    async def drained(self) -> None:
        """Return when all that was decided is durable."""
        await asyncio.gather(*(held.lane.drained() for held in self._assigned.values()))

    async def close(self) -> None:
        """Drop all partitions: what is not finished by now is another worker's, or comes again."""
        for held in self._assigned.values():
            held.partition.close()
            held.pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await held.pump
        self._assigned.clear()
        self.intake.clear()

    async def _remember(self, event: Any) -> None:
        """A record of the changelog, during recovery: before any event of its partition."""
        stored = self._stored.setdefault(event.message.partition, {})
        if event.message.value is None:
            stored.pop(event.message.key, None)
        else:
            stored[event.message.key] = event.message.value

    async def _recovered(self) -> None:
        """Faust has read the changelogs; it lets the topics flow again when it has put them to the last commits."""
        self._app.consumer.stop_flow()
        try:
            mine = {tp for tp in self._app.consumer.assignment() if tp.topic in self.topics}
            await self.intake.begin(mine)
            numbers = {tp.partition for tp in mine}
            self._stored = {number: stored for number, stored in self._stored.items() if number in numbers}
            for number in sorted(numbers):
                await self._assign(number)
        except Exception as error:
            self._fail(error)

    async def _assign(self, number: int) -> None:
        around = Surroundings(
            self._counters,
            self._event_time,
            self._places,
            self._detector_failed,
            lambda topic: self.intake.unread(TP(topic, number)),
            int(self._settings.checkpoint_s * 1000),
        )
        partition = self._open(number, read(self._stored.get(number, {}).items()), around)
        lane = Lane(number, self._changelog, self._send, self._send_now)
        self._assigned[number] = _Assigned(partition, lane, asyncio.create_task(self._pump(lane)))
        async with lane.turn:
            await lane.put(partition.restored())

    async def _pump(self, lane: Lane) -> None:
        try:
            await lane.run()
        except Exception as error:
            self._fail(error)

    def _balance(self, number: int, held: _Assigned) -> None:
        """Fetch no more of a topic that is ahead of the others."""
        ahead = frozenset(held.partition.ahead())
        for topic in ahead | held.ahead:
            self.intake.hold_back(TP(topic, number), topic in ahead)
        held.ahead = ahead

    def _detector_failed(self, token: Token, record: Record, reason: str, detail: str) -> DeadLetter:
        return self._letter(record.cluster, token, reason, detail, encode(record))

    def _letter(self, cluster: str, token: Token, reason: str, detail: str, payload: bytes) -> DeadLetter:
        origin = (token.topic, token.partition, token.offset)
        self._counters.add("dropped", 1, reason)
        return dead_letter(cluster, PROCESS, origin, reason, detail, payload, self._clock.now_ms())
