"""How far each GPU of a node is from its own past, tick by tick.

Readings are range-checked, counters become increases, everything is averaged over three ticks and compared with the
GPU's baseline of what it is doing now: idle, waiting inside a job, or working. A change between these, or another
job, is normal: what is not yet settled or learned is not judged (NaN), so a job's start is no anomaly.
"""

from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.condition import AVERAGED_TICKS, Columns, Float32, Index
from detectors.forest.magnitude import NAMES
from detectors.node.baseline import Baseline
from detectors.node.coupling import Couplings
from detectors.node.gpu_columns import COMPARED, COUNTED, RAW, SCORED_NAMES, STATES
from detectors.node.gpu_pass import (
    FLOOR,
    MAYBE_OTHER_WORK,
    OTHER_WORK,
    SAME_WORK,
    TICK,
    Mask,
    Records,
    judge,
    learn,
    new_gpus,
)
from detectors.node.roster import NOBODY, Roster, roster_of
from detectors.state import StateError, floats, to_bytes, unpack
from schemas.frame import NodeFrame
from schemas.matrix import Matrix

GAP_MS = 60_000
"""After a longer pause nobody knows what the GPU did meanwhile: it settles anew."""

RETIRE_MS = 3_600_000
"""A GPU not seen for an hour leaves the roster."""

_NO_READINGS = Matrix((), (), b"")


class Deviation:
    """One tick of a node's GPUs; rows are `uuids` (the frame's order, then the known ones that are missing in it).

    `jobs` are job keys, "" for none; `roster` is who stands in the frame. `told` are the records of `gpu_pass.TICK`,
    whose fields the properties name; `features` (rows, magnitude.NAMES) are the forest's.
    """

    __slots__ = ("features", "jobs", "out_of_range", "roster", "told", "uuids")

    def __init__(
        self, uuids: tuple[str, ...], jobs: tuple[str, ...], roster: Roster, told: Records, features: Float32
    ) -> None:
        self.uuids, self.jobs, self.roster = uuids, jobs, roster
        self.told, self.features = told, features
        self.out_of_range = 0

    @property
    def state(self) -> Index:
        """What each GPU does: IDLE, WAITING or WORKING."""
        return self.told["state"]

    @property
    def here(self) -> Mask:
        """Who gave any reading."""
        return self.told["here"]

    @property
    def known(self) -> Mask:
        """Who ever did."""
        return self.told["known"]

    @property
    def raw(self) -> Float32:
        """This tick's readings, (rows, RAW)."""
        return self.told["raw"]

    @property
    def grown(self) -> Float32:
        """This tick's increases of counters, (rows, COUNTED)."""
        return self.told["grown"]

    @property
    def readings(self) -> Float32:
        """Averages of the last ticks, (rows, COMPARED)."""
        return self.told["readings"]

    @property
    def z(self) -> Float32:
        """How they compare with the baselines."""
        return self.told["z"]

    @property
    def centre(self) -> Float32:
        """The baselines' centres."""
        return self.told["centre"]

    @property
    def scored(self) -> Float32:
        """What of z counts for the score, (rows, SCORED_NAMES)."""
        return self.told["scored"]

    @property
    def residual(self) -> Float32:
        """What of that the other metrics do not explain."""
        return self.told["residual"]

    @property
    def judged(self) -> NDArray[np.int32]:
        """How many metrics count for the score, (rows,)."""
        return self.told["judged"]

    @property
    def absent(self) -> Mask:
        """Expected metrics that are not there, (rows, RAW)."""
        return self.told["absent"].view(np.bool_)

    @property
    def missing_share(self) -> Float32:
        """Their part of all that is expected, (rows,)."""
        return self.told["missing_share"]


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


@lru_cache(maxsize=64)
def _places(layout: tuple[str, ...]) -> tuple[Index, Index]:
    """Which columns of a matrix of this layout are in RAW, and where."""
    return Columns(RAW).places(layout)


@lru_cache(maxsize=64)
def everyone(rows: int) -> Mask:
    """Each of so many rows; the same array again and again, to be read only (making one takes longer than learning)."""
    return np.ones(rows, dtype=np.bool_)


