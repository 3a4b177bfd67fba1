"""How far each GPU of a node is from its own past, tick by tick.

Readings are range-checked, counters become increases, everything is averaged over three ticks and compared with the
GPU's baseline of what it is doing now: idle, waiting inside a job, or working. A change between these, or another
job, is normal: what is not yet settled or learned is not judged (NaN), so a job's start is no anomaly.
"""

from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.baseline import Baseline
from detectors.compile import compiled
from detectors.condition import AVERAGED_TICKS, Averages, Columns, Float32, Increases, Index, Ranges, blank, take
from detectors.coupling import Couplings
from detectors.state import StateError, floats, to_bytes, unpack
from schemas.frame import NodeFrame
from schemas.matrix import Matrix
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
_POWER, _AVERAGE = RAW_AT["power_w"], RAW_AT["power_average_w"]
_USE_AT = (
    COMPARED_AT["gpu_utilization_pct"],
    COMPARED_AT["sm_active_ratio"],
    RAW_AT["gpu_utilization_pct"],
    RAW_AT["sm_active_ratio"],
)

_NO_READINGS = Matrix((), (), b"")


class Deviation(NamedTuple):
    """One tick of a node's GPUs; rows are `uuids` (the frame's order, then the known ones that are missing in it).

    `raw` (rows, RAW) and the increases of counters `grown` (rows, COUNTED) are this tick's; `readings`, `z`, `centre`
    (rows, COMPARED) the averages and how they compare; `scored` (rows, SCORED_NAMES) is what of z counts for the score,
    `residual` what of it the other metrics do not explain. `here` says who gave any reading, `known` who ever did;
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
    scored: Float32
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
        self._has_job = np.zeros(0, dtype=np.bool_)
        self._placed: tuple[str, ...] = ()
        self._place: Index = np.zeros(0, dtype=np.intp)
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
        matrix = frame.sections.get("gpu") or _NO_READINGS
        self._enrol(tuple(dict.fromkeys([*[gpu.uuid for gpu in frame.gpus], *matrix.rows])), frame.ts_ms)
        if frame.run_id != self._run_id or abs(frame.ts_ms - self._ts_ms) > GAP_MS:
            self._increases.restart()
            self._averages.restart()
            if self._run_id >= 0 and abs(frame.ts_ms - self._ts_ms) > GAP_MS:
                self._age[:] = 0
        self._run_id, self._ts_ms = frame.run_id, frame.ts_ms

        rows = len(self._uuids)
        raw, readings, grown = (np.empty((rows, n), dtype=np.float32) for n in (len(RAW), len(COMPARED), len(COUNTED)))
        here, absent = np.empty((rows, len(RAW)), dtype=np.bool_), np.empty((rows, len(RAW)), dtype=np.bool_)
        anything, known = np.empty(rows, dtype=np.bool_), np.empty(rows, dtype=np.bool_)
        missing_share = np.empty(rows, dtype=np.float32)
        out_of_range = _read(
            matrix.values(), self._places(matrix.rows), *self._columns.places(matrix.columns), self._ranges.low,
            self._ranges.high, _MEASURED_AT, _COUNTED_AT, _POWER, _AVERAGE, self._presence, self._increases.last,
            self._averages.ring, self._averages.step(), raw, readings, grown, here, absent, anything, known,
            missing_share,
        )  # fmt: skip
        settled = self._follow(frame, raw, readings)
        z, centre = self.baseline.compare(readings, self._state, settled)
        scored = z[:, SCORED_AT]
        self._pending = (readings, scored, settled, here)
        return Deviation(
            uuids=self._uuids,
            jobs=tuple(self._jobs),
            state=self._state,
            here=anything,
            known=known,
            raw=raw,
            grown=grown,
            readings=readings,
            z=z,
            scored=scored,
            residual=self.couplings.residual(scored),
            centre=centre,
            absent=absent,
            missing_share=missing_share,
            out_of_range=out_of_range,
        )

    def learn(self, usual: NDArray[np.bool_], expecting: NDArray[np.bool_] | None = None) -> None:
        """Let the baselines of the rows in `usual` learn from the last update; call it once per update. Rows in
        `expecting` go on expecting the metrics that are absent now."""
        if self._pending is None:
            return
        readings, scored, settled, here = self._pending
        self._pending = None
        everybody = all(usual.tolist())
        self.baseline.learn(readings, self._state, settled if everybody else settled & usual[:, None])
        self.couplings.learn(scored, usual)
        _remember(
            here, np.zeros(len(here), dtype=np.bool_) if expecting is None else expecting, self._presence, self._ticks
        )

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

    def _places(self, rows: tuple[str, ...]) -> Index:
        """The place of each of these GPUs in the roster."""
        if rows != self._placed:
            at = {uuid: i for i, uuid in enumerate(self._uuids)}
            self._placed, self._place = rows, np.array([at[uuid] for uuid in rows], dtype=np.intp)
        return self._place

    def _enrol(self, listed: tuple[str, ...], ts_ms: int) -> None:
        """Bring rows into the order of `listed`, then the known ones that are missing."""
        if listed == self._uuids:
            self._seen_ms = [ts_ms] * len(listed)
            return
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
            self._uuids, self._placed = wanted, ()
        for i in range(len(listed)):
            self._seen_ms[i] = ts_ms

    def _follow(self, frame: NodeFrame, raw: Float32, readings: Float32) -> NDArray[np.bool_]:
        """What every GPU does now, and for how long; another job starts its baselines anew. Returns which cells of
        (rows, COMPARED) are settled: what moves after a change of state is not judged yet."""
        jobs = [gpu.job for gpu in frame.gpus]
        if len(jobs) != len(self._uuids):
            named = {gpu.uuid: gpu.job for gpu in frame.gpus}
            jobs = [named.get(uuid, job) for uuid, job in zip(self._uuids, self._jobs, strict=True)]
        changed = jobs != self._jobs
        if changed or len(self._has_job) != len(jobs):
            self._has_job = np.array([bool(job) for job in jobs], dtype=np.bool_)
        before, self._state = self._state, np.empty_like(self._state)
        settled = np.empty(readings.shape, dtype=np.bool_)
        _settle(raw, readings, _USE_AT, self._has_job, before, _SETTLE, self._state, self._age, settled)
        if changed:
            self._jobs = jobs
            settled[self._renamed(jobs, before)] = False
        return settled

    def _renamed(self, jobs: list[str], before: Index) -> NDArray[np.bool_]:
        """Whose work is another than it was; `before` is what they did."""
        worked_for = self._worked_for
        self._worked_for = [job or old for job, old in zip(jobs, worked_for, strict=True)]
        other = np.array([new != old for new, old in zip(self._worked_for, worked_for, strict=True)], dtype=bool)
        unnamed = np.array([not old for old in worked_for], dtype=bool)
        goes_on = (before == WORKING) & (self._state == WORKING)
        other &= ~(unnamed & ((before == _NEW) | goes_on))  # not new work: now it has a name
        for busy in (WAITING, WORKING):
            self.baseline.forget(busy, other)
        self.couplings.forget(other)
        self._age[other] = 0
        return other


@compiled
def _read(
    values: Float32,
    place: Index,
    source: Index,
    target: Index,
    low: Float32,
    high: Float32,
    measured: Index,
    counted: Index,
    power: int,
    average: int,
    presence: Float32,
    last: Float32,
    ring: Float32,
    step: int,
    raw: Float32,
    readings: Float32,
    grown: Float32,
    here: NDArray[np.bool_],
    absent: NDArray[np.bool_],
    anything: NDArray[np.bool_],
    known: NDArray[np.bool_],
    missing_share: Float32,
) -> int:
    """Everything from `values` (one row for each of `place`, columns `source`, which are `target` of RAW) to what may
    be compared, the arguments from `raw` on; returns how many values were out of range."""
    out_of_range = 0
    raw[:] = np.nan
    for i in range(len(place)):
        row, given = raw[place[i]], values[i]
        for k in range(len(target)):
            c, value = target[k], given[source[k]]
            if value >= low[c] and value <= high[c]:
                row[c] = value
            elif not np.isnan(value):
                out_of_range += 1
    for r in range(raw.shape[0]):
        row = raw[r]
        expected = gone = 0
        anything[r] = known[r] = False
        for c in range(raw.shape[1]):
            is_here = not np.isnan(row[c])
            here[r, c] = is_here
            anything[r] |= is_here
            known[r] |= presence[r, c] > 0
            is_expected = presence[r, c] > EXPECTED_PRESENCE
            absent[r, c] = is_expected and not is_here
            expected += is_expected
            gone += absent[r, c]
        missing_share[r] = np.float32(gone) / np.float32(max(expected, 1))
        if not here[r, average]:
            row[average] = row[power]
        for k in range(len(counted)):
            total = row[counted[k]]
            more = total - last[r, k]
            grown[r, k] = more if more >= 0 else np.nan
            if not np.isnan(total):
                last[r, k] = total
            ring[step, r, len(measured) + k] = grown[r, k]
        for k in range(len(measured)):
            ring[step, r, k] = row[measured[k]]
        for c in range(readings.shape[1]):
            total, count = np.float32(0.0), np.float32(0.0)
            for k in range(ring.shape[0]):
                if not np.isnan(ring[k, r, c]):
                    total += ring[k, r, c]
                    count += np.float32(1.0)
            readings[r, c] = total / count if count > 0 else np.nan
    return out_of_range


@compiled
def _settle(
    raw: Float32,
    readings: Float32,
    use: tuple[int, int, int, int],
    has_job: NDArray[np.bool_],
    before: Index,
    settle: Float32,
    state: Index,
    age: Float32,
    settled: NDArray[np.bool_],
) -> None:
    """What each row does now (`state`), for how long (`age`), and which of its metrics may be judged. GPUs that did not
    work in this tick though on average they still do are a mixture that nobody can judge."""
    utilization, sm_active, raw_utilization, raw_sm_active = use
    for r in range(len(before)):
        used, used_now = readings[r, utilization], raw[r, raw_utilization]
        if np.isnan(used):
            used = readings[r, sm_active] * np.float32(100.0)
        if np.isnan(used_now):
            used_now = raw[r, raw_sm_active] * np.float32(100.0)
        was_working = before[r] == WORKING
        working = was_working
        if not np.isnan(used):
            working = used >= (WORKING_UNTIL_PCT if was_working else WORKING_FROM_PCT)
        state[r] = WORKING if working else WAITING if has_job[r] else IDLE
        age[r] = age[r] + 1.0 if state[r] == before[r] or before[r] == _NEW else 0.0
        leaving = state[r] == WORKING and used_now < WORKING_UNTIL_PCT
        for c in range(settled.shape[1]):
            settled[r, c] = not leaving and age[r] >= settle[c]


@compiled
def _remember(here: NDArray[np.bool_], expecting: NDArray[np.bool_], presence: Float32, ticks: Float32) -> None:
    """How regularly each metric is there; of rows in `expecting` what is absent now goes on being expected."""
    for r in range(here.shape[0]):
        ticks[r] = min(ticks[r] + np.float32(1.0), np.float32(PRESENCE_WARM_UP))
        gain = np.float32(1.0) / (ticks[r] if ticks[r] < PRESENCE_WARM_UP else np.float32(PRESENCE_TICKS))
        for c in range(here.shape[1]):
            moved = gain * (np.float32(here[r, c]) - presence[r, c])
            if moved > 0 or not expecting[r]:
                presence[r, c] += moved
