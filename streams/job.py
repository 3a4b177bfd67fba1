"""streams.job: collectives, steps and features of a job's ranks become findings, tick by tick.

Records of different nodes and topics arrive in any order. A tick is held until all nodes of its job have passed it, or
the partition's time has; then it is judged in one order, so a replay gives the same answers. Its events are finished
together with the note that it was judged: after a restart a tick comes again whole or not at all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from detectors.ordering import Tick, TickOrder
from schemas import CollectiveFrame, Features, Finding, Record, StepFrame
from schemas.topics import HOUR_MS, JOB_TOPICS
from streams.acknowledge import Token
from streams.keyed import Detector, Detectors
from streams.lane import Key, Step, Write
from streams.partition import Surroundings
from streams.state import Saved, States
from streams.times import TopicTimes

TOPICS = JOB_TOPICS

FORGET_MS = 6 * HOUR_MS
"""A job not heard of for as long as its collectives are kept: nothing more can come of it, not even by a replay."""

CAPACITY = 20_000
"""Records of one job held at most: with 5 KB each, 100 MB. A thousand nodes send 3,000 a second."""

LEFT_MS = 30_000
"""A tick so far behind the cluster's nodes, with no event waiting, gets no more records."""

JobRecord = CollectiveFrame | StepFrame | Features


class Job(Detector, Protocol):
    """The detector of one job."""

    def update(self, tick_ms: int, records: Sequence[JobRecord], /) -> Sequence[Finding]: ...


class _Held(NamedTuple):
    record: JobRecord
    token: Token


