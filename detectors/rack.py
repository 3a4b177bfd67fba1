"""Everything that is said of one rack's cooling: leaks, flow, temperature, pumps, and sensors that contradict.

Ranges after NVIDIA's DSX exemplar (a pod of NVL72-like racks: supply 32 to 33 C, 10 to 14 K rise, 49 to 52 L/min at 35
to 48 kW). Control valves follow the load, so a low flow is a fault only where the water also gets hotter.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.baseline import Baseline
from detectors.condition import AVERAGED_TICKS, Averages, Columns, Float32, Ranges
from detectors.episode import Episode, Episodes, Persistence, Rule, Verdict
from detectors.state import StateError, floats, to_bytes, unpack
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import RackFrame
from schemas.metrics import Section

SUPPLY_HIGH_C = 45.0
"""Supply water above this is too warm for any GPU in use: the upper limit of ASHRAE's class W45."""

SUPPLY_RISE_K = 5.0
"""Above the loop's own usual by this much: pods hold their set point within 1 K."""

LOW_FLOW_SHARE = 0.7
"""Of the loop's own usual flow; measured flows vary by 3 %."""

HOT_SHARE = 1.25
"""Of the usual rise from supply to return: what 80 % of the flow makes of the same heat."""

NO_FLOW_SHARE = 0.05

LEAST_LPM_PER_KW = 0.6
"""Litres a minute and kilowatt: half of what is measured (1.05 to 1.45); water then rises by 24 K, beyond the design
of 20 K."""

LOADED_W = 10_000.0
"""A rack below this gives no heat to judge flow by (off: 95 W; loaded: from 35 kW)."""

PUMP_RAN_PCT, PUMP_STOPPED_PCT = 20.0, 5.0
"""A pump usually above the one and now below the other has stopped; a standby pump is always at 0."""

LOW_PRESSURE_SHARE = 0.7
"""Of the unit's usual pressure at no less speed: a second witness of a low flow, quicker than the heat."""

SUSTAINED = Persistence(k=8, n=10, clear=30)
"""As for GPUs: eight of ten polls, over after half a minute without."""

CONTRADICTED = Persistence(k=50, n=60, clear=60)
"""A sensor is blamed after a minute: by then the water would have told of a real fault."""

RULES: dict[str, tuple[Rule, Cause, float]] = {
    "leak": (Rule("leak", "cooling", Persistence(k=1, n=1, clear=60)), "leak", 0.95),
    "flow": (Rule("flow", "cooling", SUSTAINED), "coolant_flow", 0.85),
    "temperature": (Rule("supply", "cooling", SUSTAINED), "coolant_temperature", 0.85),
    "pump": (Rule("pump", "cooling", SUSTAINED), "pump_fan", 0.85),
    "flow_sensor": (Rule("flow_sensor", "cooling", CONTRADICTED), "sensor_fault", 0.6),
    "leak_sensor": (Rule("leak_sensor", "cooling", CONTRADICTED), "sensor_fault", 0.6),
}
"""One episode each for the whole rack, of a leak for each wet tray. A single alert is enough for a leak, which is over
when dry for a minute."""


class RackVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame led to; `decisions()` changed exactly where there are findings."""

    findings: tuple[Finding, ...] = ()


class _Level(msgspec.Struct, kw_only=True):
    rows: tuple[str, ...]
    ring: bytes
    ring_at: int
    baseline: bytes


class _Learning(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    last: dict[str, tuple[int, int]]
    levels: dict[str, _Level]
    leak_sensors: tuple[str, ...]
    pending: tuple[Episode, ...]


class _Decisions(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    episodes: tuple[Episode, ...]


class Levels:
    """The rows of one section: averaged readings and their usual, learned while nothing is wrong."""

    def __init__(self, section: Section, columns: Sequence[str]) -> None:
        self.section = section
        self.columns = tuple(columns)
        self.rows: tuple[str, ...] = ()
        self._pick, self._ranges = Columns(columns), Ranges(section, columns)
        self._averages = Averages(0, len(columns))
        self._baseline = Baseline(columns, 0)
        self._now: Float32 = np.zeros((0, len(columns)), dtype=np.float32)

    def update(self, frame: RackFrame) -> None:
        """Take a frame's section; rows that are not in it are missing."""
        matrix = frame.sections.get(self.section)
        new = [row for row in (matrix.rows if matrix else ()) if row not in self.rows]
        if new:
            index = np.array([*range(len(self.rows)), *([-1] * len(new))], dtype=np.intp)
            self._averages.take(index)
            self._baseline.take(index)
            self.rows += tuple(new)
        raw = np.full((len(self.rows), len(self.columns)), np.nan, dtype=np.float32)
        if matrix is not None and matrix.rows:
            raw[[self.rows.index(row) for row in matrix.rows]] = self._pick.select(matrix)
        self._now = self._averages.apply(self._ranges.apply(raw)[0])

    def now(self, column: str) -> Float32:
        """Averages of one column, by row."""
        return self._now[:, self.columns.index(column)]

    def usual(self, column: str) -> Float32:
        """Baselines of one column, NaN until warm."""
        at = self.columns.index(column)
        state = np.zeros(len(self.rows), dtype=np.intp)
        warm = self._baseline.warm(state)[:, at]
        usual: Float32 = np.where(warm, self._baseline.centre(state)[:, at], np.float32(np.nan))
        return usual

    def learn(self, usual: bool) -> None:
        rows = len(self.rows)
        self._baseline.learn(self._now, np.zeros(rows, dtype=np.intp), np.full(rows, usual))

    def save(self) -> _Level:
        ring = to_bytes(self._averages.ring)
        return _Level(rows=self.rows, ring=ring, ring_at=self._averages.at, baseline=self._baseline.state())

    def restore(self, old: _Level) -> None:
        self.rows = old.rows
        self._averages.ring = floats(old.ring, AVERAGED_TICKS, len(old.rows), len(self.columns))
        self._averages.at = old.ring_at
        self._baseline.restore(old.baseline)


