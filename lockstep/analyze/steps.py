"""Step times: CSV, JSON lines or Parquet, one row per step and rank; several runs in one file one by one.

Rows are gone through in the order (run, step). Files that have that order already, as training loops write them, are
streamed; one that has not is sorted on disk.
"""

import csv
import heapq
import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from collectors.steps import BadStep, StepLine, from_row, parse_line
from detectors.groups import DEADLINE_MS
from detectors.job import JobRecord
from lockstep.analyze.files import head, lines
from lockstep.analyze.parquet import open_parquet
from lockstep.analyze.recognise import PARQUET, json_object
from lockstep.analyze.recording import TICK_MS, Input, Progress, Run
from runtime.errors import UserError
from schemas.step import RankStep, StepFrame

ONLY_NODE = "only-node"
"""The node of rows that name none."""

_COLUMNS = frozenset(
    (
        "step", "rank", "data_us", "compute_us", "comm_us", "wait_us", "step_us", "run_idx", "run", "ts_ms", "end_ms",
        "node", "job", "gpu", "phase", "work", "tokens", "shape_seq", "shape", "frag_stall_us", "allocator_stall_us",
        "flops",
    )
)  # fmt: skip


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per `run_idx` and job of the files, in order."""
    rows = heapq.merge(*(_ordered(input_, progress) for input_ in inputs), key=_order)
    for (run, job), part in itertools.groupby(rows, key=lambda row: (row.run, row.job)):
        first = next(part)
        timed = first.step.end_ms > 0
        ticks = _ticks(itertools.chain([first], part), timed)  # noqa: B031 - the rest of this group, used once
        yield Run(run, job or "steps", timed, ticks)


def _order(row: StepLine) -> tuple[int, str, int]:
    return (-1 if row.run is None else row.run, row.job, row.step.step)


def _ordered(input_: Input, progress: Progress) -> Iterator[StepLine]:
    """The file's rows in order."""
    before: tuple[int, str, int] | None = None
    ordered = True
    for number, row in enumerate(_rows(input_)):
        input_.records += 1
        if number % 50_000 == 49_999:
            progress(f"reading {input_.path.name}", number + 1)
        here = _order(row)
        if before is not None and here < before:
            ordered = False
        before = here
    if not input_.records:
        return iter(())
    again = Input(input_.path, input_.kind)
    return _rows(again) if ordered else _sorted(again)


def _sorted(input_: Input) -> Iterator[StepLine]:
    """The rows through a temporary database file, which sorts on disk."""
    with closing(sqlite3.connect("")) as database:
        database.execute("CREATE TABLE rows (run INTEGER, job TEXT, step INTEGER, row BLOB)")
        encode, decode = msgspec.msgpack.encode, msgspec.msgpack.Decoder(StepLine).decode
        database.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?)", ((*_order(row), encode(row)) for row in _rows(input_))
        )
        for (blob,) in database.execute("SELECT row FROM rows ORDER BY run, job, step, rowid"):
            yield decode(blob)


def _rows(input_: Input) -> Iterator[StepLine]:
    """The file's rows as they stand; what is no step is counted and left out."""
    start = head(input_.path)
    if start.startswith(PARQUET):
        source: Iterator[StepLine | BadStep] = _parquet(input_.path)
    elif json_object(next((line for line in start.splitlines() if line.strip()), b"")) is not None:
        source = (_line(line) for line in lines(input_.path) if line.strip())
    else:
        source = _csv(input_.path)
    for row in source:
        if isinstance(row, BadStep):
            input_.skip(row.reason)
        else:
            yield row


def _line(line: bytes) -> StepLine | BadStep:
    try:
        return parse_line(line)
    except BadStep as error:
        return error


def _row(row: Mapping[str, Any]) -> StepLine | BadStep:
    try:
        return from_row(row)
    except BadStep as error:
        return error


def _csv(path: Path) -> Iterator[StepLine | BadStep]:
    text = (line.decode("utf-8-sig" if number == 0 else "utf-8", "replace") for number, line in enumerate(lines(path)))
    try:
        for row in csv.DictReader(text):
            yield _row({name.strip(): value for name, value in row.items() if isinstance(name, str)})
    except csv.Error as error:
        raise UserError(f"{path}: no readable CSV: {error}") from None


def _parquet(path: Path) -> Iterator[StepLine | BadStep]:
    file = open_parquet(path)
    wanted = [name for name in file.schema_arrow.names if name in _COLUMNS]
    for batch in file.iter_batches(batch_size=16_384, columns=wanted):
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield _row(dict(zip(wanted, values, strict=True)))


def _ticks(rows: Iterator[StepLine], timed: bool) -> Iterator[tuple[int, list[JobRecord]]]:
    """The rows of one run as frames: all steps that ended by a tick, per node."""
    tick, seq, elapsed_us = 0, 0, 0.0
    waiting: dict[str, list[RankStep]] = {}
    for _, part in itertools.groupby(rows, key=lambda row: row.step.step):
        step = list(part)
        elapsed_us += max(row.step.step_us for row in step)
        end_ms = max(row.step.end_ms for row in step) if timed else int(elapsed_us / 1000)
        here = max(end_ms // TICK_MS * TICK_MS + TICK_MS, tick)
        if waiting and here > tick:
            seq += 1
            yield tick, _frames(waiting, tick, seq)
            waiting = {}
        tick = here
        for row in step:
            kept = row.step if timed else msgspec.structs.replace(row.step, end_ms=end_ms)
            waiting.setdefault(row.node or ONLY_NODE, []).append(kept)
    if waiting:
        yield tick, _frames(waiting, tick, seq + 1)
        for later in range(TICK_MS, DEADLINE_MS + TICK_MS, TICK_MS):
            yield tick + later, []


def _frames(waiting: dict[str, list[RankStep]], tick: int, seq: int) -> list[JobRecord]:
    return [
        StepFrame(cluster="local", ts_ms=tick, node=node, run_id=1, seq=seq, job="steps", steps=tuple(steps))
        for node, steps in sorted(waiting.items())
    ]