class JobPartition:
    """Every job has a detector and an order of ticks; the jobs of a cluster share a time."""

    def __init__(
        self, number: int, saved: Mapping[Key, Saved], around: Surroundings, make: Callable[[Key], Job]
    ) -> None:
        self._around = around
        self._states = States(saved, around.checkpoint_ms)
        jobs = {key: one for key, one in saved.items() if key.name}
        self._jobs = Detectors(make, jobs, self._states, around.counters, pieces=True)
        self._fleets: dict[str, _Fleet] = {}
        for key, one in saved.items():
            self._fleet(key.cluster).restore(key.name, one)

    def restored(self) -> Step:
        return Step(findings=self._jobs.again)

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        if not isinstance(record, JobRecord) or not record.job:
            return (Step((token,)),)
        fleet = self._fleet(record.cluster)
        steps: list[Step] = []
        if fleet.time.hear(record) == "clock_wrong":
            self._around.counters.add("dropped", 1, "clock_wrong")
            fleet.tokens.append(token)
        else:
            steps += self._hold(fleet, record, token)
        before_ms, now_ms = fleet.now_ms, fleet.time.now_ms(self._around.unread)
        if now_ms is not None and (before_ms is None or now_ms > before_ms):
            fleet.now_ms = now_ms
            steps += self._pass(fleet, record.cluster, now_ms)
        elif fleet.judged and max(fleet.judged.values()) > fleet.finished_ms:
            steps.append(self._finish(fleet, record.cluster))
        return steps

    def tick(self) -> Sequence[Step]:
        """End what nobody will complete: a job whose ranks have all left moves no watermark."""
        steps: list[Step] = []
        for cluster, fleet in self._fleets.items():
            now_ms = self._around.event_time.now_ms(cluster)
            if now_ms is not None and any(map(len, fleet.orders.values())):
                steps += self._pass(fleet, cluster, now_ms - LEFT_MS)
        return steps

    def ahead(self) -> Collection[str]:
        return {topic for fleet in self._fleets.values() for topic in fleet.time.ahead(self._around.unread)}

    def close(self) -> None: ...

    def _fleet(self, cluster: str) -> "_Fleet":
        if cluster not in self._fleets:
            self._fleets[cluster] = _Fleet()
        return self._fleets[cluster]

    def _hold(self, fleet: "_Fleet", record: JobRecord, token: Token) -> list[Step]:
        order = fleet.order(record.job)
        disposition = order.add(
            record.ts_ms, record.node, record.run_id, record.seq, _Held(record, token), lane=token.topic
        )
        if disposition == "held":
            return self._release(fleet, Key(record.cluster, record.job), fleet.now_ms)
        self._around.counters.add("dropped", 1, disposition)
        fleet.tokens.append(token)
        return []

    def _release(self, fleet: "_Fleet", key: Key, now_ms: int | None) -> list[Step]:
        behind = any(map(self._around.unread, TOPICS))
        return [self._judge(fleet, key, tick) for tick in fleet.orders[key.name].release(now_ms, passed=not behind)]

    def _judge(self, fleet: "_Fleet", key: Key, tick: Tick[_Held]) -> Step:
        fleet.tokens += [held.token for held in tick.items]
        fleet.judged[key.name] = tick.tick_ms
        try:
            findings = self._jobs.of(key, tick.tick_ms).update(tick.tick_ms, [held.record for held in tick.items])
            writes = self._jobs.writes(key, tick.tick_ms, bool(findings))
            return Step((), (), writes, findings, (key,) if findings else ())
        except Exception as error:
            letters = [self._around.letter(h.token, h.record, "detector_failed", repr(error)) for h in tick.items]
            return Step((), letters, self._jobs.failed(key, error), (), (key,))

    def _pass(self, fleet: "_Fleet", cluster: str, now_ms: int) -> list[Step]:
        """Time went on: judge what it has passed in every job, and now and then store what was learned of time."""
        steps = [step for job in fleet.orders for step in self._release(fleet, Key(cluster, job), now_ms)]
        steps.append(self._finish(fleet, cluster))
        key = Key(cluster, "")
        if self._states.due(key, now_ms):
            # After the notes of what was judged: a stored time ahead of them would cut ticks that come again.
            writes = self._states.write(key, "learning", fleet.time.state(), now_ms)
            writes += self._jobs.forget_before(now_ms - FORGET_MS)
            fleet.forget_before(now_ms - FORGET_MS)
            steps.append(Step(state=writes))
        return steps

    def _finish(self, fleet: "_Fleet", cluster: str) -> Step:
        """The events of all judged ticks, finished together with the note which ticks those were."""
        writes: tuple[Write, ...] = ()
        for job, tick_ms in fleet.judged.items():
            writes += self._states.write(Key(cluster, job), "position", {"judged": b"%d" % tick_ms}, tick_ms)
            fleet.finished_ms = max(fleet.finished_ms, tick_ms)
        step = Step(tuple(fleet.tokens), state=writes)
        fleet.tokens.clear()
        fleet.judged.clear()
        return step


class _Fleet:
    """The jobs of one cluster in one partition: their common time, and for each the order of its ticks.

    `tokens` are events whose ticks are judged, `judged` the newest such tick of jobs, until both are finished.
    """

    def __init__(self) -> None:
        self.time = TopicTimes(TOPICS)
        self.now_ms: int | None = None
        self.orders: dict[str, TickOrder[_Held]] = {}
        self.tokens: list[Token] = []
        self.judged: dict[str, int] = {}
        self.finished_ms = 0

    def restore(self, job: str, saved: Saved) -> None:
        if not job:
            self.time.restore(saved.of("learning"))
        elif "judged" in saved.of("position"):
            self.orders[job] = TickOrder(released_ms=int(saved.of("position")["judged"]), capacity=CAPACITY)

    def order(self, job: str) -> TickOrder[_Held]:
        if job not in self.orders:
            self.orders[job] = TickOrder(capacity=CAPACITY)
        return self.orders[job]

    def forget_before(self, ts_ms: int) -> None:
        for job, order in list(self.orders.items()):
            if order.released_ms is not None and order.released_ms < ts_ms:
                del self.orders[job]
        self.time.forget()
