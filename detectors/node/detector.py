"""Everything that is said of one node: a score for every GPU, baselines, and findings from events and readings.

Rules speak for themselves; the forest's alarm opens a finding only for a GPU that differs from its own past *and*
from the GPUs beside it in the same job: where all of them moved together, it is the job, a step that waits for
somebody else, or the whole node, and those are told by the job's detectors.
"""

from typing import Literal

import msgspec
import numpy as np

from detectors.episode import Episode, Episodes, Persistence, Rule, Verdict
from detectors.event_watch import EventState, EventWatch
from detectors.forest.model import Forest
from detectors.node.alarm import (
    ALARM,
    FINDINGS,
    FREEZE_MOST,
    FREEZE_P,
    FREEZE_TICKS,
    RELEARN_TICKS,
    alarm_verdict,
    alarms,
)
from detectors.node.budget import alarm_p
from detectors.node.deviation import Deviation, Deviations, everyone
from detectors.node.fabric_rules import port_findings
from detectors.node.gpu_columns import WORKING
from detectors.node.host_rules import host_findings
from detectors.node.host_watch import HostWatch
from detectors.node.nvlink_rules import LinkWatch
from detectors.node.reading_rules import READING_RULES, nothing_to_see, observations, reading_verdict
from detectors.node.records import Scores, baselines_of, features_of
from detectors.node.roster import is_instance
from detectors.state import unpack
from schemas.event import Event
from schemas.features import Baselines, Features
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import Gpu, NodeFrame
from schemas.identity import digest

BASELINES_MS = 60_000

VANISHED = Rule("vanished", "hardware", Persistence(k=3, n=3, clear=10))
"""Three ticks without any reading of a GPU that used to give some: the disappearance of the series is the signal."""


