"""One Faust agent around the partitions of one kind: takes single events, decodes, decides, and lines steps up."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import faust
import mode
from faust.types import TP

from runtime.clock import Clock
from runtime.deadletters import Brake, dead_letter
from runtime.errors import BrokerLostRecords
from runtime.health import Counters
from schemas import DeadLetter, Record
from schemas.codec import WireError, decode, encode
from streams.acknowledge import Offsets, Token
from streams.app import committed_offset
from streams.lane import Lane, Send, Step
from streams.partition import EventTime, Open, Partition, Surroundings
from streams.places import Places
from streams.settings import WorkerSettings
from streams.state import read
from streams.topics import changelog_topic

log = logging.getLogger(__name__)

PROCESS = "worker"

UNREAD_S = 10.0
"""A partition that was never committed, and from which nothing came for so long, has nothing to read."""


class _Assigned:
    """One partition while it is this worker's: its decisions, their lane, and the events in hand by topic."""

    def __init__(self, partition: Partition, lane: Lane, topics: Sequence[str], since_s: float) -> None:
        self.partition, self.lane, self.since_s = partition, lane, since_s
        self.offsets = {topic: Offsets() for topic in topics}
        self.pump: asyncio.Task[None] | None = None
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
        held = self._assigned[message.partition]
        offsets = held.offsets[message.topic]
        first = offsets.newest is None
        if first:
            offsets.start(committed_offset(self._app, message.tp))
        missing = offsets.missing
        if not offsets.take(message.offset):
            return
        self._counters.add("received")
        self.last_s = self._clock.monotonic()
        self.lag_s = max(0.0, self._clock.now_ms() / 1000 - message.timestamp)
        if offsets.missing > missing:
            self._lost(message, offsets.missing - missing, first)
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
            if any(self._waiting(number, topic) for topic in self.topics):
                continue
            async with held.lane.turn:
                for step in held.partition.tick():
                    await held.lane.put(step)

    def committable(self) -> Iterator[tuple[TP, int]]:
        """Where each partition may go on from after a restart."""
        for number, held in self._assigned.items():
            for topic, offsets in held.offsets.items():
                if offsets.committable is not None:
                    yield TP(topic, number), offsets.committable

    async def drained(self) -> None:
        """Return when all that was decided is durable."""
        await asyncio.gather(*(held.lane.drained() for held in self._assigned.values()))

    async def close(self) -> None:
        """Drop all partitions: what is not finished by now is another worker's, or comes again."""
        for held in self._assigned.values():
            held.partition.close()
            if held.pump is not None:
                held.pump.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await held.pump
        self._assigned.clear()

    def unread(self, ends: Mapping[TP, int]) -> int:
        """Events on the assigned partitions that were not taken yet; `ends` are the offsets of their next events."""
        count = 0
        for number, held in self._assigned.items():
            for topic, offsets in held.offsets.items():
                tp = TP(topic, number)
                taken = offsets.newest + 1 if offsets.newest is not None else committed_offset(self._app, tp) or 0
                count += max(0, ends.get(tp, 0) - taken)
        return count

    def partitions(self) -> list[TP]:
        return [TP(topic, number) for number in self._assigned for topic in self.topics]

    @property
    def open(self) -> int:
        """Events taken and not finished."""
        return sum(offsets.open for held in self._assigned.values() for offsets in held.offsets.values())

    async def _remember(self, event: Any) -> None:
        """A record of the changelog, during recovery: before any event of its partition."""
        stored = self._stored.setdefault(event.message.partition, {})
        if event.message.value is None:
            stored.pop(event.message.key, None)
        else:
            stored[event.message.key] = event.message.value

    async def _recovered(self) -> None:
        # Faust opens the topics' partitions before it has put them to where the group left off, and then empties the
        # queues: what is fetched in between is lost. Nothing is fetched until Faust lets it flow again, after that.
        self._app.consumer.stop_flow()
        try:
            numbers = {tp.partition for tp in self._app.consumer.assignment() if tp.topic in self.topics}
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
            partial(self._waiting, number),
            int(self._settings.checkpoint_s * 1000),
        )
        partition = self._open(number, read(self._stored.get(number, {}).items()), around)
        lane = Lane(number, self._changelog, self._send, self._send_now)
        held = self._assigned[number] = _Assigned(partition, lane, self.topics, self._clock.monotonic())
        held.pump = asyncio.create_task(self._pump(lane))
        async with lane.turn:
            await lane.put(partition.restored())

    async def _pump(self, lane: Lane) -> None:
        try:
            await lane.run()
        except Exception as error:
            self._fail(error)

    def _waiting(self, number: int, topic: str) -> bool:
        """Whether events of this topic partition are on their way, as far as the last fetch told."""
        held = self._assigned.get(number)
        if held is None:
            return False
        tp, newest = TP(topic, number), held.offsets[topic].newest
        end = self._app.consumer.highwater(tp)
        begin = newest + 1 if newest is not None else committed_offset(self._app, tp)
        if end is not None and begin is not None:
            return begin < end
        return end != 0 and self._clock.monotonic() - held.since_s < UNREAD_S

    def _balance(self, number: int, held: _Assigned) -> None:
        """Fetch no more of a topic that is ahead. As Faust itself does for a stream whose queue is full: to pause the
        partition would lose what is fetched already."""
        ahead = held.partition.ahead()
        for topic in ahead:
            self._app.consumer.on_buffer_full(TP(topic, number))
        for topic in held.ahead.difference(ahead):
            self._app.consumer.on_buffer_drop(TP(topic, number))
        held.ahead = frozenset(ahead)

    def _lost(self, message: Any, count: int, first: bool) -> None:
        """Events that were never delivered: deleted before they were read, or left out on their way."""
        what = f"{count} records of {message.topic}/{message.partition} before offset {message.offset}"
        if self._settings.broker_embedded:
            raise BrokerLostRecords(
                f"{what} were deleted before {self._settings.group} read them: the embedded broker is full; go slower, "
                "or use a real Kafka"
            )
        if not first:
            raise RuntimeError(f"{what} were not delivered; they are read again after a restart")
        self._counters.add("dropped", count, "retention")
        log.error("%s were deleted before %s read them: their retention is too short", what, self._settings.group)

    def _detector_failed(self, token: Token, record: Record, reason: str, detail: str) -> DeadLetter:
        return self._letter(record.cluster, token, reason, detail, encode(record))

    def _letter(self, cluster: str, token: Token, reason: str, detail: str, payload: bytes) -> DeadLetter:
        origin = (token.topic, token.partition, token.offset)
        self._counters.add("dropped", 1, reason)
        return dead_letter(cluster, PROCESS, origin, reason, detail, payload, self._clock.now_ms())
