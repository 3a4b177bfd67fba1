"""What a file is, by what is in it; its name decides nothing."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from collectors.cooling import bms_points, redfish_parse
from collectors.gpu import recorded as gpu_csv
from collectors.kernel import log_kind
from collectors.nccl import comma, flight_recorder, inspector_metrics, nccl_tests, ras
from collectors.nccl import log as nccl_log
from lockstep.analyze.files import head, tail
from lockstep.replay.recording import is_recording

PARQUET = b"PAR1"

STEP_TIMES = {"step_us", "data_us", "compute_us", "comm_us", "wait_us"}

TABLES: dict[str, Callable[[set[str]], bool]] = {
    "pipeline-trace": {"dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration"}.issubset,
    "steps": lambda columns: columns >= {"step", "rank"} and bool(columns & STEP_TIMES),
    "batch-times": lambda columns: columns >= {"worker", "time"} and bool(columns & {"batch_time_norm", "batch_time"}),
    "dcgm": lambda columns: gpu_csv.GpuColumns(columns).known,
}
"""Kinds of tables (CSV, JSON lines, Parquet) by their columns."""

INSPECTOR_KEYS = {"coll_perf", "p2p_perf", "dump_stats", "proxy_trace"}

LOOKS: dict[str, Callable[[bytes], bool]] = {
    "frames": is_recording,
    "cooling-bms": bms_points.looks_like,
    "redfish": redfish_parse.looks_like,
    "flight-recorder": flight_recorder.looks_like,
    "ras": ras.looks_like,
    "inspector-metrics": inspector_metrics.looks_like,
    "comma": comma.looks_like,
    "nccl-tests": nccl_tests.looks_like,
    "kernel-log": log_kind.looks_like,
    "job-log": nccl_log.looks_like,
    "dcgm": gpu_csv.looks_like,
}
"""Kinds whose parser knows a file by its beginning."""


def recognise(path: Path) -> str | None:
    """The kind of the file (a key of `lockstep.analyze.READERS`), or None. Raises UserError where it cannot be read."""
    start = head(path)
    if start.startswith(PARQUET):
        return _table(parquet_columns(path))
    if table := _table(csv_columns(start)):
        return table
    for kind, looks in LOOKS.items():
        if looks(start):
            return kind
    for line in start.splitlines()[:20]:
        row = json_object(line)
        if row is None:
            continue
        if INSPECTOR_KEYS & row.keys():
            return "inspector"
        return _table(set(row))
    return "job-log" if nccl_log.looks_like(tail(path)) else None


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line, or None."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def csv_columns(start: bytes) -> set[str]:
    """The column names of a CSV file's first line."""
    first = start.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    try:
        row = next(csv.reader(io.StringIO(first)), [])
    except csv.Error:
        return set()
    return {name.strip() for name in row}


def parquet_columns(path: Path) -> set[str]:
    """The column names of a Parquet file; raises UserError where it cannot be read."""
    from lockstep.analyze.parquet import open_parquet

    return set(open_parquet(path).schema_arrow.names)


def _table(columns: set[str]) -> str | None:
    return next((kind for kind, has in TABLES.items() if has(columns)), None)
