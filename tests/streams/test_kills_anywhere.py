"""Kill a worker between any two writes, as often as you like: what is said in the end is what was said without.

The partitions are the real ones; broker, changelog and death are played here, one write at a time.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in import StandInBook, StandInJob, StandInNode
from stream_stage import START_MS

from runtime.deadletters import dead_letter
from runtime.health import Counters
from schemas import CollectiveFrame, Finding, Incident, NodeFrame, Record, StepFrame
from schemas.step import RankStep
from streams.acknowledge import Offsets, Token
from streams.incident import IncidentPartition
from streams.job import JobPartition, JobRecord
from streams.lane import Step, together
from streams.node import NodePartition
from streams.partition import EventTime, Open, Surroundings
from streams.places import Places
from streams.state import read

pytestmark = pytest.mark.slow


class Killed(Exception):
    """Nothing is written any more."""


class World:
    """All that outlives a worker: topics, changelog and commits. `lives` says after how many writes each one dies."""

    def __init__(self, lives: list[int], random: Random) -> None:
        self.lives, self.random = list(lives), random
        self.changelog: dict[bytes, bytes] = {}
        self.topic: list[Record] = []
        self.committed: dict[str, int] = {}
        self.counters = Counters()
        self._line: deque[Step] = deque()
        self.unread: Counter[str] = Counter()
        self._left: int | None = None

    def write(self, do: Callable[[], None]) -> None:
        if self._left is not None:
            if self._left == 0:
                raise Killed
            self._left -= 1
        do()

    def run(self, open_partition: Open, events: list[Record]) -> list[Record]:
        """Workers one after another until one reaches the end; returns all that was ever sent."""
        while True:
            self._left = self.lives.pop(0) if self.lives else None
            try:
                self._live(open_partition, events)
                return self.topic
            except Killed:
                pass

    def _live(self, open_partition: Open, events: list[Record]) -> None:
        around = Surroundings(
            self.counters,
            EventTime(),
            Places(),
            lambda token, record, reason, detail: dead_letter("c", "w", ("t", 0, 0), reason, detail, b"", 1),
            lambda topic: self.unread[topic] > 0,
            5000,
        )
        partition = open_partition(0, read(self.changelog.items()), around)
        self._line.clear()
        self._put(partition.restored())
        offsets: dict[str, Offsets] = {}
        waiting = list(self._unread(events))
        self.unread = Counter(record.topic for _, record in waiting)
        for number, record in waiting:
            self.unread[record.topic] -= 1
            held = offsets.setdefault(record.topic, Offsets(self.committed.get(record.topic, 0)))
            held.take(number)
            for step in partition.take(record, Token(held, record.topic, 0, number), 0.0):
                self._put(step)
            if self.random.random() < 0.3:
                for topic, one in offsets.items():
                    if one.committable is not None:
                        self.committed[topic] = one.committable
        while self._line:
            self._finish()

    def _unread(self, events: list[Record]) -> Iterator[tuple[int, Record]]:
        """The events not committed, each with its place among those of its topic."""
        numbers: dict[str, int] = {}
        for record in events:
            number = numbers.get(record.topic, 0)
            numbers[record.topic] = number + 1
            if number >= self.committed.get(record.topic, 0):
                yield number, record

    def _put(self, step: Step) -> None:
        """What `streams.lane` does: outputs at once, the rest when it comes to it, as much at a time as it may."""
        for record in step.outputs:
            self.write(partial(self.topic.append, record))
        self._line.append(step)
        while self._line and self.random.random() < 0.5:
            self._finish()

    def _finish(self) -> None:
        steps = [self._line.popleft() for _ in range(self.random.randint(1, together(self._line)))]
        for key, value in (write for step in steps for write in step.state):
            self.write(partial(self._store, key, value))
        for record in (record for step in steps for record in step.findings):
            self.write(partial(self.topic.append, record))
        for token in (token for step in steps for token in step.tokens):
            token.finish()

    def _store(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.changelog.pop(key, None)
        else:
            self.changelog[key] = value


def findings(sent: list[Record]) -> set[tuple[str, int, str, int]]:
    return {(f.id, f.revision, f.state, f.victims) for f in sent if isinstance(f, Finding)}


def identities(sent: list[Record]) -> set[tuple[str | int, ...]]:
    return {record.identity for record in sent if not isinstance(record, Finding)}


def frames() -> list[Record]:
    return [
        NodeFrame(
            cluster="c",
            ts_ms=START_MS + 1000 * tick,
            node=f"n{n}",
            run_id=1,
            seq=tick,
            missing={"bad": 1} if (tick // (2 + n)) % 2 else {},
        )
        for tick in range(40)
        for n in range(3)
    ]


def work(random: Random) -> list[Record]:
    """Four nodes, two jobs, steps and collectives. Each topic has each node's records in order, up to 1.5 s late; the
    topics are a backlog, read at speeds of their own. The last twenty ticks push out what is held before."""
    topics = [_work(random, topic) for topic in ("steps", "collectives")]
    mixed: list[Record] = []
    while any(topics):
        topic = random.choice([one for one in topics if one])
        count = random.randint(1, 150)
        mixed += topic[:count]
        del topic[:count]
    return mixed


def _work(random: Random, topic: str) -> list[Record]:
    arriving: list[tuple[float, Record]] = []
    for n in range(4):
        arrives = 0.0
        for tick in range(60):
            arrives = max(arrives, tick + 1.5 * random.random())
            for job in ("j", "k"):
                arriving.append((arrives, _record(topic, job, n, tick)))
    return [record for _, record in sorted(arriving, key=lambda pair: pair[0])]


def _record(topic: str, job: str, node: int, tick: int) -> Record:
    cluster, ts_ms, name, seq = "c", START_MS + 1000 * tick, f"n{node}", 2 * tick + (job == "k")
    if topic == "collectives":
        return CollectiveFrame(cluster=cluster, ts_ms=ts_ms, node=name, run_id=1, seq=seq, job=job)
    slow = node == 1 and (tick // 3) % 2 and tick < 40
    step = RankStep(rank=0, step=tick, step_us=2e6 if slow else 1.0)
    return StepFrame(cluster=cluster, ts_ms=ts_ms, node=name, run_id=1, seq=seq, job=job, steps=(step,))


lives = st.lists(st.integers(0, 120), max_size=6)
seeds = st.integers(0, 1000)


@given(lives, seeds)
@settings(max_examples=60, deadline=None)
def test_nodes(lives: list[int], seed: int) -> None:
    open_partition = partial(NodePartition, make=StandInNode)
    whole = World([], Random(0)).run(open_partition, frames())
    sent = World(lives, Random(seed)).run(open_partition, frames())
    assert findings(sent) == findings(whole)
    assert len({f.id for f in sent if isinstance(f, Finding)}) > 10
    assert identities(sent) == identities(whole)


@given(lives, seeds)
@settings(max_examples=60, deadline=None)
def test_jobs(lives: list[int], seed: int) -> None:
    judged: list[int] = []

    class Counted(StandInJob):
        def update(self, tick_ms: int, records: Sequence[JobRecord], /) -> Sequence[Finding]:
            judged.append(len(records))
            return super().update(tick_ms, records)

    open_partition = partial(JobPartition, make=Counted)
    events = work(Random(seed))
    world = World([], Random(0))
    whole = world.run(open_partition, events)
    assert world.counters.totals() == {}, "no record is late because another topic was read faster"
    sent = World(lives, Random(seed)).run(open_partition, events)
    assert findings(sent) == findings(whole)
    assert set(judged) == {8}, "a tick comes whole or not at all"


@given(lives, seeds)
@settings(max_examples=60, deadline=None)
def test_incidents(lives: list[int], seed: int) -> None:
    open_partition = partial(IncidentPartition, make=StandInBook)
    said = [
        f for f in World([], Random(0)).run(partial(NodePartition, make=StandInNode), frames()) if f.topic == "findings"
    ]
    whole = World([], Random(0)).run(open_partition, said)
    sent = World(lives, Random(seed)).run(open_partition, said)
    assert identities(sent) == identities(whole)
    assert {i.change for i in sent if isinstance(i, Incident)} == {"open", "resolve"}