class Deviations:
    """The GPUs of one node and their baselines. Call `update` with each new frame, then `learn` with who is usual."""

    def __init__(self) -> None:
        self._uuids: tuple[str, ...] = ()
        self._jobs: tuple[str, ...] = ()
        self._worked_for: tuple[str, ...] = ()  # the newest job there was, so that a pause between two looks is none
        self._gpus = new_gpus(0)
        self._roster = NOBODY
        self._layout: tuple[str, ...] = ()
        self._source, self._target = _places(())
        self._step = 0
        self._run_id = -1
        self._ts_ms = 0
        self._pending: Records | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        return self._uuids

    @property
    def state(self) -> Index:
        """What each GPU does now: IDLE, WAITING or WORKING."""
        return self._gpus["state"].astype(np.intp)

    @property
    def baseline(self) -> Baseline:
        """Baselines of COMPARED, as they are kept."""
        return Baseline(COMPARED, states=STATES, cells=self._gpus["baseline"])

    @property
    def couplings(self) -> Couplings:
        """Couplings of SCORED_NAMES, as they are kept."""
        gpus = self._gpus
        return Couplings(SCORED_NAMES, kept=(gpus["covariance"], gpus["root"], gpus["coupled"]))

    def update(self, frame: NodeFrame) -> Deviation:
        """Take one frame, newer than all before it."""
        matrix = frame.sections.get("gpu") or _NO_READINGS
        if len(self._uuids) != len(self._roster.uuids) or not self._roster.is_of(frame.gpus, matrix.rows):
            self._enrol(roster_of(frame.gpus, matrix.rows), frame.ts_ms)
        if matrix.columns is not self._layout:
            self._layout, (self._source, self._target) = matrix.columns, _places(matrix.columns)
        pause = abs(frame.ts_ms - self._ts_ms) > GAP_MS
        if frame.run_id != self._run_id or pause:
            self._gpus["ring"] = self._gpus["last"] = np.nan
            if self._run_id >= 0 and pause:
                self._gpus["age"] = 0
        self._run_id, self._ts_ms = frame.run_id, frame.ts_ms
        step, self._step = self._step, (self._step + 1) % AVERAGED_TICKS

        rows, roster = len(self._uuids), self._roster
        told, features = np.empty(rows, dtype=TICK), np.empty((rows, len(NAMES)), dtype=np.float32)
        tick = Deviation(self._uuids, self._jobs, roster, told, features)
        tick.out_of_range = judge(
            matrix.values(), roster.place, self._source, self._target, len(roster.uuids), frame.ts_ms, step,
            FLOOR, self._gpus, told, features,
        )  # fmt: skip
        self._pending = told
        return tick

    def learn(self, usual: Mask, expecting: Mask | None = None) -> None:
        """Let the baselines of the rows in `usual` learn from the last update; call it once per update. Rows in
        `expecting` go on expecting the metrics that are absent now."""
        told, self._pending = self._pending, None
        if told is None:
            return
        due = np.empty(len(told), dtype=np.bool_)
        expects = np.zeros(len(told), dtype=np.bool_) if expecting is None else expecting
        if learn(FLOOR, self._gpus, told, usual, expects, due):
            self.couplings.draw(due)

    def forget(self, rows: Mask) -> None:
        """Learn these rows' usual anew in their present state."""
        baseline, state = self.baseline, self._gpus["state"]
        for now in range(STATES):
            baseline.forget(now, rows & (state == now))
        self.couplings.forget(rows)

    def save(self) -> bytes:
        """A versioned checkpoint: about 5 KB a GPU."""
        gpus = self._gpus
        return msgspec.msgpack.encode(
            _State(
                uuids=self._uuids,
                jobs=self._jobs,
                worked_for=self._worked_for,
                seen_ms=tuple(gpus["seen_ms"].tolist()),
                state=gpus["state"].astype(np.int8).tobytes(),
                age=to_bytes(gpus["age"]),
                presence=to_bytes(gpus["presence"]),
                ticks=to_bytes(gpus["ticks"]),
                ring=to_bytes(gpus["ring"].swapaxes(0, 1)),
                ring_at=self._step,
                last=to_bytes(gpus["last"]),
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
        baseline, couplings, gpus = Baseline(COMPARED, rows, STATES), Couplings(SCORED_NAMES, rows), new_gpus(rows)
        baseline.restore(old.baseline)
        couplings.restore(old.couplings)
        if {rows} != {baseline.rows, len(couplings.count)}:
            raise StateError(f"a saved state of {rows} GPUs with baselines or couplings of others")
        gpus["baseline"] = baseline.cells
        gpus["covariance"], gpus["root"], gpus["coupled"] = couplings.covariance, couplings.root, couplings.count
        gpus["seen_ms"], gpus["state"] = old.seen_ms, np.frombuffer(old.state, dtype=np.int8)
        gpus["age"], gpus["ticks"] = floats(old.age, rows), floats(old.ticks, rows)
        gpus["presence"] = floats(old.presence, rows, len(RAW))
        gpus["ring"] = floats(old.ring, AVERAGED_TICKS, rows, len(COMPARED)).swapaxes(0, 1)
        gpus["last"] = floats(old.last, rows, len(COUNTED))
        self._gpus, self._uuids, self._jobs, self._worked_for = gpus, old.uuids, old.jobs, old.worked_for
        self._roster, self._step = NOBODY, old.ring_at
        self._run_id, self._ts_ms = old.run_id, old.ts_ms

    def _enrol(self, roster: Roster, ts_ms: int) -> None:
        """Bring rows into the order of `roster`, then the known ones that are missing in it."""
        old = {uuid: i for i, uuid in enumerate(self._uuids)}
        recent = np.abs(ts_ms - self._gpus["seen_ms"]) < RETIRE_MS
        away = [uuid for uuid, i in old.items() if recent[i] and uuid not in set(roster.uuids)]
        wanted = (*roster.uuids, *away)
        if wanted != self._uuids:
            index = np.array([old.get(uuid, -1) for uuid in wanted], dtype=np.intp)
            gpus = new_gpus(len(index))
            gpus[index >= 0] = self._gpus[index[index >= 0]]
            self._gpus, self._uuids = gpus, wanted
            self._jobs, self._worked_for = (
                tuple(jobs[i] if i >= 0 else "" for i in index.tolist()) for jobs in (self._jobs, self._worked_for)
            )
        self._roster = roster
        named = {gpu.uuid: gpu.job for gpu in roster.listed}
        self._rename(tuple(named.get(uuid, job) for uuid, job in zip(self._uuids, self._jobs, strict=True)))

    def _rename(self, jobs: tuple[str, ...]) -> None:
        """Who works for whom from now on, and whether that is other work than it was."""
        worked_for, before = tuple(map(_newest, jobs, self._worked_for)), self._worked_for
        self._gpus["has_job"] = [bool(job) for job in jobs]
        self._gpus["work"] = list(map(_work, before, worked_for))
        self._jobs, self._worked_for = jobs, worked_for


def _newest(job: str, before: str) -> str:
    return job or before


def _work(before: str, now: str) -> int:
    return SAME_WORK if now == before else OTHER_WORK if before else MAYBE_OTHER_WORK
