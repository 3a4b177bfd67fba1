"""Taking events from Faust one after another, whatever it delivers twice, early or not at all.

Around a rebalance Faust opens the topics' partitions before it has put them to where the group left off, and empties
its queues afterwards: events come early, twice, or are gone. So the position is asked of the broker while nothing
flows, and from there on only the next event is taken.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import faust
from faust.types import TP

from runtime.errors import BrokerLostRecords
from runtime.health import Counters
from streams.acknowledge import Offsets
from streams.settings import WorkerSettings

log = logging.getLogger(__name__)


class Intake:
    """The positions of one agent's partitions."""

    def __init__(self, app: faust.App, settings: WorkerSettings, counters: Counters) -> None:
        self._app, self._settings, self._counters = app, settings, counters
        self._offsets: dict[TP, Offsets] = {}

    @property
    def _consumer(self) -> Any:
        """Faust makes it when it starts. Its types leave out half of what it can do."""
        return self._app.consumer

    async def begin(self, partitions: Collection[TP]) -> None:
        """Ask where the group left off; only while the flow is stopped. UserError as for `accept`."""
        committed: Mapping[TP, int | None] = await self._consumer.seek_to_committed()
        earliest: Mapping[TP, int] = await self._consumer.earliest_offsets(*partitions)
        ends: Mapping[TP, int] = await self._consumer.highwaters(*partitions)
        lost = ""
        for tp in partitions:
            left_off = committed.get(tp)
            if left_off is None or left_off > ends[tp]:  # never, or in a topic of this name that is no more
                left_off = earliest[tp]
            self._offsets[tp] = offsets = Offsets(left_off)
            lost = self._gone(tp, offsets.skip_to(earliest[tp])) or lost
        if lost:
            raise BrokerLostRecords(lost)

    async def accept(self, tp: TP, offset: int) -> Offsets | None:
        """The partition's offsets, with this event taken; None where it is not the next one, and comes again or has
        come before. Raises BrokerLostRecords where the embedded broker deleted events before they were read, and
        RuntimeError where events are missing that the broker still has: they are read again after a restart."""
        offsets = self._offsets[tp]
        if offset > offsets.next:
            earliest: Mapping[TP, int] = await self._consumer.earliest_offsets(tp)
            if lost := self._gone(tp, offsets.skip_to(earliest[tp])):
                raise BrokerLostRecords(lost)
            if offset > offsets.next and not offsets.untouched:
                raise RuntimeError(f"{tp.topic}/{tp.partition}: {offsets.next} was not delivered, but {offset} was")
        return offsets if offsets.take(offset) else None

    def unread(self, tp: TP) -> bool:
        """Whether events lie there that were not taken, as far as the last fetch told."""
        offsets = self._offsets.get(tp)
        if offsets is None:
            return False
        end: int | None = self._consumer.highwater(tp)
        return end is None or offsets.next < end

    def behind(self, ends: Mapping[TP, int]) -> int:
        """How many events were not taken; `ends` are the offsets of the partitions' next events."""
        return sum(max(0, ends.get(tp, 0) - offsets.next) for tp, offsets in self._offsets.items())

    def committable(self) -> dict[TP, int]:
        """Where each partition may go on from after a restart."""
        return {tp: offsets.committable for tp, offsets in self._offsets.items() if offsets.committable is not None}

    def open(self) -> int:
        """Events taken and not finished."""
        return sum(offsets.open for offsets in self._offsets.values())

    def partitions(self) -> Collection[TP]:
        return self._offsets.keys()

    def hold_back(self, tp: TP, back: bool) -> None:
        """Fetch no more of a partition, or again. This is how Faust treats a stream whose queue is full: to pause the
        partition would lose what is fetched already."""
        if back:
            self._consumer.on_buffer_full(tp)
        else:
            self._consumer.on_buffer_drop(tp)

    def clear(self) -> None:
        self._offsets.clear()

    def _gone(self, tp: TP, count: int) -> str:
        """Count and log what was deleted. On the embedded broker, where only too fast a producer does that, what to
        fail with: the position behind the gap is `committable`, so that a restart goes on there."""
        if not count:
            return ""
        what = f"{count} records of {tp.topic}/{tp.partition} were deleted before {self._settings.group} read them"
        self._counters.add("dropped", count, "retention")
        if not self._settings.broker_embedded:
            log.error("%s: their retention is too short for so long a pause", what)
            return ""
        what += ": the embedded broker is full; go slower, or use a real Kafka"
        log.error("%s", what)
        return what
