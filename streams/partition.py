"""What an agent does with the events of one partition: the seam between Faust and the detectors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from runtime.health import Counters
from schemas import DeadLetter, Record
from streams.acknowledge import Token
from streams.lane import Key, Step
from streams.places import Places
from streams.state import Saved


class EventTime:
    """How far each cluster's nodes have come, as far as this worker has their partitions: the median over those.

    It makes incidents grow old and ends ticks that nobody will complete. No clock of this machine: without records
    nothing recovers.
    """

    def __init__(self) -> None:
        self._reached: dict[str, dict[int, int]] = {}

    def reached(self, cluster: str, partition: int, watermark_ms: int) -> None:
        self._reached.setdefault(cluster, {})[partition] = watermark_ms

    def left(self, partition: int) -> None:
        """The partition is another worker's now."""
        for reached in self._reached.values():
            reached.pop(partition, None)

    def now_ms(self, cluster: str) -> int | None:
        """None where no partition with nodes of the cluster is this worker's."""
        ordered = sorted(self._reached.get(cluster, {}).values())
        return ordered[(len(ordered) - 1) // 2] if ordered else None


class Surroundings(NamedTuple):
    """What a partition gets from its worker.

    `places` are those of all nodes, whoever has their partitions; `letter` makes the dead letter of an event from
    reason and detail; `unread` says whether a topic of this partition has events that were not taken yet.
    """

    counters: Counters
    event_time: EventTime
    places: Places
    letter: Callable[[Token, Record, str, str], DeadLetter]
    unread: Callable[[str], bool]
    checkpoint_ms: int


class Partition(Protocol):
    """The events of one partition, one after another; no input or output of its own.

    An exception out of `take` stops the worker: one key's trouble is handled inside.
    """

    def restored(self) -> Step:
        """What must be said before the first event."""

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        """What follows from one event. `lag_s`: how long the event lay on its topic."""

    def tick(self) -> Sequence[Step]:
        """What follows from event time alone; called about once a second while no event waits to be taken."""

    def ahead(self) -> Collection[str]:
        """Topics that have come too far ahead of the others: no more of them is fetched for now."""

    def close(self) -> None:
        """The partition is not this worker's any longer."""


Open = Callable[[int, Mapping[Key, Saved], Surroundings], Partition]
"""Opens a partition by its number and what was stored of it."""
