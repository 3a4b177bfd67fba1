"""Batch times: one row per worker and time (`worker, time, batch_time_norm`), a file is a job."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from detectors.job.batch_times import READY, BatchTimeDetector
from lockstep.analyze import table
from lockstep.analyze.recording import CLUSTER, TICK_MS, Input, Progress, Run
from schemas.finding import Finding

COLUMNS = frozenset(("worker", "time", "batch_time_norm", "batch_time"))

LONGEST = 1e15
"""No batch takes longer, in whichever unit; such a number is torn."""

EPOCH_S, EPOCH_MS = 1e9, 1e12
"""From here on a time is a moment (after 2001), in seconds or milliseconds, and no longer one of a clock that the job
started."""


class Batch(NamedTuple):
    """One row; `time` as it stands in the file."""

    time: float
    worker: str
    batch_time: float


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per file."""
    for input_ in inputs:
        progress(f"looking at {input_.path.name}", 0)
        times = (_number(row.get("time")) for _, row in table.rows(input_.path, ("time",)) if row is not None)
        rows = batches(input_)
        if not table.in_order((time,) for time in times if 0 <= time <= LONGEST):
            rows = table.sorted_on_disk(rows, lambda row: (row.time,), Batch)
        first = next(rows, None)
        if first is not None:
            job = input_.path.name.partition(".")[0]
            yield Run(None, job, first.time >= EPOCH_S, _ticks(job, first, input_, progress, rows))


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every row that is a batch, in the file's order."""
    for number, row in table.rows(input_.path, COLUMNS):
        try:
            found = parse(row)
        except table.BadRow:
            continue
        yield ({"line": number} if number else {}) | {"event": "batch"} | found._asdict()


def parse(row: Mapping[str, Any] | None) -> Batch:
    """One row by column name; numbers may be text.

    Raises table.BadRow: broken, no_worker, no_time or bad_batch_time.
    """
    if row is None:
        raise table.BadRow("broken")
    worker = row.get("worker")
    name = "" if worker is None or worker != worker else str(worker).strip()
    if not name:
        raise table.BadRow("no_worker")
    time = _number(row.get("time"))
    if not 0 <= time <= LONGEST:
        raise table.BadRow("no_time")
    took = _number(row.get("batch_time_norm", row.get("batch_time")))
    if not 0 < took <= LONGEST:
        raise table.BadRow("bad_batch_time")
    return Batch(time, name.removesuffix(".0"), took)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def batches(input_: Input) -> Iterator[Batch]:
    """The rows as they stand; those that are no batch are counted and left out."""
    for _, row in table.rows(input_.path, COLUMNS):
        try:
            yield parse(row)
        except table.BadRow as error:
            input_.skip(error.reason)


def _ticks(
    job: str, first: Batch, input_: Input, progress: Progress, rows: Iterator[Batch]
) -> Iterator[tuple[int, list[Finding]]]:
    """A round ends where one of its workers comes again: they need not report at the same moments. A time that is no
    moment counts as the number of the round instead, in a tick of its own."""
    detector = BatchTimeDetector(CLUSTER, job)
    timed, scale = first.time >= EPOCH_S, 1 if first.time >= EPOCH_MS else 1000
    held, time, tick = {first.worker: first.batch_time}, first.time, 0

    def judged() -> tuple[int, list[Finding]]:
        nonlocal tick
        tick = int(time * scale) if timed else tick + TICK_MS
        return tick, detector.update(tick, 0 if timed else int(time), held)

    input_.records = 1
    for row in rows:
        input_.records += 1
        if input_.records % 50_000 == 0:
            progress(f"judging {input_.path.name}", input_.records)
        if row.worker in held:
            yield judged()
            held = {}
        held[row.worker], time = row.batch_time, row.time
    yield judged()
    if not detector.judged:
        note = f"not judged: no two workers have {READY} usual times and one more to compare with them"
        input_.notes = [*input_.notes, note]
