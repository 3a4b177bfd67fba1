"""Pipeline traces: one row per operation of a worker (`dp_rank, stage, rank, step, optype, start_ts, duration`).

A file is a job; files of one folder whose workers differ are one job together. Times may be in any one unit.
"""

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from collectors.job.steps import natural
from detectors.pipeline.detector import STEADY, PipelineDetector
from detectors.pipeline.grid import GARBAGE, PipelineOps
from detectors.pipeline.replay import BACKWARD, FORWARD
from lockstep.analyze import table
from lockstep.analyze.recording import CLUSTER, TICK_MS, Input, Progress, Run
from schemas.finding import Finding

COLUMNS = frozenset(("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration"))

LONGEST = 1e15
"""No operation takes longer, in whichever unit (a microsecond's 30 years): such a number is torn."""

MOVES = ("send", "recv", "comm", "p2p", "reduce", "gather", "scatter")
"""Parts of the names of operations that contain waiting for others, and say nothing of who is slow."""

OTHER = -1
"""The kind of operations that are not judged."""


class Operation(NamedTuple):
    """One row; `kind` is FORWARD, BACKWARD, GARBAGE or OTHER."""

    step: int
    dp: int
    stage: int
    rank: int
    kind: int
    start: float
    duration: float


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per job."""
    for job, files in _jobs(inputs):
        rows = heapq.merge(*(_ordered(input_, progress) for input_ in files), key=lambda row: row.step)
        yield Run(None, job, False, ticks(job, rows, files))


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every row that is an operation, in the file's order."""
    for number, row in table.rows(input_.path, COLUMNS):
        try:
            found = parse(row)
        except table.BadRow:
            continue
        assert row is not None
        fields = found._asdict() | {"optype": row["optype"]}
        del fields["kind"]
        yield ({"line": number} if number else {}) | {"event": "operation"} | fields


def parse(row: Mapping[str, Any] | None) -> Operation:
    """One row by column name; numbers may be text.

    Raises table.BadRow: broken, no_worker, no_step, no_type or bad_time.
    """
    if row is None:
        raise table.BadRow("broken")
    dp, stage, rank = natural(row.get("dp_rank")), natural(row.get("stage")), natural(row.get("rank"))
    step = natural(row.get("step"))
    if dp is None or stage is None or rank is None:
        raise table.BadRow("no_worker")
    if step is None:
        raise table.BadRow("no_step")
    name = row.get("optype")
    if not isinstance(name, str) or not name:
        raise table.BadRow("no_type")
    start, duration = _number(row.get("start_ts")), _number(row.get("duration"))
    if not (abs(start) <= LONGEST and 0 <= duration <= LONGEST):
        raise table.BadRow("bad_time")
    return Operation(step, dp, stage, rank, kind_of(name), start, duration)


@lru_cache(maxsize=1024)
def kind_of(name: str) -> int:
    """What an operation is, by its name.

    >>> kind_of("forward-compute"), kind_of("backward-send"), kind_of("gc")
    (0, -1, 2)
    """
    low = name.lower()
    if any(part in low for part in MOVES):
        return OTHER
    if "forward" in low or low.startswith("fwd"):
        return FORWARD
    if "backward" in low or low.startswith("bwd"):
        return BACKWARD
    return GARBAGE if low in ("gc", "garbage-collection", "garbage_collection") else OTHER


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _jobs(inputs: list[Input]) -> Iterator[tuple[str, list[Input]]]:
    """The files of each job with its name: of one folder those whose workers differ."""
    if len(inputs) == 1:
        yield _name(inputs[0].path), inputs
        return
    folders: dict[Path, list[list[tuple[Input, set[tuple[Any, ...]]]]]] = {}
    for input_ in inputs:
        workers = {
            tuple(row.get(name) for name in ("dp_rank", "stage", "rank"))
            for _, row in table.rows(input_.path, ("dp_rank", "stage", "rank"))
            if row is not None
        }
        jobs = folders.setdefault(input_.path.parent, [])
        fits = next((job for job in jobs if not any(workers & others for _, others in job)), None)
        jobs.append([(input_, workers)]) if fits is None else fits.append((input_, workers))
    for folder, jobs in folders.items():
        for job in jobs:
            files = [input_ for input_, _ in job]
            yield _name(files[0].path if len(files) == 1 else folder), files


def _name(path: Path) -> str:
    return path.name.partition(".")[0] or "pipeline"


def _ordered(input_: Input, progress: Progress) -> Iterator[Operation]:
    """The file's operations in the order of their steps, counted as they are used."""
    progress(f"looking at {input_.path.name}", 0)
    steps = (natural(row.get("step")) for _, row in table.rows(input_.path, ("step",)) if row is not None)
    found = operations(input_)
    if not table.in_order((step,) for step in steps if step is not None):
        found = table.sorted_on_disk(found, lambda row: (row.step,), Operation)
    for number, row in enumerate(found, 1):
        input_.records = number
        if number % 50_000 == 0:
            progress(f"judging {input_.path.name}", number)
        yield row


def operations(input_: Input) -> Iterator[Operation]:
    """The file's operations as they stand; rows that are none are counted and left out."""
    for _, row in table.rows(input_.path, COLUMNS):
        try:
            yield parse(row)
        except table.BadRow as error:
            input_.skip(error.reason)


def ticks(job: str, rows: Iterator[Operation], files: Sequence[Input] = ()) -> Iterator[tuple[int, list[Finding]]]:
    """One tick per step: the file's times need not be moments, nor be in seconds."""
    detector = PipelineDetector(CLUSTER, job)
    tick = 0
    for step, part in itertools.groupby(rows, key=lambda row: row.step):
        tick += TICK_MS
        yield tick, detector.update(tick, step, step_of([row for row in part if row.kind != OTHER]))
    if files and detector.judged < STEADY.k:
        have = f"{detector.judged} steps in which workers or microbatches can be compared"
        files[0].notes = [*files[0].notes, f"not judged: {have}; {STEADY.k} are needed"]


def step_of(rows: Sequence[Operation]) -> PipelineOps:
    """The operations of one step as the detector takes them; without those of kind OTHER."""
    numbers = np.array([row[1:5] for row in rows], np.int64).reshape(-1, 4).T
    times = np.array([row[5:] for row in rows], np.float64).reshape(-1, 2).T
    return PipelineOps(numbers[0], numbers[1], numbers[2], numbers[3], times[0], times[1])
