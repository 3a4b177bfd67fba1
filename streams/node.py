"""streams.node: what a node measured, and what happened on it, become features and findings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from detectors.silence import SilenceDetector
from detectors.watermark import FORGET_MS, Watermark
from schemas import Baselines, Event, Features, Finding, NodeFrame, Record
from streams.acknowledge import Token
from streams.keyed import Detector, Detectors
from streams.lane import Key, Step, Write
from streams.partition import Surroundings
from streams.state import Saved, States

TOPICS = ("node-frames", "events")


class Verdict(Protocol):
    """What a node's detector says of one frame."""

    @property
    def features(self) -> tuple[Features, ...]: ...
    @property
    def findings(self) -> tuple[Finding, ...]: ...
    @property
    def baselines(self) -> Baselines | None: ...


class Node(Detector, Protocol):
    """The detector of one node."""

    def update(self, frame: NodeFrame, /) -> Verdict: ...
    def note(self, event: Event, /) -> Sequence[Finding]: ...


class NodePartition:
    """Every node has a detector; the partition knows who is silent and how far its nodes have come."""

    def __init__(
        self,
        number: int,
        saved: Mapping[Key, Saved],
        around: Surroundings,
        make: Callable[[Key], Node],
    ) -> None:
        self._number, self._around = number, around
        self._states = States(saved, around.checkpoint_ms)
        nodes = {key: one for key, one in saved.items() if key.name}
        self._nodes = Detectors(make, nodes, self._states, around.counters)
        self._fleets = {
            key.cluster: _Fleet(key, number, saved.get(key)) for key in {Key(key.cluster, "") for key in saved}
        }

    def restored(self) -> Step:
        silence = [finding for fleet in self._fleets.values() for finding in fleet.again]
        return Step(findings=(*self._nodes.again, *silence))

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        if not isinstance(record, NodeFrame | Event):
            return (Step((token,)),)
        step = self._judge(record, token)
        if isinstance(record, Event):
            return (step,)
        writes, findings = self._watch(record, lag_s)
        return (
            step._replace(
                state=(*step.state, *writes),
                findings=(*step.findings, *findings),
                said_by=(*step.said_by, Key(record.cluster, "")) if findings else step.said_by,
            ),
        )

    def tick(self) -> Sequence[Step]:
        return ()

    def ahead(self) -> Collection[str]:
        return ()

    def close(self) -> None:
        self._around.event_time.left(self._number)

    def _judge(self, record: NodeFrame | Event, token: Token) -> Step:
        key = Key(record.cluster, record.node)
        outputs: tuple[Record, ...] = ()
        try:
            node = self._nodes.of(key, record.ts_ms)
            if isinstance(record, Event):
                findings = tuple(node.note(record))
            else:
                verdict = node.update(record)
                findings = verdict.findings
                outputs = verdict.features if verdict.baselines is None else (*verdict.features, verdict.baselines)
            writes = self._nodes.writes(key, record.ts_ms, bool(findings))
        except Exception as error:
            letter = self._around.letter(token, record, "detector_failed", repr(error))
            return Step((token,), (letter,), self._nodes.failed(key, error), (), (key,))
        return Step((token,), outputs, writes, findings, (key,) if findings else ())

    def _watch(self, record: NodeFrame, lag_s: float) -> tuple[tuple[Write, ...], tuple[Finding, ...]]:
        """Who is silent; the frames alone tell, events come when they come."""
        fleet = self._fleets.get(record.cluster)
        if fleet is None:
            fleet = self._fleets[record.cluster] = _Fleet(Key(record.cluster, ""), self._number, None)
        findings = fleet.hear(record, lag_s)
        now_ms = record.ts_ms
        if fleet.watermark.value_ms is not None:
            now_ms = fleet.watermark.value_ms
            self._around.event_time.reached(record.cluster, self._number, now_ms)
        writes: tuple[Write, ...] = ()
        due = self._states.due(fleet.key, now_ms)
        if findings or due:
            writes = self._states.write(fleet.key, "decisions", {"silence": fleet.silence.decisions()}, now_ms)
        if due:
            writes += self._states.write(fleet.key, "learning", {"watermark": fleet.watermark.state()}, now_ms)
            writes += self._nodes.forget_before(now_ms - FORGET_MS)
        return writes, findings


class _Fleet:
    """The nodes of one cluster in one partition, together."""

    def __init__(self, key: Key, partition: int, saved: Saved | None) -> None:
        self.key = key
        self.watermark = Watermark()
        self.silence = SilenceDetector(key.cluster, f"node-frames/{partition}")
        self.again: Sequence[Finding] = ()
        self._judged_ms = 0
        if saved is not None:
            if "watermark" in saved.of("learning"):
                self.watermark.restore(saved.of("learning")["watermark"])
            self.again = self.silence.restore(saved.of("decisions").get("silence"))

    def hear(self, record: NodeFrame, lag_s: float) -> tuple[Finding, ...]:
        """Take one record; once a tick, what is to be said of silence and clocks."""
        self.watermark.observe(record.node, record.ts_ms)
        front_ms = self.watermark.front_ms()
        if front_ms is None or front_ms <= self._judged_ms:
            return ()
        self._judged_ms = front_ms
        return tuple(self.silence.judge(self.watermark, lag_s))
