"""What a rack's rules look at: the newest readings of every row, their usual, and when there is something to judge.

Rows come when a controller or the building tells them: all at once each second, some of them every ten seconds, or one
number at a time. A reading is held until a newer one comes or it is too old; a section is judged once all its rows have
been told anew, so that one reading is never counted as several.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.condition import AVERAGED_TICKS, Columns, Float32, Ranges, blank
from detectors.condition import take as taken
from detectors.node.baseline import Baseline
from detectors.state import StateError, floats, to_bytes
from schemas.frame import RackFrame
from schemas.metrics import Section

HOLDS = 3.0
"""A reading stands for now for three of its own intervals."""

HOLD_MS = 120_000
"""The longest, and how long the first reading stands. DSX Exchange repeats every value within 100 s, controllers are
polled at least once a minute."""

LEAST_HOLD_MS = 3_000

ROUND_MS = 15_000
"""A section is judged at the latest this long after the last time, whatever rows are still to come."""

USUAL_MS, LONGEST_MS = 1000.0, 60_000.0
"""Pace of judgement that persistence is written for, and the slowest that it is stretched to."""

FOLLOW = 0.2
"""How fast the measured pace follows: five judgements."""

Times = NDArray[np.int64]


class LevelState(msgspec.Struct, kw_only=True):
    """What survives a restart of one section."""

    rows: tuple[str, ...]
    ring: bytes
    seen: bytes
    every: bytes
    baseline: bytes
    pace_ms: float


class Levels:
    """The rows of one section: the mean of each cell's last three readings, and its usual, learned while nothing is
    wrong. Codes and flags are never averaged: the newest holds. `kept`: whether a restart must know of it; what has no
    usual is read anew within a minute, and a rack has thousands of sensors."""

    def __init__(self, section: Section, columns: Sequence[str], averaged: bool = True, kept: bool = True) -> None:
        self.section, self.columns, self.kept = section, tuple(columns), kept
        self.rows: tuple[str, ...] = ()
        self._at: dict[str, int] = {}
        self.pace_ms = USUAL_MS
        self.due = False
        self.nodes: tuple[str, ...] = ()
        self._column = {name: i for i, name in enumerate(columns)}
        self._usual: Float32 | None = None
        self._averaged = averaged
        self._pick, self._ranges = Columns(columns), Ranges(section, columns)
        self._baseline = Baseline(columns, 0)
        self._ring = np.full((AVERAGED_TICKS, 0, len(columns)), np.nan, dtype=np.float32)
        self._seen: Times = np.zeros((0, len(columns)), dtype=np.int64)
        self._fresh: NDArray[np.bool_] = np.zeros((0, len(columns)), dtype=np.bool_)
        self._told: Times = np.zeros(0, dtype=np.int64)
        self._every = np.zeros((0, len(columns)), dtype=np.float64)
        self._now: Float32 = blank(0, len(columns))
        self._judged_ms = 0

    def update(self, frame: RackFrame) -> None:
        """Take a frame's section in; say by `due` whether it is to be judged now."""
        matrix, ts_ms = frame.sections.get(self.section), frame.ts_ms
        if matrix is None and not self.rows:
            self.due = False
            return
        raw = blank(len(self.rows), len(self.columns))
        told = np.zeros(len(self.rows), dtype=np.bool_)
        if matrix is not None and matrix.rows:
            self._add([row for row in matrix.rows if row not in self._at])
            raw, told = blank(len(self.rows), len(self.columns)), np.zeros(len(self.rows), dtype=np.bool_)
            at = [self._at[row] for row in matrix.rows]
            raw[at], told[at] = self._pick.select(matrix), True
        clean = self._ranges.apply(raw)[0]
        self._fresh = ~np.isnan(clean)
        newest = np.concatenate([clean[None], self._ring[:-1]])
        self._ring = np.where(self._fresh, newest, self._ring)
        again = self._fresh & (self._seen > 0)
        since = np.minimum(abs(ts_ms - self._seen), HOLD_MS)
        self._every = np.where(
            again, np.where(self._every > 0, self._every + FOLLOW * (since - self._every), since), self._every
        )
        self._seen = np.where(self._fresh, ts_ms, self._seen)
        self._told = np.where(told, ts_ms, self._told)
        hold = self._hold()
        self._now = np.where(abs(ts_ms - self._seen) <= hold, self._mean(), np.float32(np.nan))
        self._usual = None
        self._pace(ts_ms, bool(told.any()), hold)

    def now(self, column: str) -> Float32:
        """What one column reads now, by row."""
        return self._now[:, self._column[column]]

    def usual(self, column: str) -> Float32:
        """Baselines of one column, NaN until warm."""
        if self._usual is None:
            state = np.zeros(len(self.rows), dtype=np.intp)
            centre = self._baseline.centre(state)
            self._usual = np.where(self._baseline.warm(state), centre, np.float32(np.nan))
        usual: Float32 = self._usual[:, self._column[column]]
        return usual

    def told(self, column: str) -> NDArray[np.bool_]:
        """Rows of which this frame has a reading of the column."""
        return self._fresh[:, self._column[column]]

    def mute(self, column: str) -> NDArray[np.bool_]:
        """Rows that still stand in frames, but without a reading of the column since they had one."""
        out: NDArray[np.bool_] = self._told > self._seen[:, self._column[column]]
        return out

    def silent_ms(self, column: str, ts_ms: int) -> Times:
        """How long ago each row's last reading of the column was; a row that never had one is silent for ever."""
        out: Times = ts_ms - self._seen[:, self._column[column]]
        return out

    def learn(self, usual: bool) -> None:
        """Teach the baseline what this frame has told."""
        if not usual or not self._fresh.any():
            return
        rows = len(self.rows)
        told = np.where(self._fresh, self._now, np.float32(np.nan)).astype(np.float32)
        self._baseline.learn(told, np.zeros(rows, dtype=np.intp), np.ones(rows, dtype=np.bool_))
        self._usual = None

    def save(self) -> LevelState:
        return LevelState(
            rows=self.rows,
            ring=to_bytes(self._ring),
            seen=self._seen.astype("<i8").tobytes(),
            every=to_bytes(self._every.astype(np.float32)),
            baseline=self._baseline.state(),
            pace_ms=self.pace_ms,
        )

    def restore(self, old: LevelState) -> None:
        """Continue from a saved state; raises StateError where it does not fit."""
        shape = (len(old.rows), len(self.columns))
        if len(old.seen) != 8 * shape[0] * shape[1]:
            raise StateError(f"a saved section {self.section} of another size")
        self._ring = floats(old.ring, AVERAGED_TICKS, *shape)
        self._seen = np.frombuffer(old.seen, dtype="<i8").astype(np.int64).reshape(shape)
        self._fresh, self._now = np.zeros(shape, dtype=np.bool_), blank(*shape)
        self._every = floats(old.every, *shape).astype(np.float64)
        self._told = self._seen.max(axis=1) if shape[0] else np.zeros(0, dtype=np.int64)
        self._baseline.restore(old.baseline)
        self._name(old.rows)
        self.pace_ms = old.pace_ms

    def _name(self, rows: tuple[str, ...]) -> None:
        self.rows, self._at = rows, {row: i for i, row in enumerate(rows)}
        self.nodes, self._usual = tuple(node_of(row) for row in rows), None

    def _add(self, new: list[str]) -> None:
        if not new:
            return
        index = np.array([*range(len(self.rows)), *([-1] * len(new))], dtype=np.intp)
        self._ring = np.stack([taken(layer, index) for layer in self._ring])
        never = np.zeros((len(new), len(self.columns)), dtype=np.int64)
        self._seen = np.concatenate([self._seen, never])
        self._every = np.concatenate([self._every, never.astype(np.float64)])
        self._told = np.concatenate([self._told, np.zeros(len(new), dtype=np.int64)])
        self._baseline.take(index)
        self._name(self.rows + tuple(new))

    def _hold(self) -> NDArray[np.float64]:
        """How long each cell's last reading stands, milliseconds."""
        own = np.clip(HOLDS * self._every, LEAST_HOLD_MS, HOLD_MS)
        return np.where(self._every > 0, own, float(HOLD_MS))

    def _mean(self) -> Float32:
        if not self._averaged:
            newest: Float32 = self._ring[0]
            return newest
        here = ~np.isnan(self._ring)
        count = here.sum(axis=0, dtype=np.float32)
        total = np.where(here, self._ring, np.float32(0)).sum(axis=0, dtype=np.float32)
        out: Float32 = np.where(count > 0, total / np.maximum(count, np.float32(1)), np.float32(np.nan))
        return out

    def _pace(self, ts_ms: int, told: bool, hold: NDArray[np.float64]) -> None:
        """Whether all rows that still speak have done so since the last judgement, and how often that is."""
        alive = abs(ts_ms - self._told) <= hold.max(axis=1, initial=0)
        since_ms = abs(ts_ms - self._judged_ms)
        all_told = bool((self._told[alive] > self._judged_ms).all())
        self.due = told and (all_told or since_ms >= ROUND_MS)
        if not self.due:
            return
        if self._judged_ms and since_ms <= 2 * LONGEST_MS:
            self.pace_ms += FOLLOW * (min(float(since_ms), LONGEST_MS) - self.pace_ms)
        self._judged_ms = ts_ms


