"""A table of readings as node frames: one row is one sample of one node, or of one GPU.

Columns: a time (`ts_ms`, `time_ms`, or `ts`/`time`/`timestamp` in seconds), `node`, perhaps `gpu`, and metrics of the
catalogue by name; with a `gpu` they are of section gpu, else of section host. Rows of one node and time with several
GPUs become one frame. Two rows of one node at one time and without GPUs are two samples: both are kept.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lockstep.analyze.files import CUT_OFF, cut_off, lines
from runtime.errors import UserError
from schemas import NodeFrame, Record
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import Section, metric, names

TIMES = {"ts_ms": 1, "time_ms": 1, "ts": 1000, "time": 1000, "timestamp": 1000}
BATCH_ROWS = 50_000
LONGEST_NAME = 256

MOST_MS = 4_102_444_800_000
"""The last time that a record may have (schemas.record.TimeMs)."""


class Columns(NamedTuple):
    """What the columns mean: `metrics` maps a column to a metric's name where they differ."""

    metrics: Mapping[str, str] = {}


def read_table(path: Path, columns: Columns, cluster: str, run_id: int) -> Iterator[Record]:
    """The node frames of `path` in order of time; UserError where a column that is needed is not there."""
    plan: _Plan | None = None
    frames = _Frames(cluster, run_id)
    for batch in _batches(path):
        if plan is None:
            plan = _plan(path, list(batch), columns)
        yield from frames.of(path, plan, batch)
    if plan is None:
        raise UserError(f"{path}: no rows")
    yield from frames.rest()
    if cut_off(path):
        raise UserError(f"{path}: {CUT_OFF}")


class _Plan(NamedTuple):
    time: str
    per_ms: int
    gpu: bool
    section: Section
    metrics: dict[str, str]


def _plan(path: Path, there: Sequence[str], columns: Columns) -> _Plan:
    time = next((name for name in TIMES if name in there), None)
    if time is None or "node" not in there:
        lacking = "no time column (" + ", ".join(TIMES) + ")" if time is None else "no column `node`"
        raise UserError(f"{path}: {lacking}; it has {', '.join(there)}")
    gpu = "gpu" in there
    section: Section = "gpu" if gpu else "host"
    found: dict[str, str] = {}
    for name in there:
        wanted = columns.metrics.get(name, name)
        if metric(section, wanted) is not None:
            found[name] = wanted
    for name, wanted in columns.metrics.items():
        if name not in there:
            raise UserError(f"--map {name}={wanted}: {path} has no column {name}; it has {', '.join(there)}")
        if name not in found:
            raise UserError(f"--map {name}={wanted}: no metric {wanted} of section {section}; see docs/wire.md")
    if not found:
        raise UserError(
            f"{path}: no column is a metric of section {section} ({', '.join(names(section)[:4])}, ...); "
            "say what they mean by --map COLUMN=METRIC"
        )
    return _Plan(time, TIMES[time], gpu, section, found)


