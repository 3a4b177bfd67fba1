"""The node's host beside its own past, as its GPUs are: a slow robust baseline, deviations, the fleet's forest.

Judged are readings in which a host is ill rather than busy: pressure on CPUs, memory and storage, stolen CPU time,
memory left, the node's power, and the heat of its CPUs. Use and load of CPUs say what it works on, not how it is, and
are not judged here; cooling of tray and rack is the rack's detector's. A reading is trouble where it is unusual for
this host (by the alarm budget), moved the wrong way, and beyond what anybody minds (`Judged.least`); for a minute,
because a checkpoint is over sooner. Power has no wrong way and no such limit, so it is compared only while the node
does what it did: a node without GPUs in its frames works where it draws more than half of the most it ever drew.
It sees one node only: where all nodes move together, it is the job (`detectors.cause` compares the hosts of a job).
"""

from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.alarm import FREEZE_MOST, FREEZE_P, FREEZE_TICKS, RELEARN_TICKS
from detectors.baseline import Baseline
from detectors.budget import alarm_p
from detectors.compile import compiled
from detectors.condition import AVERAGED_TICKS, Averages, Columns, Float32, Index, Ranges
from detectors.coupling import Couplings
from detectors.deviation import GAP_MS, SETTLE_HEAT_TICKS, SETTLE_TICKS
from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.forest import Forest
from detectors.magnitude import measured
from detectors.state import floats, to_bytes, unpack
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame

FAR = 4.0
"""Spreads from which a reading counts as moved (as for the signs of a GPU's alarm)."""

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


