"""What an agent does with the events of one partition: the seam between Faust and the detectors."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from runtime.health import Counters
from schemas import DeadLetter, Record
from streams.acknowledge import Token
from streams.lane import Step
from streams.places import Places
from streams.state import Key, Saved


class EventTime:
    """How far this worker's nodes have come: the median over its node partitions, by which incidents grow old.

    No clock of this machine: without records nothing recovers.
    """

    def __init__(self) -> None:
        self._partitions: dict[int, int] = {}

    def reached(self, partition: int, watermark_ms: int) -> None:
        self._partitions[partition] = watermark_ms

    def left(self, partition: int) -> None:
        self._partitions.pop(partition, None)

    def now_ms(self) -> int | None:
        ordered = sorted(self._partitions.values())
        return ordered[(len(ordered) - 1) // 2] if ordered else None


class Surroundings(NamedTuple):
    """What a partition gets from its worker.

    `places` are those of all nodes, whoever has their partitions; `letter` makes the dead letter of an event from
    reason and detail.
    """

    counters: Counters
    event_time: EventTime
    places: Places
    letter: Callable[[Token, Record, str, str], DeadLetter]
    checkpoint_ms: int


class Partition(Protocol):
    """The events of one partition, one after another; no input or output of its own.

    An exception out of `take` stops the worker: one key's trouble is handled inside.
    """

    def restored(self) -> Step:
        """What must be said before the first event."""

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        """What follows from one event. `lag_s`: how long the event lay on its topic."""

    def tick(self, event_ms: int) -> Sequence[Step]:
        """What follows from time alone; called about once a second while no event waits."""

    def close(self) -> None:
        """The partition is not this worker's any longer."""


Open = Callable[[int, Mapping[Key, Saved], Surroundings], Partition]
"""Opens a partition by its number and what was stored of it."""
