"""Step times: CSV, JSON lines or Parquet, one row per step and rank; several runs in one file one by one.

Rows are gone through in the order (run, step). Files that have that order already, as training loops write them, are
streamed; one that has not is sorted on disk.
"""

import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from collectors.job.steps import BadStep, StepLine, from_row, natural
from detectors.job.detector import JobRecord
from detectors.job.groups import DEADLINE_MS, WIDEST
from lockstep.analyze import step_runs, table
from lockstep.analyze.recording import TICK_MS, Input, Progress, Run
from lockstep.analyze.step_notes import RunSeen
from lockstep.analyze.table import Key
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

_TIMES = ("step_us", "data_us", "compute_us", "comm_us", "wait_us")

_NOTHING = frozenset(("", "-", "--", "?", "na", "n/a", "<na>", "none", "null", "nil", "\\n"))
"""How spreadsheets, pandas and databases write a missing number, besides NaN."""

_NEEDED = ("step", "rank", "step_us")

_KEYS = frozenset(("step", "run_idx", "run", "job"))


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per `run_idx` and job of the files that belong together, in order."""
    for where, together in step_runs.runs(inputs):
        yield from _read(together, where, progress)


def _read(inputs: list[Input], place: str, progress: Progress) -> Iterator[Run]:
    rows = heapq.merge(*(_ordered(input_, progress) for input_ in inputs), key=_order)
    for (run, job), part in itertools.groupby(rows, key=lambda row: (row.run, row.job)):
        first = next(part)
        timed = first.step.end_ms > 0
        seen = RunSeen()
        ticks = _ticks(seen.watch(itertools.chain([first], part)), timed)  # noqa: B031 - the rest of this group, once
        yield Run(run, job or "steps", timed, ticks, where=place)
        where = "" if run is None else f" in run {run}"
        inputs[0].notes += [note.replace(":", f"{where}:", 1) for note in seen.notes()]


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every row that is a step, in the file's order."""
    for number, row in table.rows(input_.path, _COLUMNS):
        if row is None:
            input_.skip("broken")
            continue
        try:
            found = from_row(row)
        except BadStep as error:
            input_.skip(error.reason)
            continue
        fields = msgspec.structs.asdict(found.step) | {"job": found.job, "node": found.node, "run": found.run}
        yield ({"line": number} if number else {}) | {"event": "step"} | fields


def _order(row: StepLine) -> tuple[int, str, int]:
    return (-1 if row.run is None else row.run, row.job, row.step.step)


def _ordered(input_: Input, progress: Progress) -> Iterator[StepLine]:
    """The file's rows in order, counted as they are used."""
    progress(f"looking at {input_.path.name}", 0)
    rows = _rows(input_)
    if not table.in_order(_keys(input_.path)):
        rows = table.sorted_on_disk(rows, _order, StepLine)
    here, ranks = (0, "", -1), set[int]()
    for row in rows:
        if _order(row) != here:
            here, ranks = _order(row), set()
        if row.step.rank in ranks:
            input_.skip("repeated")
            continue
        ranks.add(row.step.rank)
        input_.records += 1
        if input_.records % 50_000 == 0:
            progress(f"judging {input_.path.name}", input_.records)
        yield row


def _keys(path: Path) -> Iterator[Key]:
    """Run, job and step of every row that has them."""
    for _, row in table.rows(path, _KEYS):
        step = None if row is None else natural(row.get("step"))
        if row is None or step is None:
            continue
        run = natural(row.get("run_idx", row.get("run")))
        yield -1 if run is None else run, str(row.get("job") or ""), step


def _rows(input_: Input) -> Iterator[StepLine]:
    """The file's rows as they stand; what is no step is counted and left out."""
    wide = 0
    for number, (_, row) in enumerate(table.rows(input_.path, _COLUMNS, lambda n: _blank(input_, n))):
        if number == 0 and row is not None:
            absent = [name for name in _NEEDED if name not in row]
            if absent:
                has = ", ".join(sorted(str(name) for name in row)[:12]) or "none"
                input_.notes.append(f"no column {', '.join(absent)}; it has {has}")
        try:
            if row is None:
                raise BadStep("broken")
            if any(_impossible(row.get(name)) for name in _TIMES):
                raise BadStep("bad_time")
            if (natural(row.get("rank")) or 0) >= WIDEST:
                wide += 1
                continue
            yield from_row(row)
        except BadStep as error:
            input_.skip(error.reason)
    if wide:
        input_.skipped += wide
        input_.reasons = input_.reasons | {"rank_too_high": wide}
        input_.notes.append(f"not judged: {wide:,} rows of ranks from {WIDEST} on: no job is as wide")


def _blank(input_: Input, count: int) -> None:
    input_.notes.append(f"{count:,} blank lines in a row are left out")


def _impossible(value: Any) -> bool:
    """Whether a time is given and cannot be one: negative, endless, longer than 30 years, or no number. NaN is a
    missing one, and so is what tables write for nothing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
        return False
    try:
        return isinstance(value, bool) or not (0 <= float(value) < 1e15 or float(value) != float(value))
    except (TypeError, ValueError, OverflowError):
        return True


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