_STATES = tuple(np.array([state], dtype=np.intp) for state in (IDLE, WORKING))
_EVERYTHING = np.ones(1, dtype=np.bool_)


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
            _Part(EVERY_SECOND, FAST_RULE, model, findings, 1.0),
            _Part(SLOWLY, SLOW_RULE, model, findings, 10.0),
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

    def __init__(self, judged: tuple[Judged, ...], rule: Rule, model: Forest, findings: float, every_s: float) -> None:
        self._judged, self._rule, self.model = judged, rule, model
        self._limit = alarm_p(findings, rule.persistence.k, every_s)
        names = tuple(one.name for one in judged)
        wanted = (*names, *(one.share_of for one in judged if one.share_of))
        self._columns, self._ranges = Columns(wanted), Ranges("host", wanted)
        self._wanted, self._ways = wanted, [one.way for one in judged]
        settle = [SETTLE_HEAT_TICKS if name.endswith("_c") else SETTLE_TICKS for name in names]
        self._settle = np.array(settle, dtype=np.float32) / np.float32(every_s)
        self._names = names
        self._averages = Averages(1, len(names))
        self._baseline = Baseline(names, 1, 2)
        self._couplings = Couplings(names, 1)
        self._power = names.index("node_power_w") if "node_power_w" in names else -1
        self._age = SETTLE_HEAT_TICKS  # seen for the first time: as it ever was
        self._high = self._frozen = 0
        self._top, self._usual_w = 0.0, np.nan  # the most ever drawn, and what is usual at work
        self._state = IDLE
        self._jobs: tuple[str, ...] = ()
        self._run_id, self._ts_ms = -1, 0

    def update(
        self, frame: NodeFrame, works: bool | None, jobs: tuple[str, ...], subject: Subject, episodes: Episodes
    ) -> list[Finding]:
        matrix = frame.sections["host"]
        source, target = self._columns.places(matrix.columns)
        if not len(target):
            return []
        values, readings = np.empty((1, len(self._wanted)), np.float32), np.empty((1, len(self._names)), np.float32)
        given = matrix.values()
        if not _here(given, source, target, self._ranges.low, self._ranges.high, values, len(self._names)):
            return []
        if frame.run_id != self._run_id or abs(frame.ts_ms - self._ts_ms) > GAP_MS:
            self._averages.restart()
            if self._run_id >= 0:
                self._age = 0
        self._run_id, self._ts_ms = frame.run_id, frame.ts_ms
        _average(values, self._averages.ring, self._averages.step(), readings)
        self._follow(works, jobs, readings)
        state = _STATES[self._state]
        settled = (self._age >= self._settle)[None]
        z, centre = self._baseline.compare(readings, state, settled)
        if self._power >= 0 and self._state == WORKING:
            self._usual_w = float(centre[0, self._power])
        worse = [way * value if way else abs(value) for way, value in zip(self._ways, z[0].tolist(), strict=True)]
        judged = any(value == value for value in worse)
        p, score = 1.0, 0.0
        if any(value >= FAR for value in worse):  # below, nothing is an alarm whatever the forest says
            p, score = self._score(z)
        wrong = self._wrong(values[0], readings[0], worse) if p < self._limit else []
        said: list[Finding] = []
        if wrong or not episodes.idle(self._rule):
            said = episodes.observe(
                self._rule,
                subject,
                bool(wrong) if judged else None,
                frame.ts_ms,
                lambda: self._verdict(wrong, readings[0], centre[0], z[0], p, score),
            )
        self._learn(
            readings, z, state, settled, p, not episodes.idle(self._rule) and episodes.is_open(self._rule, subject)
        )
        return said

    def _score(self, z: Float32) -> tuple[float, float]:
        """p-value and score of the deviations, those the good way left out."""
        good = z * np.array(self._ways, dtype=np.float32) < 0
        residual = self._couplings.residual(z)
        rows, _ = measured(
            np.where(good, np.float32(0), z), np.where(good, np.float32(0), residual), np.zeros(1, np.float32)
        )
        score = self.model.score(rows)
        return float(self.model.p_value(rows, score)[0]), float(score[0])

    def saved(self) -> _Saved:
        return _Saved(
            columns=self._names,
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
        if old.columns == self._names:
            self._averages.ring = floats(old.ring, AVERAGED_TICKS, 1, len(self._names))
            self._averages.at = old.ring_at
        self._age, self._high, self._frozen = old.age, old.high, old.frozen
        self._top, self._usual_w, self._state, self._jobs = old.top, old.usual_w, old.state, old.jobs
        self._run_id, self._ts_ms = old.run_id, old.ts_ms

    def _follow(self, works: bool | None, jobs: tuple[str, ...], readings: Float32) -> None:
        """What the node does now, and for how long; another job starts what was usual at work anew."""
        state = self._state if works is None else int(works)
        power = float(readings[0, self._power]) if self._power >= 0 else np.nan
        if works is None and power == power:
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
        for i, one in enumerate(self._judged):
            reading = float(readings[i])
            if one.share_of:
                reading /= float(values[self._columns_at(one.share_of)])
            trouble = one.way == 0 or one.way * reading >= one.way * one.least
            if worse[i] >= FAR and trouble:
                found.append(i)
        return sorted(found, key=lambda i: -worse[i])

    def _columns_at(self, name: str) -> int:
        others = [one.share_of for one in self._judged if one.share_of]
        return len(self._names) + others.index(name)

    def _learn(
        self, readings: Float32, z: Float32, state: Index, settled: NDArray[np.bool_], p: float, open_: bool
    ) -> None:
        self._high = min(FREEZE_MOST, max(0, self._high + (1 if p < FREEZE_P else -1)))
        usual = not open_ and self._high < FREEZE_TICKS
        self._frozen = 0 if usual else self._frozen + 1
        if self._frozen > RELEARN_TICKS:  # it stays so: this is its usual from now on
            self._baseline.forget(self._state, _EVERYTHING)
            self._couplings.forget(_EVERYTHING)
            self._frozen = self._high = 0
        if usual:
            self._baseline.learn(readings, state, settled)
            self._couplings.learn(z, _EVERYTHING)

    def _verdict(
        self, wrong: list[int], readings: Float32, centre: Float32, z: Float32, p: float, score: float
    ) -> Verdict:
        first = self._judged[wrong[0]]
        evidence = []
        for i in wrong[:3]:
            one, value, usual = self._judged[i], float(readings[i]), float(centre[i])
            text = f"{one.words}: {one.name} {value:.4g}, usually {usual:.4g} ({float(z[i]):+.1f} spreads)"
            evidence.append(Evidence(text=text, metric=one.name, value=value, baseline=usual))
        return Verdict(
            cause=first.cause,
            confidence=0.5,
            score=score,
            summary=f"host differs from its own past (p {p:.1g}): {CAUSES[first.cause].words}",
            evidence=tuple(evidence),
        )


@compiled
def _here(
    given: Float32, source: Index, target: Index, low: Float32, high: Float32, values: Float32, judged: int
) -> bool:
    """The wanted readings in range into `values`; whether any of the first `judged` is there."""
    values[:] = np.nan
    found = False
    for k in range(len(target)):
        c, value = target[k], given[0, source[k]]
        if value >= low[c] and value <= high[c]:
            values[0, c] = value
            found |= c < judged
    return found


@compiled
def _average(values: Float32, ring: Float32, step: int, readings: Float32) -> None:
    """`Averages.apply` of one row."""
    for c in range(readings.shape[1]):
        ring[step, 0, c] = values[0, c]
        total, count = np.float32(0.0), np.float32(0.0)
        for k in range(ring.shape[0]):
            if not np.isnan(ring[k, 0, c]):
                total += ring[k, 0, c]
                count += np.float32(1.0)
        readings[0, c] = total / count if count > 0 else np.nan
