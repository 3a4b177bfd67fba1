"""How far each GPU of a node is from its own past, tick by tick.

Readings are range-checked, counters become increases, everything is averaged over three ticks and compared with the
GPU's baseline of what it is doing now: idle, waiting inside a job, or working. A change between these, or another
job, is normal: what is not yet settled or learned is not judged (NaN), so a job's start is no anomaly.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.baseline import Baseline
from detectors.condition import AVERAGED_TICKS, Averages, Columns, Float32, Increases, Index, Ranges, blank, take
from detectors.coupling import Couplings
from detectors.state import StateError, floats, to_bytes, unpack
from schemas.frame import NodeFrame
from schemas.metrics import SECTIONS, names

RAW = names("gpu")
"""Columns of what was read, range-checked."""

RAW_AT = {name: i for i, name in enumerate(RAW)}

_EVERY_SECOND = tuple(metric for metric in SECTIONS["gpu"] if metric.every_s == 1)
MEASURED = tuple(metric.name for metric in _EVERY_SECOND if metric.kind in ("gauge", "rate"))
COUNTED = tuple(metric.name for metric in _EVERY_SECOND if metric.kind == "counter")

COMPARED = MEASURED + COUNTED
"""Columns of what is compared with baselines; of a counter its increase per tick."""

COMPARED_AT = {name: i for i, name in enumerate(COMPARED)}

UNSCORED = ("memory_used_mib", "power_w")
"""Compared and published, but not part of the score: memory moves with every allocation, and power of one moment says
which part of a step the poll met. Average power stands for it."""

SCORED: NDArray[np.bool_] = np.array([name not in UNSCORED for name in COMPARED])
SCORED_AT: Index = np.flatnonzero(SCORED)
SCORED_NAMES = tuple(COMPARED[i] for i in SCORED_AT)

IDLE, WAITING, WORKING = 0, 1, 2
STATES = 3
_NEW = -1

WORKING_FROM_PCT, WORKING_UNTIL_PCT = 10.0, 5.0
"""Utilisation that makes a GPU a working one, and below which it no longer is (an idle GPU shows 0, a waiting one
flickers by a few percent)."""

SETTLE_TICKS = 15
SETTLE_HEAT_TICKS = 180
"""How long a metric moves after a change of state: clocks and power a few seconds, temperatures up to 100 s (the two
real lock-ups of the H100 set). A GPU seen for the first time is taken for settled."""

GAP_MS = 60_000
"""After a longer pause nobody knows what the GPU did meanwhile: it settles anew."""

RETIRE_MS = 3_600_000
"""A GPU not seen for an hour leaves the roster."""

PRESENCE_TICKS, PRESENCE_WARM_UP = 3600.0, 60.0
EXPECTED_PRESENCE = 0.9
"""A metric that was there in nine of ten ticks of the last hour (at first: minute) is expected; a slow one is not."""

_SETTLE: Float32 = np.array(
    [SETTLE_HEAT_TICKS if name.endswith("_c") else SETTLE_TICKS for name in COMPARED], dtype=np.float32
)
_MEASURED_AT = np.array([RAW_AT[name] for name in MEASURED])
_COUNTED_AT = np.array([RAW_AT[name] for name in COUNTED])
_UTILIZATION, _SM_ACTIVE = COMPARED_AT["gpu_utilization_pct"], COMPARED_AT["sm_active_ratio"]


class Deviation(NamedTuple):
    """One tick of a node's GPUs; rows are `uuids` (the frame's order, then the known ones that are missing in it).

    `raw` (rows, RAW) and the increases of counters `grown` (rows, COUNTED) are this tick's; `readings`, `z`, `centre`
    (rows, COMPARED) the averages and how they compare; `residual` (rows, SCORED_NAMES) what of z the other metrics do
    not explain. `here` says who gave any reading, `known` who ever did;
    `absent` (rows, RAW) marks expected metrics that are not there, `missing_share` is their part of all expected.
    `jobs` are job keys, "" for none.
    """

    uuids: tuple[str, ...]
    jobs: tuple[str, ...]
    state: Index
    here: NDArray[np.bool_]
    known: NDArray[np.bool_]
    raw: Float32
    grown: Float32
    readings: Float32
    z: Float32
    residual: Float32
    centre: Float32
    absent: NDArray[np.bool_]
    missing_share: Float32
    out_of_range: int


class _State(msgspec.Struct, kw_only=True):
    version: Literal[2] = 2
    uuids: tuple[str, ...]
    jobs: tuple[str, ...]
    worked_for: tuple[str, ...]
    seen_ms: tuple[int, ...]
    state: bytes
    age: bytes
    presence: bytes
    ticks: bytes
    ring: bytes
    ring_at: int
    last: bytes
    baseline: bytes
    couplings: bytes
    run_id: int
    ts_ms: int


class Deviations:
    """The GPUs of one node and their baselines. Call `update` with each new frame, then `learn` with who is usual."""

    def __init__(self) -> None:
        self._uuids: tuple[str, ...] = ()
        self._jobs: list[str] = []
        self._worked_for: list[str] = []  # the newest job there was, so that a pause between two looks is no change
        self._seen_ms: list[int] = []
        self._state: Index = np.zeros(0, dtype=np.intp)
        self._age = np.zeros(0, dtype=np.float32)
        self._presence = blank(0, len(RAW))
        self._ticks = np.zeros(0, dtype=np.float32)
        self._columns = Columns(RAW)
        self._ranges = Ranges("gpu", RAW)
        self._increases = Increases(0, len(COUNTED))
        self._averages = Averages(0, len(COMPARED))
        self.baseline = Baseline(COMPARED, 0, STATES)
        self.couplings = Couplings(SCORED_NAMES)
        self._run_id = -1
        self._ts_ms = 0
        self._pending: tuple[Float32, Float32, NDArray[np.bool_], NDArray[np.bool_]] | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        return self._uuids

    @property
    def state(self) -> Index:
        """What each GPU does now: IDLE, WAITING or WORKING."""
        return self._state

    def update(self, frame: NodeFrame) -> Deviation:
        """Take one frame, newer than all before it."""
        matrix = frame.sections.get("gpu")
        jobs = {gpu.uuid: gpu.job for gpu in frame.gpus}
        listed = tuple(jobs) + tuple(row for row in (matrix.rows if matrix else ()) if row not in jobs)
        self._enrol(listed, frame.ts_ms)
        at = {uuid: i for i, uuid in enumerate(self._uuids)}
        raw = blank(len(self._uuids), len(RAW))
        if matrix is not None and matrix.rows:
            raw[[at[uuid] for uuid in matrix.rows]] = self._columns.select(matrix)
        raw, out_of_range = self._ranges.apply(raw)
        here = ~np.isnan(raw)
        anything: NDArray[np.bool_] = np.any(here, axis=1)

        if frame.run_id != self._run_id or abs(frame.ts_ms - self._ts_ms) > GAP_MS:
            self._increases.restart()
            self._averages.restart()
            if self._run_id >= 0 and abs(frame.ts_ms - self._ts_ms) > GAP_MS:
                self._age[:] = 0
        self._run_id, self._ts_ms = frame.run_id, frame.ts_ms

        power, average = RAW_AT["power_w"], RAW_AT["power_average_w"]
        raw[:, average] = np.where(here[:, average], raw[:, average], raw[:, power])
        grown = self._increases.apply(raw[:, _COUNTED_AT])
        readings = self._averages.apply(np.concatenate([raw[:, _MEASURED_AT], grown], axis=1))
        self._follow([jobs.get(uuid, job) for uuid, job in zip(self._uuids, self._jobs, strict=True)], readings)
        settled = (self._age[:, None] >= _SETTLE) & ~self._leaving(raw)[:, None]
        z, centre = self.baseline.compare(readings, self._state)
        z[~settled] = np.nan
        scored = z[:, SCORED_AT]
        self._pending = (readings, scored, settled, here)
        expected = self._presence > EXPECTED_PRESENCE
        absent: NDArray[np.bool_] = expected & ~here
        return Deviation(
            uuids=self._uuids,
            jobs=tuple(self._jobs),
            state=self._state,
            here=anything,
            known=np.any(self._presence > 0, axis=1),
            raw=raw,
            grown=grown,
            readings=readings,
            z=z,
            residual=self.couplings.residual(scored),
            centre=centre,
            absent=absent,
            missing_share=absent.sum(axis=1, dtype=np.float32) / np.maximum(expected.sum(axis=1, dtype=np.float32), 1),
            out_of_range=out_of_range,
        )

    def learn(self, usual: NDArray[np.bool_], expecting: NDArray[np.bool_] | None = None) -> None:
        """Let the baselines of the rows in `usual` learn from the last update; call it once per update. Rows in
        `expecting` go on expecting the metrics that are absent now."""
        if self._pending is None:
            return
        readings, scored, settled, here = self._pending
        self._pending = None
        self.baseline.learn(readings, self._state, settled & usual[:, None])
        self.couplings.learn(scored, usual)
        self._ticks = np.minimum(self._ticks + 1, np.float32(PRESENCE_WARM_UP))
        gain = np.where(self._ticks < PRESENCE_WARM_UP, 1 / self._ticks, 1 / PRESENCE_TICKS).astype(np.float32)[:, None]
        moved: Float32 = (gain * (here - self._presence)).astype(np.float32)
        if expecting is not None:
            moved = np.where(expecting[:, None], np.maximum(moved, np.float32(0)), moved)
        self._presence = self._presence + moved

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """Learn these rows' usual anew in their present state."""
        for state in range(STATES):
            self.baseline.forget(state, rows & (self._state == state))
        self.couplings.forget(rows)

    def save(self) -> bytes:
        """A versioned checkpoint: about 5 KB a GPU."""
        return msgspec.msgpack.encode(
            _State(
                uuids=self._uuids,
                jobs=tuple(self._jobs),
                worked_for=tuple(self._worked_for),
                seen_ms=tuple(self._seen_ms),
                state=self._state.astype(np.int8).tobytes(),
                age=to_bytes(self._age),
                presence=to_bytes(self._presence),
                ticks=to_bytes(self._ticks),
                ring=to_bytes(self._averages.ring),
                ring_at=self._averages.at,
                last=to_bytes(self._increases.last),
                baseline=self.baseline.state(),
                couplings=self.couplings.state(),
                run_id=self._run_id,
                ts_ms=self._ts_ms,
            )
        )

    def restore(self, saved: bytes) -> None:
        """Continue from a checkpoint; raises StateError where it does not fit."""
        old = unpack(saved, _State)
        rows = len(old.uuids)
        if {rows} != {len(old.jobs), len(old.worked_for), len(old.seen_ms), len(old.state)}:
            raise StateError(f"a saved state of {rows} GPUs with lists of other lengths")
        self.baseline.restore(old.baseline)
        self.couplings.restore(old.couplings)
        self._uuids, self._seen_ms = old.uuids, list(old.seen_ms)
        self._jobs, self._worked_for = list(old.jobs), list(old.worked_for)
        self._state = np.frombuffer(old.state, dtype=np.int8).astype(np.intp)
        self._age, self._ticks = floats(old.age, rows), floats(old.ticks, rows)
        self._presence = floats(old.presence, rows, len(RAW))
        self._averages.ring, self._averages.at = floats(old.ring, AVERAGED_TICKS, rows, len(COMPARED)), old.ring_at
        self._increases.last = floats(old.last, rows, len(COUNTED))
        self._run_id, self._ts_ms = old.run_id, old.ts_ms

    def _enrol(self, listed: Sequence[str], ts_ms: int) -> None:
        """Bring rows into the order of `listed`, then the known ones that are missing."""
        old = {uuid: i for i, uuid in enumerate(self._uuids)}
        away = [
            uuid
            for uuid in self._uuids
            if uuid not in set(listed) and abs(ts_ms - self._seen_ms[old[uuid]]) < RETIRE_MS
        ]
        wanted = (*listed, *away)
        if wanted != self._uuids:
            index = np.array([old.get(uuid, -1) for uuid in wanted], dtype=np.intp)
            self._jobs = [self._jobs[i] if i >= 0 else "" for i in index]
            self._worked_for = [self._worked_for[i] if i >= 0 else "" for i in index]
            self._seen_ms = [self._seen_ms[i] if i >= 0 else ts_ms for i in index]
            self._state = np.where(index >= 0, self._state[index] if len(self._state) else _NEW, _NEW).astype(np.intp)
            self._age = np.where(
                index >= 0, take(self._age, index), np.float32(SETTLE_HEAT_TICKS)
            )  # new: as it ever was
            self._ticks = np.nan_to_num(take(self._ticks, index))
            self._presence = np.nan_to_num(take(self._presence, index))
            self._increases.take(index)
            self._averages.take(index)
            self.baseline.take(index)
            self.couplings.take(index)
            self._uuids = wanted
        for i in range(len(listed)):
            self._seen_ms[i] = ts_ms

    def _leaving(self, raw: Float32) -> NDArray[np.bool_]:
        """GPUs that did not work in this tick though on average they still do: nobody can judge that mixture."""
        used = raw[:, RAW_AT["gpu_utilization_pct"]]
        used = np.where(np.isnan(used), raw[:, RAW_AT["sm_active_ratio"]] * 100, used)
        leaving: NDArray[np.bool_] = (self._state == WORKING) & (used < WORKING_UNTIL_PCT)
        return leaving

    def _follow(self, jobs: list[str], readings: Float32) -> None:
        """What every GPU does now, and for how long; another job starts its baselines anew."""
        used = readings[:, _UTILIZATION]
        by_sm = readings[:, _SM_ACTIVE] * 100
        used = np.where(np.isnan(used), by_sm, used)
        was_working = self._state == WORKING
        limit = np.where(was_working, WORKING_UNTIL_PCT, WORKING_FROM_PCT)
        working = np.where(np.isnan(used), was_working, used >= limit)
        has_job = np.array([bool(job) for job in jobs], dtype=bool)
        state = np.where(working, WORKING, np.where(has_job, WAITING, IDLE)).astype(np.intp)
        was_new = self._state == _NEW
        same = (state == self._state) | was_new
        self._age = np.where(same, self._age + 1, np.float32(0))
        self._state = state
        if jobs != self._jobs:
            self._jobs = jobs
            before = self._worked_for
            self._worked_for = [job or old for job, old in zip(jobs, before, strict=True)]
            other = np.array([new != old for new, old in zip(self._worked_for, before, strict=True)], dtype=bool)
            unnamed = np.array([not old for old in before], dtype=bool)
            other &= ~(unnamed & (was_new | (was_working & (state == WORKING))))  # not new work: now it has a name
            for busy in (WAITING, WORKING):
                self.baseline.forget(busy, other)
            self.couplings.forget(other)
            self._age[other] = 0
