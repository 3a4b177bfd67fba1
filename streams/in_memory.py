"""One worker's partitions in memory, fed record by record: the whole of detection without a broker, in event time."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from runtime.deadletters import dead_letter
from runtime.health import Counters
from schemas import CollectiveFrame, Event, Features, Finding, Inventory, NodeFrame, RackFrame, StepFrame
from schemas.codec import encode
from schemas.record import Record
from streams.acknowledge import Offsets, Token
from streams.partition import EventTime, Partition, Surroundings
from streams.places import Places
from streams.worker import Plan

ROUTES: Mapping[type[Record], tuple[str, ...]] = {
    NodeFrame: ("node",),
    Event: ("node", "incident"),
    CollectiveFrame: ("job",),
    StepFrame: ("job",),
    Features: ("job",),
    RackFrame: ("rack",),
    Finding: ("incident",),
}
"""Which agents read a record; the rest is for the database alone."""

CHECKPOINT_MS = 60_000


class InMemory:
    """One partition of each agent of `plan`, which may lack some; nothing is stored."""

    def __init__(self, plan: Plan, counters: Counters) -> None:
        self._places = Places()
        around = Surroundings(
            counters,
            EventTime(),
            self._places,
            lambda token, record, reason, detail: dead_letter("-", "-", (record.topic, 0, 0), reason, detail, b"", 1),
            lambda topic: False,
            CHECKPOINT_MS,
        )
        self._agents: dict[str, Partition] = {name: opened(0, {}, around) for name, (_, opened) in plan.items()}
        self._offsets = {name: Offsets() for name in self._agents}

    def take(self, records: Iterable[Record]) -> Iterator[Record]:
        """Everything that agents say of some records and of the time that these took, in the order it is said."""
        waiting = deque(records)
        yield from self._drain(waiting)
        for agent in self._agents.values():
            for step in agent.tick():
                said = [*step.outputs, *step.findings]
                yield from said
                waiting += said
        yield from self._drain(waiting)

    def _drain(self, waiting: deque[Record]) -> Iterator[Record]:
        while waiting:
            record = waiting.popleft()
            if isinstance(record, Inventory):
                self._places.take(encode(record))
            for name in ROUTES.get(type(record), ()):
                if name not in self._agents:
                    continue
                offsets = self._offsets[name]
                token = Token(offsets, record.topic, 0, offsets.next)
                offsets.take(token.offset)
                for step in self._agents[name].take(record, token, 0.0):
                    said = [*step.outputs, *step.findings]
                    yield from said
                    waiting += said
                    for done in step.tokens:
                        done.finish()
