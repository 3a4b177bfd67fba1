"""What a file is, by what is in it; its name decides nothing."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from collectors import flight_recorder
from lockstep.analyze.files import head

PARQUET = b"PAR1"

STEP_COLUMNS = {"step", "rank"}
"""A table with these and at least one of STEP_TIMES is step times."""

STEP_TIMES = {"step_us", "data_us", "compute_us", "comm_us", "wait_us"}

INSPECTOR_KEYS = {"coll_perf", "p2p_perf", "dump_stats", "proxy_trace"}

LOOKS: dict[str, Callable[[bytes], bool]] = {
    "flight-recorder": flight_recorder.looks_like,
}
"""Kinds whose parser knows a file by its beginning."""


def recognise(path: Path) -> str | None:
    """The kind of the file (a key of `lockstep.analyze.READERS`), or None. Raises UserError where it cannot be read."""
    start = head(path)
    if start.startswith(PARQUET):
        return "steps" if _is_steps(parquet_columns(path)) else None
    for kind, looks in LOOKS.items():
        if looks(start):
            return kind
    for line in start.splitlines()[:20]:
        row = json_object(line)
        if row is None:
            continue
        if INSPECTOR_KEYS & row.keys():
            return "inspector"
        if _is_steps(set(row)):
            return "steps"
        return None
    return "steps" if _is_steps(csv_columns(start)) else None


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


def _is_steps(columns: set[str]) -> bool:
    return columns >= STEP_COLUMNS and bool(columns & STEP_TIMES)
