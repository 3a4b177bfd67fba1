"""streams.job: collectives, steps and features of a job's ranks become findings, tick by tick.

Records of different nodes arrive in any order. A tick is held until all nodes of its job have passed it, or the
partition's watermark has; then it is judged in one order, so a replay gives the same answers. Its events are finished
together with the note that it was judged: after a restart a tick comes again whole or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from detectors.ordering import Tick, TickOrder
from detectors.watermark import Standing, Watermark
from schemas import CollectiveFrame, Features, Finding, Record, StepFrame
from schemas.topics import HOUR_MS, JOB_TOPICS
from streams.acknowledge import Token
from streams.keyed import Detector, Detectors
from streams.lane import Step, Write
from streams.partition import Surroundings
from streams.state import Key, Saved, States

TOPICS = JOB_TOPICS

FORGET_MS = 6 * HOUR_MS
"""A job not heard of for as long as its collectives are kept: nothing more can come of it, not even by a replay."""

CAPACITY = 20_000
"""Records of one job held at most: with 5 KB each, 100 MB. A thousand nodes send 3,000 a second."""

LEFT_MS = 30_000
"""A tick so far behind the cluster's nodes, with no event waiting, gets no more records."""

LEFT_ROUNDS, LEFT_RECORDS = 10, 50
"""How many records, per known node and at least, must come from others before a node counts as gone. With three topics
a second that is 4 s or more, so one that comes back was not missed."""

JobRecord = CollectiveFrame | StepFrame | Features


class Job(Detector, Protocol):
    """The detector of one job."""

    def update(self, tick_ms: int, records: Sequence[JobRecord], /) -> Sequence[Finding]: ...


class _Held(NamedTuple):
    record: JobRecord
    token: Token


class JobPartition:
    """Every job has a detector and an order of ticks; the jobs of a cluster share a watermark."""

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
        before_ms = fleet.watermark.value_ms
        if fleet.hear(record) == "clock_wrong":
            self._around.counters.add("dropped", 1, "clock_wrong")
            fleet.tokens.append(token)
            steps: list[Step] = []
        else:
            steps = self._hold(fleet, record, token)
        now_ms = fleet.watermark.value_ms
        if now_ms is not None and now_ms != before_ms:
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
            return self._release(fleet, Key(record.cluster, record.job), fleet.watermark.value_ms)
        self._around.counters.add("dropped", 1, disposition)
        fleet.tokens.append(token)
        return []

    def _release(self, fleet: "_Fleet", key: Key, watermark_ms: int | None) -> list[Step]:
        return [self._judge(fleet, key, tick) for tick in fleet.orders[key.name].release(watermark_ms)]

    def _judge(self, fleet: "_Fleet", key: Key, tick: Tick[_Held]) -> Step:
        fleet.tokens += [held.token for held in tick.items]
        fleet.judged[key.name] = tick.tick_ms
        try:
            findings = self._jobs.of(key, tick.tick_ms).update(tick.tick_ms, [held.record for held in tick.items])
            return Step((), (), self._jobs.writes(key, tick.tick_ms, bool(findings)), findings)
        except Exception as error:
            letters = [self._around.letter(h.token, h.record, "detector_failed", repr(error)) for h in tick.items]
            return Step((), letters, self._jobs.failed(key, error))

    def _pass(self, fleet: "_Fleet", cluster: str, now_ms: int) -> list[Step]:
        """Time went on: judge what it has passed in every job, and now and then store what was learned of time."""
        steps = [step for job in fleet.orders for step in self._release(fleet, Key(cluster, job), now_ms)]
        steps.append(self._finish(fleet, cluster))
        key = Key(cluster, "")
        if self._states.due(key, now_ms):
            # After the notes of what was judged: a stored watermark ahead of them would cut ticks that come again.
            writes = self._states.write(key, "learning", {"watermark": fleet.watermark.state()}, now_ms)
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
    """The jobs of one cluster in one partition: their common watermark, and for each the order of its ticks.

    `tokens` are events whose ticks are judged, `judged` the newest such tick of jobs, until both are finished.
    """

    def __init__(self) -> None:
        self.watermark = Watermark()
        self.orders: dict[str, TickOrder[_Held]] = {}
        self.tokens: list[Token] = []
        self.judged: dict[str, int] = {}
        self.finished_ms = 0
        self._records = 0
        self._look_at = 0
        self._heard: dict[str, int] = {}

    def restore(self, job: str, saved: Saved) -> None:
        if "watermark" in saved.of("learning") and not job:
            self.watermark.restore(saved.of("learning")["watermark"])
        if "judged" in saved.of("position"):
            self.orders[job] = TickOrder(released_ms=int(saved.of("position")["judged"]), capacity=CAPACITY)

    def hear(self, record: JobRecord) -> Standing:
        """Take one record's time. Nodes leave with their jobs: one not heard of while all others spoke about ten times
        has no vote any more, or its last tick would hold up, or even put in the wrong, all that come after."""
        standing = self.watermark.observe(record.node, record.ts_ms)
        self._records += 1
        self._heard[record.node] = self._records
        if self._records >= self._look_at:
            nodes = self.watermark.nodes
            self._look_at = self._records + len(nodes)
            quiet = self._records - LEFT_ROUNDS * len(nodes) - LEFT_RECORDS
            for node in [name for name, clock in nodes.items() if clock.votes and self._heard.get(name, 0) < quiet]:
                self.watermark.mute(node)
        return standing

    def order(self, job: str) -> TickOrder[_Held]:
        if job not in self.orders:
            self.orders[job] = TickOrder(capacity=CAPACITY)
        return self.orders[job]

    def forget_before(self, ts_ms: int) -> None:
        for job, order in list(self.orders.items()):
            if order.released_ms is not None and order.released_ms < ts_ms:
                del self.orders[job]
        for node in self.watermark.forget():
            self._heard.pop(node, None)
