"""The node's host beside its own past, as its GPUs are: a slow robust baseline, deviations, the fleet's forest.

Judged are readings in which a host is ill rather than busy: pressure on CPUs, memory and storage, stolen CPU time,
memory left, the node's power, and the heat of its CPUs. Use and load of CPUs say what it works on, not how it is, and
are not judged here; cooling of tray and rack is the rack's detector's. A reading is trouble where it is unusual for
this host (by the alarm budget), moved the wrong way, and beyond what anybody minds (`Judged.least`); for a minute,
because a checkpoint is over sooner. Power has no wrong way and no such limit, so it is compared only while the node
does what it did: a node without GPUs in its frames works where it draws more than half of the most it ever drew.
It sees one node only: where all nodes move together, it is the job (`detectors.incident.cause` compares the hosts of a
job).
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from detectors.condition import AVERAGED_TICKS, Averages, Columns, Float32, Index, Ranges
from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.forest.magnitude import measured
from detectors.forest.model import Forest
from detectors.node.alarm import FREEZE_MOST, FREEZE_P, FREEZE_TICKS, RELEARN_TICKS
from detectors.node.baseline import Baseline, floors
from detectors.node.budget import alarm_p
from detectors.node.coupling import Couplings
from detectors.node.deviation import GAP_MS
from detectors.node.gpu_columns import SETTLE_HEAT_TICKS, SETTLE_TICKS
from detectors.node.host_pass import CENTRE, FAR, MOVED, READINGS, UNJUDGED, VALUES, judge, learn_from, read
from detectors.state import floats, to_bytes, unpack
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame

IDLE, WORKING = 0, 1
WORKING_SHARE, IDLE_SHARE = 0.6, 0.5
"""Of the most power that a node ever drew: idle nodes of eight H100 draw 0.35 to 0.4 of it, waiting ones 0.45."""


class Judged(NamedTuple):
    """One reading: `way` is +1 where more is worse, -1 where less is, 0 where either is unusual. It is trouble from
    `least` on (in the wrong way); of a `share_of` another reading."""

    name: str
    way: int
    cause: Cause
    least: float
    words: str
    share_of: str = ""


EVERY_SECOND = (
    Judged("cpu_pressure_pct", 1, "host_cpu", 20, "processes wait for CPUs"),
    Judged("cpu_steal_pct", 1, "host_cpu", 10, "CPU time is stolen by the hypervisor"),
    Judged("memory_pressure_pct", 1, "host_memory", 10, "processes wait for memory"),
    Judged("memory_full_pressure_pct", 1, "host_memory", 10, "all processes wait for memory"),
    Judged("io_pressure_pct", 1, "host_io", 15, "processes wait for storage"),
    Judged("io_full_pressure_pct", 1, "host_io", 15, "all processes wait for storage"),
    Judged("memory_available_mib", -1, "host_memory", 0.1, "memory is nearly used up", "memory_total_mib"),
    Judged("node_power_w", 0, "unknown", 0, "the node draws another power than it did at this work"),
)
"""What is read every second. Limits as in `cause.HOST_SIGNS`: there a late rank speaks for them, here a minute does."""

SLOWLY = (Judged("temperature_margin_c", -1, "host_cpu", 10, "CPUs are close to where they slow down"),)
"""What is read every ten seconds. Ten degrees: CPUs hold their clock to within a few degrees of the limit, and a
margin that shrank by itself to ten is a fan, paste or inlet that will take the rest."""

FAST_RULE = Rule("host", "degradation", Persistence(k=50, n=60, clear=30))
SLOW_RULE = Rule("host.heat", "degradation", Persistence(k=6, n=8, clear=6))


_EVERYTHING = np.ones(1, dtype=np.bool_)


class _Kind(NamedTuple):
    """What is read in one rhythm, the same for every node: `names` are judged, `wanted` read. `ways` (names,) are those
    of `Judged`, `settle` in readings, `floor` the least spreads, `low` and `high` (wanted,) the catalogue's limits."""

    judged: tuple[Judged, ...]
    rule: Rule
    every_s: float
    names: tuple[str, ...]
    wanted: tuple[str, ...]
    ways: Float32
    settle: Float32
    floor: Float32
    low: Float32
    high: Float32
    power: int


