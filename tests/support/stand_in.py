"""A worker with stand-in detectors: what they find is written on the records, so a test knows every answer.

`bad` in a frame's missing counts makes its node's condition hold, `poison` makes its detector raise. Run as a program
it is a worker in a process of its own, for tests that kill it.
"""

import json
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from detectors.episode import Episode, Episodes, Rule, Verdict
from runtime.log import configure
from runtime.signals import set_on
from schemas import Baselines, Event, Features, Finding, Incident, Inventory, NodeFrame, StepFrame
from schemas.features import GpuFeatures
from schemas.finding import Subject
from schemas.identity import incident_id
from streams.incident import TOPICS as FINDINGS
from streams.incident import IncidentPartition
from streams.job import TOPICS as JOBS
from streams.job import JobPartition, JobRecord
from streams.lane import Key
from streams.node import TOPICS as NODES
from streams.node import NodePartition
from streams.service import run
from streams.settings import WorkerSettings
from streams.worker import Plan

NODE_RULE = Rule("stand_in", "hardware")
JOB_RULE = Rule("stand_in_job", "straggler")


class _Memory(msgspec.Struct):
    newest: tuple[int, int] = (-1, -1)
    taken: int = 0
    episodes: tuple[Episode, ...] = ()


class Said(NamedTuple):
    features: tuple[Features, ...] = ()
    findings: tuple[Finding, ...] = ()
    baselines: Baselines | None = None


class StandInNode:
    """Says in `score` how many frames it has taken since it began to learn."""

    def __init__(self, key: Key) -> None:
        self._key, self._memory, self._episodes = key, _Memory(), Episodes(key.cluster)

    def update(self, frame: NodeFrame, /) -> Said:
        if (frame.run_id, frame.seq) <= self._memory.newest:
            return Said()
        if "poison" in frame.missing:
            raise ValueError("poison")
        self._memory.newest = (frame.run_id, frame.seq)
        self._memory.taken += 1
        subject = Subject(scope="node", node=frame.node)
        findings = self._episodes.observe(NODE_RULE, subject, "bad" in frame.missing, frame.ts_ms, Verdict)
        said = Features.of(
            cluster=frame.cluster,
            ts_ms=frame.ts_ms,
            node=frame.node,
            run_id=frame.run_id,
            seq=frame.seq,
            gpus=(GpuFeatures(uuid="GPU-1", score=self._memory.taken),),
        )
        return Said((said,), tuple(findings))

    def note(self, event: Event, /) -> Sequence[Finding]:
        return ()

    def learning(self) -> bytes:
        return msgspec.msgpack.encode(self._memory)

    def decisions(self) -> bytes:
        return msgspec.msgpack.encode(_Memory(self._memory.newest, 0, self._episodes.decided()))

    def restore(self, learning: bytes | None, decisions: bytes | None) -> Iterable[Finding]:
        if learning is not None:
            self._memory = msgspec.msgpack.decode(learning, type=_Memory)
        if decisions is None:
            return ()
        decided = msgspec.msgpack.decode(decisions, type=_Memory)
        self._memory.newest = max(self._memory.newest, decided.newest)
        return self._episodes.restore(decided.episodes)


class StandInJob:
    """Its condition holds in a tick in which any rank steps for more than a second."""

    def __init__(self, key: Key) -> None:
        self._key, self._episodes, self._newest_ms = key, Episodes(key.cluster), 0

    def update(self, tick_ms: int, records: Sequence[JobRecord], /) -> Sequence[Finding]:
        if tick_ms <= self._newest_ms:
            return ()
        self._newest_ms = tick_ms
        steps = [step for record in records if isinstance(record, StepFrame) for step in record.steps]
        subject = Subject(scope="job", job=self._key.name)
        nodes = len({record.node for record in records})
        active = any(step.step_us > 1e6 for step in steps)
        return self._episodes.observe(JOB_RULE, subject, active, tick_ms, lambda: Verdict(victims=nodes))

    def learning(self) -> dict[str, bytes]:
        return {"a": b"1", "b": b"2"}

    def decisions(self) -> bytes:
        return msgspec.msgpack.encode(_Memory((self._newest_ms, 0), 0, self._episodes.decided()))

    def restore(self, learning: dict[str, bytes], decisions: bytes | None) -> Iterable[Finding]:
        if decisions is None:
            return ()
        decided = msgspec.msgpack.decode(decisions, type=_Memory)
        self._newest_ms = decided.newest[0]
        return self._episodes.restore(decided.episodes)


class StandInBook:
    """One incident a finding; `advance` is noted but resolves nothing."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._incidents: dict[str, Incident] = {}

    def apply(self, record: Finding | Inventory, /) -> Sequence[Incident]:
        if isinstance(record, Inventory):
            return ()
        if record.summary == "poison":
            raise ValueError("poison")
        old = self._incidents.get(record.id)
        if (old is None) == (record.state == "close") or (old is not None and old.change == "resolve"):
            return ()
        if old is not None and record.state != "close":
            return ()
        incident = Incident(
            cluster=self._cluster,
            ts_ms=record.ts_ms,
            id=incident_id(self._cluster, record.id),
            revision=0 if old is None else old.revision + 1,
            change="open" if old is None else "resolve",
            state="confirmed" if old is None else "resolved",
            kind=record.kind,
            scope=record.subject.scope,
            cause=record.cause,
            confidence=1.0,
            onset_ms=record.onset_ms,
            detected_ms=record.ts_ms,
            findings=(record.id,),
        )
        self._incidents[record.id] = incident
        return (incident,)

    def advance(self, ts_ms: int, /) -> Sequence[Incident]:
        return ()

    def state(self) -> dict[str, bytes]:
        return {name: msgspec.msgpack.encode(incident) for name, incident in self._incidents.items()}

    def restore(self, state: dict[str, bytes], /) -> None:
        self._incidents = {name: msgspec.msgpack.decode(raw, type=Incident) for name, raw in state.items()}


def plan() -> Plan:
    return {
        "node": (NODES, partial(NodePartition, make=StandInNode)),
        "job": (JOBS, partial(JobPartition, make=StandInJob)),
        "incident": (FINDINGS, partial(IncidentPartition, make=StandInBook)),
    }


def main() -> None:
    settings = msgspec.convert(json.loads(sys.argv[1]), WorkerSettings)
    stop = threading.Event()
    set_on(stop, signal.SIGTERM)
    configure("worker")
    run(settings, stop, plan=plan())


if __name__ == "__main__":
    main()
