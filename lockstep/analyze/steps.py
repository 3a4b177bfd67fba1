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

from collectors.steps import BadStep, StepLine, from_row, natural
from detectors.groups import DEADLINE_MS
from detectors.job import JobRecord
from lockstep.analyze.files import head, lines
from lockstep.analyze.parquet import batches, open_parquet
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

_KEYS = frozenset(("step", "run_idx", "run", "job"))


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per `run_idx` and job of the files, in order."""
    rows = heapq.merge(*(_ordered(input_, progress) for input_ in inputs), key=_order)
    for (run, job), part in itertools.groupby(rows, key=lambda row: (row.run, row.job)):
        first = next(part)
        timed = first.step.end_ms > 0
        ticks = _ticks(itertools.chain([first], part), timed)  # noqa: B031 - the rest of this group, used once
        yield Run(run, job or "steps", timed, ticks)


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every row that is a step, in the file's order."""
    for number, row in _raw(input_.path, _COLUMNS):
        if isinstance(row, BadStep):
            continue
        try:
            found = from_row(row)
        except BadStep:
            continue
        fields = msgspec.structs.asdict(found.step) | {"job": found.job, "node": found.node, "run": found.run}
        yield ({"line": number} if number else {}) | {"event": "step"} | fields


def _order(row: StepLine) -> tuple[int, str, int]:
    return (-1 if row.run is None else row.run, row.job, row.step.step)


def _ordered(input_: Input, progress: Progress) -> Iterator[StepLine]:
    """The file's rows in order, counted as they are used."""
    progress(f"looking at {input_.path.name}", 0)
    rows = _rows(input_) if _in_order(input_.path) else _sorted(input_)
    for number, row in enumerate(rows, 1):
        input_.records = number
        if number % 50_000 == 0:
            progress(f"judging {input_.path.name}", number)
        yield row


def _in_order(path: Path) -> bool:
    """Whether run, job and step never fall from one row to the next."""
    before = (-1, "", -1)
    for _, row in _raw(path, _KEYS):
        if isinstance(row, BadStep):
            continue
        step = natural(row.get("step"))
        if step is None:
            continue
        run = natural(row.get("run_idx", row.get("run")))
        here = (-1 if run is None else run, str(row.get("job") or ""), step)
        if here < before:
            return False
        before = here
    return True


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
    for _, row in _raw(input_.path, _COLUMNS):
        try:
            if isinstance(row, BadStep):
                raise row
            yield from_row(row)
        except BadStep as error:
            input_.skip(error.reason)


def _raw(path: Path, columns: frozenset[str]) -> Iterator[tuple[int, Mapping[str, Any] | BadStep]]:
    """The rows by column name, whatever the form, with their line (0 in Parquet, of which only `columns` are read)."""
    start = head(path)
    if start.startswith(PARQUET):
        return _parquet(path, columns)
    if json_object(next((line for line in start.splitlines() if line.strip()), b"")) is not None:
        return (
            (number, json_object(line) or BadStep("broken"))
            for number, line in enumerate(lines(path), 1)
            if line.strip()
        )
    return _csv(path)


def _csv(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = (line.decode("utf-8-sig" if number == 0 else "utf-8", "replace") for number, line in enumerate(lines(path)))
    reader = csv.DictReader(text, skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{path}: no readable CSV: {error}") from None


def _parquet(path: Path, columns: frozenset[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    file = open_parquet(path)
    wanted = [name for name in file.schema_arrow.names if name in columns]
    for batch in batches(path, file, wanted):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield 0, dict(zip(wanted, values, strict=True))


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