def _kind(judged: tuple[Judged, ...], rule: Rule, every_s: float) -> _Kind:
    names = tuple(one.name for one in judged)
    wanted = (*names, *(one.share_of for one in judged if one.share_of))
    ranges = Ranges("host", wanted)
    settle = [SETTLE_HEAT_TICKS if name.endswith("_c") else SETTLE_TICKS for name in names]
    return _Kind(
        judged=judged,
        rule=rule,
        every_s=every_s,
        names=names,
        wanted=wanted,
        ways=np.array([one.way for one in judged], dtype=np.float32),
        settle=np.array(settle, dtype=np.float32) / np.float32(every_s),
        floor=floors(names),
        low=ranges.low,
        high=ranges.high,
        power=names.index("node_power_w") if "node_power_w" in names else -1,
    )


_FAST, _SLOW = _kind(EVERY_SECOND, FAST_RULE, 1.0), _kind(SLOWLY, SLOW_RULE, 10.0)


@lru_cache(maxsize=64)
def _places(wanted: tuple[str, ...], layout: tuple[str, ...]) -> tuple[Index, Index]:
    """Which columns of a matrix of this layout are wanted ones, and which of them."""
    return Columns(wanted).places(layout)


class _Saved(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    columns: tuple[str, ...]
    baseline: bytes
    couplings: bytes
    ring: bytes
    ring_at: int
    age: int
    high: int
    frozen: int
    top: float
    usual_w: float
    state: int
    jobs: tuple[str, ...]
    run_id: int
    ts_ms: int


class HostWatch:
    """The host of one node; `update` takes every frame, what it says goes through the node's episodes."""

    def __init__(self, node: str, model: Forest, findings: float) -> None:
        self._parts = (
            _Part(_FAST, model, findings),
            _Part(_SLOW, model, findings),
        )
        self._subject = Subject(scope="node", node=node)

    def update(self, frame: NodeFrame, works: bool | None, jobs: tuple[str, ...], episodes: Episodes) -> list[Finding]:
        """Judge one frame. `works` says whether the node's GPUs do (None: none to be seen), `jobs` for whom."""
        matrix = frame.sections.get("host")
        if matrix is None or len(matrix.rows) != 1:
            return []
        return [said for part in self._parts for said in part.update(frame, works, jobs, self._subject, episodes)]

    def use(self, model: Forest) -> None:
        for part in self._parts:
            part.model = model

    def save(self) -> bytes:
        return msgspec.msgpack.encode([part.saved() for part in self._parts])

    def restore(self, saved: bytes) -> None:
        """Continue from a checkpoint; raises StateError where it does not fit."""
        if saved:
            for part, old in zip(self._parts, unpack(saved, _Both).parts, strict=True):
                part.restore(old)


class _Both(msgspec.Struct, array_like=True):
    fast: _Saved
    slow: _Saved

    @property
    def parts(self) -> tuple[_Saved, _Saved]:
        return (self.fast, self.slow)


class _Part:
    """Readings of one rhythm: one row, a baseline for each of idle and working."""

    def __init__(self, kind: _Kind, model: Forest, findings: float) -> None:
        self._kind, self.model = kind, model
        self._limit = alarm_p(findings, kind.rule.persistence.k, kind.every_s)
        self._layout: tuple[str, ...] = ()
        self._source, self._target = _places(kind.wanted, ())
        self._averages = Averages(1, len(kind.names))
        self._baseline = Baseline(kind.names, 1, 2)
        self._couplings = Couplings(kind.names, 1)
        self._age = SETTLE_HEAT_TICKS  # seen for the first time: as it ever was
        self._high = self._frozen = 0
        self._top, self._usual_w = 0.0, np.nan  # the most ever drawn, and what is usual at work
        self._state = IDLE
        self._jobs: tuple[str, ...] = ()
        self._run_id, self._ts_ms = -1, 0

    def update(
        self, frame: NodeFrame, works: bool | None, jobs: tuple[str, ...], subject: Subject, episodes: Episodes
    ) -> list[Finding]:
        matrix, kind = frame.sections["host"], self._kind
        if matrix.columns is not self._layout:
            self._layout, (self._source, self._target) = matrix.columns, _places(kind.wanted, matrix.columns)
        if not len(self._target):
            return []
        new = frame.run_id != self._run_id or abs(frame.ts_ms - self._ts_ms) > GAP_MS
        tick = np.empty((4, len(kind.wanted)), dtype=np.float32)
        averages = self._averages
        if not read(
            matrix.values(), self._source, self._target, kind.low, kind.high, new, averages.ring, averages.at, tick
        ):
            return []
        averages.step()
        if new and self._run_id >= 0:
            self._age = 0
        self._run_id, self._ts_ms = frame.run_id, frame.ts_ms
        self._follow(works, jobs, tick)
        calm = self._high <= FREEZE_TICKS and episodes.idle(kind.rule)
        baseline, couplings = self._baseline, self._couplings
        found, due = judge(
            tick, self._state, self._age, calm, kind.ways, kind.settle, kind.floor, baseline.cells,
            couplings.covariance, couplings.count,
        )  # fmt: skip
        if due:
            couplings.draw(_EVERYTHING)
        if kind.power >= 0 and self._state == WORKING:
            self._usual_w = float(tick[CENTRE, kind.power])
        if calm and found != MOVED:  # nothing to say, and learned already
            self._high, self._frozen = max(0, self._high - 1), 0
            return []
        return self._look(tick, found, subject, frame.ts_ms, episodes)

    def _look(self, tick: Float32, found: int, subject: Subject, ts_ms: int, episodes: Episodes) -> list[Finding]:
        """What is to be said where something moved, or is in trouble."""
        kind = self._kind
        readings, z, centre = tick[READINGS : CENTRE + 1, : len(kind.names)]
        p, score, wrong = 1.0, 0.0, list[int]()
        if found == MOVED:  # else nothing is an alarm, whatever the forest says
            p, score = self._score(z[None])
        if p < self._limit:
            wrong = self._wrong(tick[VALUES], readings, np.where(kind.ways == 0, np.abs(z), kind.ways * z).tolist())
        said: list[Finding] = []
        if wrong or not episodes.idle(kind.rule):
            said = episodes.observe(
                kind.rule,
                subject,
                bool(wrong) if found != UNJUDGED else None,
                ts_ms,
                lambda: self._verdict(wrong, readings, centre, z, p, score),
            )
        self._learn(tick, p, not episodes.idle(kind.rule) and episodes.is_open(kind.rule, subject))
        return said

    def _score(self, z: Float32) -> tuple[float, float]:
        """p-value and score of the deviations, those the good way left out."""
        good = z * self._kind.ways < 0
        residual = self._couplings.residual(z)
        rows, _ = measured(
            np.where(good, np.float32(0), z), np.where(good, np.float32(0), residual), np.zeros(1, np.float32)
        )
        score = self.model.score(rows)
        return float(self.model.p_value(rows, score)[0]), float(score[0])

    def saved(self) -> _Saved:
        return _Saved(
            columns=self._kind.names,
            baseline=self._baseline.state(),
            couplings=self._couplings.state(),
            ring=to_bytes(self._averages.ring),
            ring_at=self._averages.at,
            age=self._age,
            high=self._high,
            frozen=self._frozen,
            top=self._top,
            usual_w=self._usual_w,
            state=self._state,
            jobs=self._jobs,
            run_id=self._run_id,
            ts_ms=self._ts_ms,
        )

    def restore(self, old: _Saved) -> None:
        self._baseline.restore(old.baseline)
        self._couplings.restore(old.couplings)
        if old.columns == self._kind.names:
            self._averages.ring = floats(old.ring, AVERAGED_TICKS, 1, len(self._kind.names))
            self._averages.at = old.ring_at
        self._age, self._high, self._frozen = old.age, old.high, old.frozen
        self._top, self._usual_w, self._state, self._jobs = old.top, old.usual_w, old.state, old.jobs
        self._run_id, self._ts_ms = old.run_id, old.ts_ms

    def _follow(self, works: bool | None, jobs: tuple[str, ...], tick: Float32) -> None:
        """What the node does now, and for how long; another job starts what was usual at work anew."""
        state = self._state if works is None else int(works)
        at = self._kind.power
        if works is None and at >= 0 and (power := float(tick[READINGS, at])) == power:
            if self._usual_w < IDLE_SHARE * power:  # what was taken for work so far was none
                self._forget()
                self._state = state = WORKING
            self._top = max(self._top, power)
            state = int(power >= (IDLE_SHARE if self._state == WORKING else WORKING_SHARE) * self._top)
        if jobs and jobs != self._jobs:
            if self._jobs:
                self._forget()
            self._jobs = jobs
        self._age = self._age + 1 if state == self._state else 0
        self._state = state

    def _forget(self) -> None:
        self._baseline.forget(WORKING, _EVERYTHING)
        self._couplings.forget(_EVERYTHING)
        self._age, self._usual_w = 0, np.nan

    def _wrong(self, values: Float32, readings: Float32, worse: list[float]) -> list[int]:
        """Places of the readings that are trouble, the most unusual first."""
        found = []
        for i, one in enumerate(self._kind.judged):
            reading = float(readings[i])
            if one.share_of:
                reading /= float(values[self._columns_at(one.share_of)])
            trouble = one.way == 0 or one.way * reading >= one.way * one.least
            if worse[i] >= FAR and trouble:
                found.append(i)
        return sorted(found, key=lambda i: -worse[i])

    def _columns_at(self, name: str) -> int:
        others = [one.share_of for one in self._kind.judged if one.share_of]
        return len(self._kind.names) + others.index(name)

    def _learn(self, tick: Float32, p: float, open_: bool) -> None:
        self._high = min(FREEZE_MOST, max(0, self._high + (1 if p < FREEZE_P else -1)))
        usual = not open_ and self._high < FREEZE_TICKS
        self._frozen = 0 if usual else self._frozen + 1
        if self._frozen > RELEARN_TICKS:  # it stays so: this is its usual from now on
            self._baseline.forget(self._state, _EVERYTHING)
            self._couplings.forget(_EVERYTHING)
            self._frozen = self._high = 0
        if usual:
            kind, couplings = self._kind, self._couplings
            if learn_from(
                tick, self._state, self._age, kind.settle, kind.floor, self._baseline.cells, couplings.covariance,
                couplings.count,
            ):  # fmt: skip
                couplings.draw(_EVERYTHING)

    def _verdict(
        self, wrong: list[int], readings: Float32, centre: Float32, z: Float32, p: float, score: float
    ) -> Verdict:
        first = self._kind.judged[wrong[0]]
        evidence = []
        for i in wrong[:3]:
            one, value, usual = self._kind.judged[i], float(readings[i]), float(centre[i])
            text = f"{one.words}: {one.name} {value:.4g}, usually {usual:.4g} ({float(z[i]):+.1f} spreads)"
            evidence.append(Evidence(text=text, metric=one.name, value=value, baseline=usual))
        return Verdict(
            cause=first.cause,
            confidence=0.5,
            score=score,
            summary=f"host differs from its own past (p {p:.1g}): {CAUSES[first.cause].words}",
            evidence=tuple(evidence),
        )
