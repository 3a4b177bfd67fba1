"""Which forest scores a tick: the publications on the topic `models`, read by every worker for itself.

A publication holds from its own time on, until the next one. So the forest of a tick follows from the tick alone,
whenever the record came in between the frames, and a replay scores as the first time: docs/decisions/model-swap.md.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import aiokafka

from detectors.forest.model import Forest, ModelError
from runtime.health import Counters
from runtime.log import Repeats
from schemas import Model
from schemas.codec import WireError, decode
from streams.ending import ended

TOPIC = Model.topic

OWN = "own"
"""The `model` of a publication without a payload: from then on each worker's own forest, as it was started."""

CAUGHT_UP_S = 60.0
"""How long a start may read the topic: a few megabytes."""

log = logging.getLogger(__name__)


class Publication(NamedTuple):
    """From `ts_ms` on, `forest` scores the cluster; None: each worker's own. In the order in which they hold."""

    ts_ms: int
    name: str
    cluster: str
    forest: Forest | None


def publication(record: Model) -> Publication:
    """What the record says; raises ModelError where its bytes are no usable model, or another than it says."""
    forest = Forest.from_bytes(record.payload) if record.payload else None
    found = OWN if forest is None else forest.name
    if record.model != found:
        raise ModelError(f"the record says {record.model}, its bytes are {found}")
    return Publication(record.ts_ms, record.name, record.cluster, forest)


def in_force(publications: Sequence[Publication], tick_ms: int) -> Publication | None:
    """Of one cluster's publications in order: the one that holds at this tick, None where none does yet."""
    place = bisect_right(publications, tick_ms, key=lambda one: one.ts_ms)
    return publications[place - 1] if place else None


class Models:
    """The forest of every tick; `own` where nothing was published for it.

    A record that cannot be used is counted as errors{model_refused}, said in one line, and changes nothing else; the
    gauge `models` says how many publications are known.
    """

    def __init__(self, own: Forest, counters: Counters | None = None) -> None:
        self.own = own
        self._counters = counters or Counters()
        self._repeats = Repeats()
        self._records: dict[bytes, Publication] = {}
        self._lines: dict[str, list[Publication]] = {}

    def at(self, cluster: str, tick_ms: int) -> Forest:
        """The forest that scores this tick of the cluster."""
        line = self._lines.get(cluster)
        if not line:
            return self.own
        found = in_force(line, tick_ms)
        return self.own if found is None or found.forest is None else found.forest

    def take(self, key: bytes | None, payload: bytes | None) -> Publication | None:
        """One record of the topic, or a deletion; what was under its key is gone. Returns what is published by it.

        Streams does not own this topic: what cannot be decoded is the writer's dead letter.
        """
        self._drop(key or b"")
        if not payload:
            return None
        try:
            record = decode(payload, TOPIC)
            if not isinstance(record, Model):
                return None
            found = publication(record)
        except (WireError, ModelError) as error:
            self._counters.add("errors", 1, "model_refused")
            name = "".join(filter(str.isprintable, (key or b"?").decode(errors="replace")))[:80]
            self._repeats.log(
                log, logging.ERROR, "refused", f"model {name} refused, scoring goes on as before: {error}"
            )
            return None
        self._records[key or b""] = found
        self._line_up(found.cluster)
        return found

    def _drop(self, key: bytes) -> None:
        if (old := self._records.pop(key, None)) is not None:
            self._line_up(old.cluster)

    def _line_up(self, cluster: str) -> None:
        self._counters.gauge("models", len(self._records))
        self._lines[cluster] = sorted(
            (one for one in self._records.values() if one.cluster == cluster), key=lambda one: one[:2]
        )


class Follower:
    """Feeds `models` from the topic: all of it before the first tick, then what comes."""

    def __init__(
        self,
        models: Models,
        consumer: aiokafka.AIOKafkaConsumer,
        counters: Counters,
        now_ms: Callable[[str], int | None],
    ) -> None:
        self._models, self._consumer, self._counters, self._now_ms = models, consumer, counters, now_ms

    async def start(self) -> None:
        """Return when everything that is on the topic now was taken. A tick that is judged before could be scored by
        another forest than the first time."""
        await self._consumer.start()
        async with asyncio.timeout(CAUGHT_UP_S):
            ends = await self._consumer.end_offsets(self._consumer.assignment())
            while ends := {tp: end for tp, end in ends.items() if await self._consumer.position(tp) < end}:
                for messages in (await self._consumer.getmany(timeout_ms=200)).values():
                    self._take(messages)

    async def follow(self) -> None:
        """Take what comes, for ever."""
        async for message in self._consumer:
            self._take([message])

    async def stop(self) -> None:
        await ended(self._consumer.stop())

    def _take(self, messages: Iterable[aiokafka.ConsumerRecord]) -> None:
        for message in messages:
            found = self._models.take(message.key, message.value)
            if found is None:
                continue
            now_ms = self._now_ms(found.cluster)
            if now_ms is not None and now_ms > found.ts_ms:
                self._counters.add("errors", 1, "model_late")
                log.warning("model %s came %.0f s after its first tick", found.name, (now_ms - found.ts_ms) / 1000)
            else:
                log.info("model %s will score from its time on", found.name)
