"""Step times of labelled runs as arrays, and back as frames: the Ascend fail-slow set and tables of its layout.

DIR holds `ranks.parquet` (one row per run, step and rank) and `runs.csv` (what was injected where). `sample` makes a
small set of the same layout from a seed.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.detector import JobRecord
from lockstep.analyze.parquet import batches, open_parquet
from lockstep.analyze.recording import TICK_MS, Run
from schemas.step import RankStep, StepFrame

Floats = NDArray[np.float64]

TIMES = ("data_us", "compute_us", "comm_us", "wait_us", "step_us")
COLUMNS = (*TIMES, "ts_ms", "frag_stall_us", "shape_seq")


class Label(NamedTuple):
    """What was injected into one run."""

    run: int
    case: str
    dose: str
    config: str
    scope: str
    rank: int | None
    cause: str
    first: int | None
    last: int | None
    mode: str


class StepRun(NamedTuple):
    """One run: `columns[name]` is (steps, ranks), NaN where a row is missing."""

    label: Label
    columns: dict[str, Floats]

    @property
    def own(self) -> Floats:
        """Own time: the step without compute, communication and waiting."""
        c = self.columns
        own: Floats = c["step_us"] - c["compute_us"] - c["comm_us"] - c["wait_us"]
        return own

    @property
    def step(self) -> Floats:
        """The job's step time, the median over its ranks."""
        out: Floats = np.nanmedian(self.columns["step_us"], axis=1)
        return out

    def recording(self) -> Run:
        """The run as `lockstep analyze` sees it."""
        return Run(self.label.run, "steps", True, self._ticks())

    def _ticks(self) -> Iterator[tuple[int, list[JobRecord]]]:
        c = self.columns
        end_ms = np.nanmax(c["ts_ms"], axis=1)
        ticks = np.maximum.accumulate(end_ms // TICK_MS * TICK_MS + TICK_MS).astype(np.int64)
        for seq, tick in enumerate(np.unique(ticks).tolist(), 1):
            rows = [row for step in np.flatnonzero(ticks == tick).tolist() for row in self._rows(step)]
            frame = StepFrame(
                cluster="local", ts_ms=tick, node="only-node", run_id=1, seq=seq, job="steps", steps=tuple(rows)
            )
            yield tick, [frame]

    def _rows(self, step: int) -> Iterator[RankStep]:
        values = np.array([self.columns[name][step] for name in COLUMNS])
        for rank in np.flatnonzero(~np.isnan(values[4])).tolist():
            data, compute, comm, wait, whole, ts, stall, shape = values[:, rank].tolist()
            yield RankStep(
                rank=rank,
                step=step,
                step_us=whole,
                data_us=data,
                compute_us=compute,
                comm_us=comm,
                wait_us=wait,
                end_ms=int(ts),
                shape=shape,
                allocator_stall_us=stall,
            )  # fmt: skip


def labels(path: Path) -> dict[int, Label]:
    """The runs of runs.csv by number."""
    out = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            number = int(row["run_idx"])
            out[number] = Label(
                number,
                row["case"],
                row["dose"],
                row["config"],
                row["scope"],
                _whole(row["culprit_rank"]),
                row["fault_class"],
                _whole(row["inject_from_step"]),
                _whole(row["inject_to_step"]),
                row["mode"],
            )
    return out


def load(folder: Path) -> list[StepRun]:
    """All runs of `folder` that have a label, in order."""
    known = labels(folder / "runs.csv")
    path = folder / "ranks.parquet"
    file = open_parquet(path)
    parts: dict[str, list[Any]] = {name: [] for name in ("run_idx", "step", "rank", *COLUMNS)}
    for batch in batches(path, file, list(parts), rows=1 << 20):
        for name, values in parts.items():
            values.append(batch.column(name).to_numpy(zero_copy_only=False))
    table = {name: np.concatenate(values) for name, values in parts.items()}
    runs = []
    for number in np.unique(table["run_idx"]).tolist():
        if number not in known:
            continue
        rows = table["run_idx"] == number
        step, rank = table["step"][rows], table["rank"][rows]
        columns = {name: np.full((step.max() + 1, rank.max() + 1), np.nan) for name in COLUMNS}
        for name, column in columns.items():
            column[step, rank] = table[name][rows]
        runs.append(StepRun(known[number], columns))
    return runs


def sample(seed: int = 1, steps: int = 220, ranks: int = 8) -> list[StepRun]:
    """A small made-up set: a clean run, a slow rank, a busy node, a noisy clean run and a longer sequence.

    Everybody waits for the last: the step is 70 ms of work and the largest own time. The noisy host is late by 100 ms
    at one rank in every second step.
    """
    cases = [
        ("clean", "none", None, "healthy", "gpu_bound"),
        ("slow", "rank", 3, "gpu_compute", "gpu_bound"),
        ("busy", "node", None, "host_cpu", "host_bound"),
        ("noisy", "none", None, "healthy", "host_bound"),
        ("long", "rank", 5, "software_shape", "gpu_bound"),
    ]
    return [
        StepRun(
            Label(
                number, case, "loud", "C1", scope, rank, cause, *((100, 200) if scope != "none" else (None, None)), mode
            ),
            _made(np.random.default_rng([seed, number]), case, steps, ranks, rank),
        )
        for number, (case, scope, rank, cause, mode) in enumerate(cases)
    ]


def _made(rng: np.random.Generator, case: str, steps: int, ranks: int, rank: int | None) -> dict[str, Floats]:
    own = 8000 + np.abs(rng.normal(0, 200, (steps, ranks)))
    work = np.full(steps, 70_000.0) + rng.normal(0, 100, steps)
    shape = np.full((steps, ranks), 1024.0)
    on = slice(100, 200)
    if case == "slow":
        own[on, rank] += 20_000
    elif case == "busy":
        own[on] += rng.uniform(20_000, 40_000, own[on].shape)
        work[on] *= 1.2
    elif case == "noisy":
        own[::2, 2] += 100_000
    elif case == "long":
        work[on] *= 1.3
        shape[on, rank] = 1536
    step = work + own.max(axis=1)
    blocked = step[:, None] - own
    ends = 1_800_000_000_000 + np.cumsum(step) / 1000
    return {
        "data_us": np.full((steps, ranks), 1000.0),
        "compute_us": blocked - 60,
        "comm_us": np.full((steps, ranks), 40.0),
        "wait_us": np.full((steps, ranks), 20.0),
        "step_us": np.repeat(step[:, None], ranks, axis=1),
        "ts_ms": np.repeat(np.floor(ends)[:, None], ranks, axis=1),
        "frag_stall_us": np.zeros((steps, ranks)),
        "shape_seq": shape,
    }


def _whole(text: str) -> int | None:
    return int(float(text)) if text else None