class RackDetector:
    """The detector of one rack; feed it the rack's frames in order."""

    def __init__(self, cluster: str, rack: str) -> None:
        self._subject = Subject(scope="rack", rack=rack)
        self._episodes = Episodes(cluster)
        self._last: dict[str, tuple[int, int]] = {}
        self._leak_sensors: tuple[str, ...] = ()
        self._loop = Levels("loop", ("supply_c", "return_c", "flow_lpm", "heat_w"))
        self._cdu = Levels("cdu", ("pump_speed_pct", "pressure_kpa"))
        self._shelf = Levels("shelf", ("output_w",))

    def update(self, frame: RackFrame) -> RackVerdict:
        """Judge one frame. A repeat, or one not newer from the same agent, gives an empty verdict."""
        if (frame.run_id, frame.seq) <= self._last.get(frame.node, (-1, -1)):
            return RackVerdict()
        self._last = {**dict(list(self._last.items())[-7:]), frame.node: (frame.run_id, frame.seq)}
        for levels in (self._loop, self._cdu, self._shelf):
            levels.update(frame)
        stopped = self._stopped_pumps()
        signs = {
            "flow": [] if stopped else self._low_flow(),  # a stopped pump explains it
            "temperature": self._warm_supply(),
            "pump": stopped,
            "flow_sensor": self._flow_sensor(),
            "leak_sensor": self._mute_leak_sensors(frame),
        }
        said = [finding for subject, wet in self._leaks(frame) for finding in self._say("leak", subject, wet, frame)]
        for name, evidence in signs.items():
            said += self._say(name, self._subject, evidence, frame)
        calm = not any(signs.values())
        for levels in (self._loop, self._cdu, self._shelf):
            levels.learn(calm)
        return RackVerdict(findings=tuple(said))

    def learning(self) -> bytes:
        """What a kill may lose a minute of."""
        levels = {level.section: level.save() for level in (self._loop, self._cdu, self._shelf)}
        return msgspec.msgpack.encode(
            _Learning(
                last=self._last,
                levels={str(section): level for section, level in levels.items()},
                leak_sensors=self._leak_sensors,
                pending=self._episodes.pending(),
            )
        )

    def decisions(self) -> bytes:
        """What is open: to be written through before the record that changed it is acknowledged."""
        return msgspec.msgpack.encode(_Decisions(episodes=self._episodes.decided()))

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states; returns the last words, to be sent once more. Raises StateError."""
        pending: tuple[Episode, ...] = ()
        if learning is not None:
            learned = unpack(learning, _Learning)
            for level in (self._loop, self._cdu, self._shelf):
                if level.section not in learned.levels:
                    raise StateError(f"a saved rack without its {level.section}")
                level.restore(learned.levels[level.section])
            self._last, self._leak_sensors = learned.last, learned.leak_sensors
            pending = learned.pending
        decided = unpack(decisions, _Decisions).episodes if decisions is not None else ()
        return tuple(self._episodes.restore(decided, pending))

    def _say(self, name: str, subject: Subject, evidence: list[Evidence] | None, frame: RackFrame) -> list[Finding]:
        rule, cause, confidence = RULES[name]
        return self._episodes.observe(
            rule,
            subject,
            None if evidence is None else bool(evidence),
            frame.ts_ms,
            lambda: Verdict(
                cause=cause,
                confidence=confidence,
                score=float(len(evidence or ())),
                summary=f"{CAUSES[cause].words} at {subject.node or subject.rack}",
                evidence=tuple(evidence or ()),
            ),
        )

    def _leaks(self, frame: RackFrame) -> list[tuple[Subject, list[Evidence] | None]]:
        """Each tray, or the rack, with its wet detectors; a detector named "node/detector" belongs to a tray. None
        for a tray whose leak is open and whose detectors say nothing: nobody knows."""
        trays: dict[str, list[Evidence] | None] = dict.fromkeys(
            subject.node for subject in self._episodes.open(RULES["leak"][0])
        )
        for name, value in _leak_states(frame).items():
            tray = name.partition("/")[0] if "/" in name else ""
            wet = trays[tray] = trays.get(tray) or []
            if value > 0:
                wet.append(Evidence(text=f"leak detector {name} reports a leak", metric="leak_detected", value=1.0))
        rack = self._subject.rack
        return [
            (Subject(scope="node", node=node, rack=rack) if node else self._subject, wet) for node, wet in trays.items()
        ]

    def _mute_leak_sensors(self, frame: RackFrame) -> list[Evidence]:
        """Detectors that said something once and do not any more: silence is not dryness."""
        spoke = _leak_states(frame)
        self._leak_sensors = tuple(sorted({*self._leak_sensors, *spoke}))
        return [
            Evidence(text=f"leak detector {name} reports nothing any more", metric="leak_detected")
            for name in self._leak_sensors
            if name not in spoke
        ]

    def _low_flow(self) -> list[Evidence]:
        flow, usual = self._loop.now("flow_lpm"), self._loop.usual("flow_lpm")
        low = (flow < LOW_FLOW_SHARE * usual) & (self._hot() | self._weak_pressure())
        heat_kw = self._loop.now("heat_w") / 1000
        starved = (heat_kw * 1000 > LOADED_W) & (flow < LEAST_LPM_PER_KW * heat_kw)
        return [
            _evidence(f"flow of {row}", "flow_lpm", flow[i], usual[i], "L/min")
            for i, row in enumerate(self._loop.rows)
            if low[i] or starved[i]
        ]

    def _warm_supply(self) -> list[Evidence]:
        supply, usual = self._loop.now("supply_c"), self._loop.usual("supply_c")
        return [
            _evidence(f"supply of {row}", "supply_c", supply[i], usual[i], "C")
            for i, row in enumerate(self._loop.rows)
            if supply[i] > SUPPLY_HIGH_C or supply[i] > usual[i] + SUPPLY_RISE_K
        ]

    def _stopped_pumps(self) -> list[Evidence]:
        speed, usual = self._cdu.now("pump_speed_pct"), self._cdu.usual("pump_speed_pct")
        stopped = (speed < PUMP_STOPPED_PCT) & (usual > PUMP_RAN_PCT)
        return [
            _evidence(f"pump of {row}", "pump_speed_pct", speed[i], usual[i], "%")
            for i, row in enumerate(self._cdu.rows)
            if stopped[i]
        ]

    def _weak_pressure(self) -> bool:
        speed, usual_speed = self._cdu.now("pump_speed_pct"), self._cdu.usual("pump_speed_pct")
        pressure, usual = self._cdu.now("pressure_kpa"), self._cdu.usual("pressure_kpa")
        weak = (usual_speed > PUMP_RAN_PCT) & (speed > 0.9 * usual_speed) & (pressure < LOW_PRESSURE_SHARE * usual)
        return bool(weak.any())

    def _flow_sensor(self) -> list[Evidence]:
        """A flow that reads nearly nothing while the water stays as warm as ever and the rack draws power."""
        flow, usual = self._loop.now("flow_lpm"), self._loop.usual("flow_lpm")
        power, usual_power = self._shelf.now("output_w"), self._shelf.usual("output_w")
        loaded = not len(power) or float(np.nansum(power)) >= 0.5 * float(np.nansum(usual_power))
        nothing = (flow < NO_FLOW_SHARE * usual) & ~self._hot() & ~np.isnan(self._loop.now("return_c"))
        return [
            _evidence(f"flow of {row}", "flow_lpm", flow[i], usual[i], "L/min")
            for i, row in enumerate(self._loop.rows)
            if nothing[i] and loaded
        ]

    def _hot(self) -> NDArray[np.bool_]:
        """Loops whose rise from supply to return is well above usual, or cannot be told."""
        rise = self._loop.now("return_c") - self._loop.now("supply_c")
        usual = self._loop.usual("return_c") - self._loop.usual("supply_c")
        hot: NDArray[np.bool_] = (rise > HOT_SHARE * usual) | np.isnan(rise)
        return hot


def _leak_states(frame: RackFrame) -> dict[str, float]:
    """What the leak detectors say now, 0 or 1; those that say nothing, or nonsense, are not in it."""
    matrix = frame.sections.get("leak")
    if matrix is None:
        return {}
    states = zip(matrix.rows, matrix.column("leak_detected").tolist(), strict=True)
    return {name: value for name, value in states if 0 <= value <= 1}


def _evidence(what: str, metric: str, value: float, usual: float, unit: str) -> Evidence:
    known = usual == usual
    text = f"{what} is {value:.4g} {unit}" + (f", usually {usual:.4g}" if known else "")
    return Evidence(text=text, metric=metric, value=float(value), baseline=float(usual) if known else None, unit=unit)