_READING_RULES = tuple(rule.rule for rule in READING_RULES.values())


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame led to. `decisions()` changed, and must be written through, exactly where there are findings."""

    features: tuple[Features, ...] = ()
    findings: tuple[Finding, ...] = ()
    baselines: Baselines | None = None


class _Learning(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    run_id: int
    seq: int
    minute: int
    deviations: bytes
    high: dict[str, int]
    frozen: dict[str, int]
    pending: tuple[Episode, ...]
    pci: dict[str, str]
    links: bytes = b""
    host: bytes = b""


class _Decisions(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    episodes: tuple[Episode, ...]
    events: EventState


class NodeDetector:
    """The detector of one node; feed it the node's frames and events in order. `findings` is the budget of the forest's
    alarms: at most so many per 10,000 GPU-days of health."""

    def __init__(self, cluster: str, node: str, model: Forest, findings: float = FINDINGS) -> None:
        self._cluster, self._node = cluster, node
        self._alarm_p = alarm_p(findings, ALARM.persistence.k)
        self.model = model
        self._deviations = Deviations()
        self._episodes = Episodes(cluster)
        self._events = EventWatch(cluster, node)
        self._links = LinkWatch(node)
        self._host = HostWatch(node, model, findings)
        self._last = (-1, -1)
        self._ts_ms = 0
        self._minute = -1
        self._stagger_ms = int(digest(node)[:8], 16) % BASELINES_MS
        self._high: dict[str, int] = {}  # ticks of low p-values, less those of others since
        self._frozen: dict[str, int] = {}  # ticks of standing still without a finding
        self._jobs: tuple[str, ...] = ()  # of the GPUs, one each
        self._busy: tuple[str, ...] = ()  # the different ones
        self._gpus: tuple[Gpu, ...] = ()
        self._pci: dict[str, str] = {}

    def update(self, frame: NodeFrame) -> NodeVerdict:
        """Judge one frame. A repeat, or a frame not newer than the last by (run_id, seq), gives an empty verdict."""
        if (frame.run_id, frame.seq) <= self._last:
            return NodeVerdict()
        self._last, self._ts_ms = (frame.run_id, frame.seq), frame.ts_ms
        if frame.gpus is not self._gpus and any(gpu.pci for gpu in frame.gpus):
            self._gpus = frame.gpus
        tick = self._deviations.update(frame)
        scores = self._score(tick)
        works = WORKING in tick.state.tolist() if tick.uuids else None
        if tick.jobs is not self._jobs:
            self._jobs, self._busy = tick.jobs, tuple(sorted({job for job in tick.jobs if job}))
        findings = [
            *self._events.tick(frame.ts_ms, tick.uuids, tick.here),
            *self._readings(frame.ts_ms, tick),
            *self._links.update(frame, self._episodes),
            *port_findings(frame, self._episodes),
            *host_findings(frame, self._episodes),
            *self._host.update(frame, works, self._busy, self._episodes),
            *self._vanished(frame, tick),
            *self._alarms(frame.ts_ms, tick, scores),
        ]
        self._learn(tick, scores)
        return NodeVerdict(
            features=tuple(features_of(frame, tick, scores, self.model.name, self._events)),
            findings=tuple(findings),
            baselines=self._baselines(frame, tick),
        )

    def use(self, model: Forest) -> None:
        """Score by `model` from the next frame on. What is open stays open: p-values mean the same in every model."""
        if model is not self.model:
            self.model = model
            self._host.use(model)

    def note(self, event: Event) -> tuple[Finding, ...]:
        """Judge one event of this node; repeats and events that were over long ago say nothing."""
        if event.kind == "mig_changed":
            # What was cut anew is another instance, whatever its name.
            parted = set(event.detail.get("before", "").split(","))
            self._deviations.forget(np.array([uuid in parted for uuid in self._deviations.uuids], dtype=bool))
        return tuple(self._events.note(event, event.gpu or self._addresses().get(event.pci, ""), self._ts_ms))

    def learning(self) -> bytes:
        """What a kill may lose a minute of. Save it with each `baselines`."""
        return msgspec.msgpack.encode(
            _Learning(
                run_id=self._last[0],
                seq=self._last[1],
                minute=self._minute,
                deviations=self._deviations.save(),
                high=self._high,
                frozen=self._frozen,
                pending=self._episodes.pending(),
                pci=self._addresses(),
                links=self._links.save(),
                host=self._host.save(),
            )
        )

    def decisions(self) -> bytes:
        """What is open: to be written through before the record that changed it is acknowledged."""
        return msgspec.msgpack.encode(_Decisions(episodes=self._episodes.decided(), events=self._events.state()))

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states (None: nothing was saved). Raises StateError where one cannot be continued.

        Returns the last word on every open or lately closed finding: send them once more. They carry the same id and
        revision, so whoever has them drops them, and none is lost to a kill between saving and sending.
        """
        pending: tuple[Episode, ...] = ()
        if learning is not None:
            learned = unpack(learning, _Learning)
            self._deviations.restore(learned.deviations)
            self._links.restore(learned.links)
            self._host.restore(learned.host)
            self._last, self._minute = (learned.run_id, learned.seq), learned.minute
            self._high, self._frozen = learned.high, learned.frozen
            self._pci, pending = learned.pci, learned.pending
        if decisions is None:
            self._episodes.restore((), pending)
            return ()
        decided = unpack(decisions, _Decisions)
        return (*self._episodes.restore(decided.episodes, pending), *self._events.restore(decided.events))

    def _addresses(self) -> dict[str, str]:
        """PCI addresses of the newest frame that has any, and whose GPU is there."""
        if self._gpus:
            self._pci, self._gpus = {gpu.pci: gpu.parent or gpu.uuid for gpu in self._gpus if gpu.pci}, ()
        return self._pci

    def _score(self, tick: Deviation) -> Scores:
        return Scores(*self.model.judge(tick.features, tick.judged))

    def _readings(self, ts_ms: int, tick: Deviation) -> list[Finding]:
        said: list[Finding] = []
        if nothing_to_see(tick) and self._episodes.idle(*_READING_RULES):
            return said
        for rule in READING_RULES.values():
            holds = rule.holds(tick)
            if self._episodes.idle(rule.rule) and not holds.any():
                continue
            for row, active in enumerate(observations(tick, rule, holds)):
                said += self._episodes.observe(
                    rule.rule,
                    self._gpu(tick.uuids[row]),
                    active,
                    ts_ms,
                    lambda rule=rule, row=row: reading_verdict(tick, rule, row),  # type: ignore[misc]
                )
        return said

    def _vanished(self, frame: NodeFrame, tick: Deviation) -> list[Finding]:
        """GPUs that gave readings and do not any more; all of them at once is one finding about the node."""
        known, here = tick.known.tolist(), tick.here.tolist()
        if here == known and self._episodes.idle(VANISHED):
            return []
        all_gone = len(here) > 1 and any(known) and not any(here)
        lost = bool(frame.missing.get("lost") or frame.missing.get("reset_required"))
        if frame.missing.get("not_new"):
            return []  # the source has nothing new, which is no silence of the GPUs
        node = Subject(scope="node", node=self._node)
        verdict = _vanished_verdict("the node", "sensor_fault", 0.6)
        said = self._episodes.observe(VANISHED, node, all_gone, frame.ts_ms, lambda: verdict)
        for uuid, is_known, is_here in zip(tick.uuids, known, here, strict=True):
            # MIG instances are taken away by hand, and their GPU is still watched.
            active = None if all_gone or is_instance(uuid) or self._events.lost(uuid) else is_known and not is_here
            said += self._episodes.observe(
                VANISHED,
                self._gpu(uuid),
                active,
                frame.ts_ms,
                lambda uuid=uuid: _vanished_verdict(  # type: ignore[misc]
                    f"GPU {uuid}", "gpu_lost" if lost else "sensor_fault", 0.8 if lost else 0.5
                ),
            )
        return said

    def _alarms(self, ts_ms: int, tick: Deviation, scores: Scores) -> list[Finding]:
        """Where a rule speaks of a GPU already, the forest has nothing to add."""
        said: list[Finding] = []
        score, p, lowest = scores
        if lowest >= self._alarm_p and self._episodes.idle(ALARM):
            return said
        active = alarms(tick, p, self._alarm_p).tolist()
        if not any(active) and self._episodes.idle(ALARM):
            return said
        explained = {subject.gpu for subject in self._episodes.open()} - {s.gpu for s in self._episodes.open(ALARM)}
        for row, uuid in enumerate(tick.uuids):
            said += self._episodes.observe(
                ALARM,
                self._gpu(uuid),
                None if np.isnan(p[row]) or uuid in explained else active[row],
                ts_ms,
                lambda row=row: alarm_verdict(tick, row, float(p[row]), float(score[row])),  # type: ignore[misc]
            )
        return said

    def _learn(self, tick: Deviation, scores: Scores) -> None:
        """Baselines stand still while a GPU is unusual; one that stays so without a finding is learned anew."""
        if scores.lowest >= FREEZE_P and not (self._high or self._frozen) and self._episodes.idle():
            self._deviations.learn(everyone(len(tick.uuids)))
            return
        low = [value < FREEZE_P for value in scores.p.tolist()]
        troubled = {subject.gpu for subject in self._episodes.open()}
        high = {
            uuid: min(FREEZE_MOST, max(0, self._high.get(uuid, 0) + (1 if low else -1)))
            for uuid, low in zip(tick.uuids, low, strict=True)
            if low or uuid in self._high
        }
        self._high = {uuid: ticks for uuid, ticks in high.items() if ticks}
        unusual = np.array(
            [uuid in troubled or self._high.get(uuid, 0) >= FREEZE_TICKS for uuid in tick.uuids], dtype=bool
        )
        blind = {subject.gpu for subject in self._episodes.open(READING_RULES["sensor"].rule)}
        self._deviations.learn(~unusual, np.array([uuid in blind for uuid in tick.uuids], dtype=bool))
        if not unusual.any() and not self._frozen:
            return
        self._frozen = {
            uuid: self._frozen.get(uuid, 0) + 1
            for uuid, frozen in zip(tick.uuids, unusual.tolist(), strict=True)
            if frozen and uuid not in troubled
        }
        stuck = np.array([self._frozen.get(uuid, 0) > RELEARN_TICKS for uuid in tick.uuids], dtype=bool)
        if stuck.any():
            self._deviations.forget(stuck)

    def _baselines(self, frame: NodeFrame, tick: Deviation) -> Baselines | None:
        """Once a minute of event time, each node at its own second."""
        minute = (frame.ts_ms + self._stagger_ms) // BASELINES_MS
        before, self._minute = self._minute, minute
        if before in (-1, minute) or not tick.uuids:
            return None
        return baselines_of(frame, tick, self._deviations.baseline)

    def _gpu(self, uuid: str) -> Subject:
        return Subject(scope="gpu", node=self._node, gpu=uuid)


def _vanished_verdict(who: str, cause: Literal["gpu_lost", "sensor_fault"], confidence: float) -> Verdict:
    return Verdict(
        cause=cause,
        confidence=confidence,
        runner_up="sensor_fault" if cause == "gpu_lost" else "gpu_lost",
        score=1.0,
        summary=f"no reading of {who} any more",
        evidence=(Evidence(text=f"all readings of {who} stopped while its agent goes on"),),
    )