class RackView:
    """All sections of one rack. `ts_ms` is the tick of the newest frame."""

    def __init__(self, rack: str) -> None:
        self.rack, self.ts_ms = rack, 0
        self.loop = Levels(
            "loop", ("supply_c", "return_c", "flow_lpm", "heat_w", "power_w", "delta_kpa", "level_pct", "status_code")
        )
        self.cdu = Levels("cdu", ("pump_speed_pct", "pump_speed_rpm", "pressure_kpa", "level_pct", "status_code"))
        self.leak = Levels("leak", ("leak_detected", "sensor_failed", "status_code"), averaged=False)
        self.shelf = Levels("shelf", ("output_w", "status_code"))
        self.fan = Levels("fan", ("speed_pct", "speed_rpm", "status_code"))
        self.sensor = Levels("sensor", ("margin_c", "temperature_c", "alarm_code"), averaged=False, kept=False)
        self.bmc = Levels("bmc", ("answers",), averaged=False, kept=False)

        every = (self.loop, self.cdu, self.leak, self.shelf, self.fan, self.sensor, self.bmc)
        self._sections = {levels.section: levels for levels in every}

    @property
    def sections(self) -> tuple[Levels, ...]:
        return tuple(self._sections.values())

    def section(self, name: Section) -> Levels:
        """One section by its name."""
        return self._sections[name]

    def update(self, frame: RackFrame) -> None:
        self.ts_ms = frame.ts_ms
        for levels in self.sections:
            levels.update(frame)

    def learn(self, usual: bool) -> None:
        """Loops, pumps, shelves and fans have a usual."""
        for levels in (self.loop, self.cdu, self.shelf, self.fan):
            levels.learn(usual)


def node_of(row: str) -> str:
    """The node that a row "node/name" belongs to; "" for the rack's own ("cdu:CDUs/1", "floor").

    >>> node_of("r1-t2/Chassis_0/LeakDetectors/1"), node_of("cdu:CDUs/1/LeakDetectors/1")
    ('r1-t2', '')
    """
    head, slash, _ = row.partition("/")
    return head if slash and ":" not in head else ""
