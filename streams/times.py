"""One time for topics that are read together: how far the nodes have come, as far as their records were read.

Each topic has a watermark of its own. While a backlog is read one topic runs ahead of the others, because its records
are smaller or fewer; taking its time for the time would make the others' records late, though nobody was.
"""

from collections.abc import Callable, Collection, Mapping

from detectors.watermark import Standing, Watermark
from schemas.record import NodeRecord

LEFT_ROUNDS, LEFT_RECORDS = 10, 50
"""How many records, per known node and at least, must come from others before a node counts as gone. At one a second
that is ten seconds and more, so one that comes back was not missed."""

AHEAD_MS = 20_000
"""How far a topic may run ahead of one that has records to read: what it brings meanwhile must be held."""

Unread = Callable[[str], bool]


class TopicTimes:
    """The watermarks of `topics`. Feed every record; ask `now_ms` with what says whether a topic has unread events."""

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = {topic: _TopicTime() for topic in topics}

    def hear(self, record: NodeRecord) -> Standing:
        return self._topics[record.topic].hear(record.node, record.ts_ms)

    def now_ms(self, unread: Unread) -> int | None:
        """Every tick up to here is over, in all topics. The topic that is furthest tells, but none that has something
        to read is left behind; one that has not is quiet. None while nothing can be said."""
        newest = max((ms for time in self._topics.values() if (ms := time.now_ms) is not None), default=None)
        for topic, time in self._topics.items():
            if newest is not None and (time.now_ms is None or time.now_ms < newest) and unread(topic):
                newest = time.now_ms
        return newest

    def ahead(self, unread: Unread) -> list[str]:
        """Topics more than AHEAD_MS ahead of one that has something to read."""
        now_ms = self.now_ms(unread)
        if now_ms is None:
            return []
        return [t for t, time in self._topics.items() if time.now_ms is not None and time.now_ms - now_ms > AHEAD_MS]

    def forget(self) -> None:
        """Drop nodes not heard of for a day."""
        for time in self._topics.values():
            time.forget()

    def state(self) -> dict[str, bytes]:
        return {topic: time.watermark.state() for topic, time in self._topics.items()}

    def restore(self, state: Mapping[str, bytes]) -> None:
        for topic, saved in state.items():
            if topic in self._topics:
                self._topics[topic].watermark.restore(saved)


class _TopicTime:
    """A watermark whose nodes come and go with their jobs."""

    def __init__(self) -> None:
        self.watermark = Watermark()
        self._records = 0
        self._look_at = 0
        self._heard: dict[str, int] = {}

    @property
    def now_ms(self) -> int | None:
        return self.watermark.value_ms

    def hear(self, node: str, tick_ms: int) -> Standing:
        """Take one record's time. A node not heard of while all others spoke about ten times has no vote any more, or
        its last tick would hold up, or even put in the wrong, all that come after it."""
        standing = self.watermark.observe(node, tick_ms)
        self._records += 1
        self._heard[node] = self._records
        if self._records >= self._look_at:
            nodes = self.watermark.nodes
            self._look_at = self._records + len(nodes)
            quiet = self._records - LEFT_ROUNDS * len(nodes) - LEFT_RECORDS
            for gone in [name for name, clock in nodes.items() if clock.votes and self._heard.get(name, 0) < quiet]:
                self.watermark.mute(gone)
        return standing

    def forget(self) -> None:
        for node in self.watermark.forget():
            self._heard.pop(node, None)