class _Frames:
    """Numbers the frames of each node and keeps the GPUs of one tick together."""

    def __init__(self, cluster: str, run_id: int) -> None:
        self._cluster, self._run_id = cluster, run_id
        self._seq: dict[str, int] = {}
        self._newest_ms = 0
        self._open: dict[str, tuple[int, list[str], list[np.ndarray[Any, Any]]]] = {}
        self._columns: tuple[str, ...] = ()
        self._section: Section = "gpu"

    def of(self, path: Path, plan: _Plan, batch: Mapping[str, Sequence[Any]]) -> Iterator[Record]:
        self._columns, self._section = tuple(plan.metrics.values()), plan.section
        count = len(next(iter(batch.values())))

        def column(name: str) -> Sequence[Any]:
            return batch.get(name) or [None] * count

        try:
            at = np.asarray(column(plan.time), dtype=np.float64) * plan.per_ms
            values = np.stack([_numbers(column(name)) for name in plan.metrics], axis=1)
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(f"{path}: a value is no number: {error}") from None
        if not np.all((at >= 0) & (at <= MOST_MS)):  # NaN fails here too
            raise UserError(f"{path}: a {plan.time} is missing, or no time between 1970 and 2100")
        times = at.astype(np.int64)
        if len(times) and (np.any(np.diff(times) < 0) or times[0] < self._newest_ms):
            raise UserError(f"{path}: rows are not in order of {plan.time}; sort them first")
        nodes = _names(path, "node", column("node"))
        gpus = _names(path, "gpu", column("gpu")) if plan.gpu else None
        for i, (ts_ms, node) in enumerate(zip(times.tolist(), nodes, strict=True)):
            self._newest_ms = ts_ms
            if gpus is None:
                yield self._frame(node, ts_ms, (node,), values[i : i + 1])
                continue
            held = self._open.get(node)
            if held is not None and (held[0] != ts_ms or gpus[i] in held[1]):
                yield self._close(node)
                held = None
            if held is None:
                held = self._open[node] = (ts_ms, [], [])
            held[1].append(gpus[i])
            held[2].append(values[i])

    def rest(self) -> Iterator[Record]:
        for node in sorted(self._open, key=lambda name: self._open[name][0]):
            yield self._close(node)

    def _close(self, node: str) -> NodeFrame:
        ts_ms, gpus, rows = self._open.pop(node)
        return self._frame(node, ts_ms, tuple(gpus), np.stack(rows))

    def _frame(self, node: str, ts_ms: int, rows: tuple[str, ...], values: np.ndarray[Any, Any]) -> NodeFrame:
        seq = self._seq[node] = self._seq.get(node, -1) + 1
        gpus = tuple(Gpu(uuid=row, slot=slot) for slot, row in enumerate(rows)) if self._section == "gpu" else ()
        return NodeFrame(
            cluster=self._cluster,
            ts_ms=ts_ms,
            node=node,
            run_id=self._run_id,
            seq=seq,
            gpus=gpus,
            sections={self._section: Matrix.of(rows, self._columns, values)},
        )


def _names(path: Path, column: str, values: Iterable[Any]) -> list[str]:
    found = ["" if value is None or isinstance(value, bytes) else str(value) for value in values]
    if not all(0 < len(name) <= LONGEST_NAME for name in found):
        raise UserError(f"{path}: a row without {column}, or with a name of more than {LONGEST_NAME} letters")
    return found


def _numbers(column: Iterable[Any]) -> np.ndarray[Any, Any]:
    return np.array([np.nan if value is None or value == "" else float(value) for value in column], dtype=np.float32)


def _batches(path: Path) -> Iterator[Mapping[str, Sequence[Any]]]:
    return _json_lines(path) if path.name.removesuffix(".gz").endswith(".jsonl") else _arrow(path)


def _arrow(path: Path) -> Iterator[Mapping[str, Sequence[Any]]]:
    import pyarrow as arrow
    from pyarrow import csv, parquet

    try:
        parquet_file = path.name.endswith(".parquet")
        batches = parquet.ParquetFile(path).iter_batches(BATCH_ROWS) if parquet_file else csv.open_csv(path)
        for batch in batches:
            if len(set(batch.schema.names)) < len(batch.schema.names):
                raise UserError(f"{path}: two columns have one name; rename one")
            yield {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    except (OSError, UnicodeDecodeError, arrow.ArrowException) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())[:200]}") from None


def _json_lines(path: Path) -> Iterator[Mapping[str, Sequence[Any]]]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines(path), start=1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError("not an object")
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: line {number} is no JSON object: {error}") from None
        rows.append(row)
        if len(rows) == BATCH_ROWS:
            yield _transposed(rows)
            rows = []
    if rows:
        yield _transposed(rows)


def _transposed(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[Any]]:
    columns = {name: None for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in columns}
