"""streams.job: collectives, steps and features of a job's ranks become findings, tick by tick.

Records of different nodes arrive in any order. A tick is held until all nodes of its job have passed it, or the
partition's watermark has; then it is judged in one order, so a replay gives the same answers. Its events are finished
together with the note that it was judged: after a restart a tick comes again whole or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from detectors.ordering import Tick, TickOrder
from detectors.watermark import Watermark
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
        if fleet.watermark.observe(record.node, record.ts_ms) == "clock_wrong":
            self._around.counters.add("dropped", 1, "clock_wrong")
            fleet.tokens.append(token)
            steps: list[Step] = []
        else:
            steps = self._hold(fleet, record, token)
        now_ms = fleet.watermark.value_ms
        if now_ms is not None and now_ms != before_ms:
            steps += self._pass(fleet, record.cluster, now_ms)
        return steps

    def tick(self, event_ms: int) -> Sequence[Step]:
        return ()

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
            return self._release(fleet, Key(record.cluster, record.job))
        self._around.counters.add("dropped", 1, disposition)
        fleet.tokens.append(token)
        return []

    def _release(self, fleet: "_Fleet", key: Key) -> list[Step]:
        ticks = fleet.orders[key.name].release(fleet.watermark.value_ms)
        return [self._judge(fleet, key, tick) for tick in ticks]

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
        """The watermark moved: judge what it has passed in every job, then finish the events of all judged ticks."""
        steps = [step for job in fleet.orders for step in self._release(fleet, Key(cluster, job))]
        writes: tuple[Write, ...] = ()
        for job, tick_ms in fleet.judged.items():
            writes += self._states.write(Key(cluster, job), "position", {"judged": b"%d" % tick_ms}, tick_ms)
        key = Key(cluster, "")
        if self._states.due(key, now_ms):
            writes += self._states.write(key, "learning", {"watermark": fleet.watermark.state()}, now_ms)
            writes += self._jobs.forget_before(now_ms - FORGET_MS)
            fleet.forget_before(now_ms - FORGET_MS)
        done = Step(tuple(fleet.tokens), state=writes)
        fleet.tokens.clear()
        fleet.judged.clear()
        return [*steps, done]


class _Fleet:
    """The jobs of one cluster in one partition: their common watermark, and for each the order of its ticks.

    `tokens` are the events, `judged` the newest ticks of jobs, that the next advance of the watermark finishes.
    """

    def __init__(self) -> None:
        self.watermark = Watermark()
        self.orders: dict[str, TickOrder[_Held]] = {}
        self.tokens: list[Token] = []
        self.judged: dict[str, int] = {}

    def restore(self, job: str, saved: Saved) -> None:
        if "watermark" in saved.of("learning") and not job:
            self.watermark.restore(saved.of("learning")["watermark"])
        if "judged" in saved.of("position"):
            self.orders[job] = TickOrder(released_ms=int(saved.of("position")["judged"]), capacity=CAPACITY)

    def order(self, job: str) -> TickOrder[_Held]:
        if job not in self.orders:
            self.orders[job] = TickOrder(capacity=CAPACITY)
        return self.orders[job]

    def forget_before(self, ts_ms: int) -> None:
        for job, order in list(self.orders.items()):
            if order.released_ms is not None and order.released_ms < ts_ms:
                del self.orders[job]
