"""A record as a person reads it in a terminal, or as a machine does: one JSON object a line."""

import json
import os
import textwrap
from datetime import UTC, datetime
from typing import Any

import numpy as np

from schemas.finding import Finding
from schemas.frame import NodeFrame, RackFrame
from schemas.incident import Incident
from schemas.matrix import Matrix
from schemas.readable import readable
from schemas.record import Record

FIRST = 3
"""Values that a line shows of a section."""

LEADING = {
    "gpu": ("power_w", "temperature_c", "sm_clock_mhz", "gpu_utilization_pct"),
    "host": ("cpu_utilization_pct", "load_1m", "memory_available_mib"),
    "nvlink": ("tx_bytes_per_s", "rx_bytes_per_s"),
    "fabric": ("up", "tx_bytes_per_s", "rx_bytes_per_s"),
}
"""What a line shows of these sections; of others it is their first three values."""

LONGEST = 60
"""Characters of one text within a line."""


def shown(record: Record, form: str, verbose: bool = True) -> str:
    """The record in `form` "json" or "text"; text that is not `verbose` is one line."""
    return json.dumps(readable(record)) if form == "json" else line(record, verbose)


def line(record: Record, verbose: bool = True) -> str:
    """When, whose, and what; if `verbose` all of it, frames with a line for each row."""
    when = datetime.fromtimestamp(record.ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{when}  {record.key}  {_gist(record) if verbose else _brief(record)}"


def _brief(record: Record) -> str:
    if isinstance(record, NodeFrame | RackFrame):
        sections = [f"{section} {len(m.rows)}{_medians(section, m)}" for section, m in record.sections.items()]
        lost = [f"{sum(record.missing.values())} missing"] if record.missing else []
        return "  ".join([f"run {record.run_id} seq {record.seq}", *sections, *lost])
    if isinstance(record, Finding | Incident):
        return _gist(record)
    return "  ".join(
        f"{name} {_short(value)}" for name, value in _plain(record).items() if value not in (None, "", [], {})
    )


def _medians(section: str, matrix: Matrix) -> str:
    """The section's leading values, each the median of its rows."""
    known: list[str] = []
    for name in LEADING.get(section, matrix.columns):
        values = matrix.select([name])
        if np.isfinite(values).any() and len(known) < max(FIRST, len(LEADING.get(section, ()))):
            known.append(f"{name} {np.nanmedian(values):.4g}")
    return f" ({', '.join(known)})" if known else ""


def _short(value: Any) -> str:
    """A number as it is, a text cut at 60 characters, of anything with parts their count."""
    if isinstance(value, list | dict):
        return f"({len(value)})"
    return f"{value:g}" if isinstance(value, float) else textwrap.shorten(str(value), LONGEST, placeholder=" ...")


def _rank(rank: int | None) -> str:
    return f" rank {rank}" if rank is not None else ""


def _gist(record: Record) -> str:
    if isinstance(record, NodeFrame | RackFrame):
        lines = [f"run {record.run_id} seq {record.seq}"]
        works = {gpu.uuid: gpu for gpu in record.gpus if gpu.job} if isinstance(record, NodeFrame) else {}
        lines += [f"    {uuid} works for {gpu.job}" + _rank(gpu.rank) for uuid, gpu in works.items()]
        for section, matrix in record.sections.items():
            for row, numbers in readable(matrix).items():
                known = ", ".join(f"{name} {number:g}" for name, number in numbers.items() if number is not None)
                lines.append(f"    {section} {row}: {known}")
        if record.missing:
            lines.append("    missing: " + ", ".join(f"{reason} {n}" for reason, n in record.missing.items()))
        return os.linesep.join(lines)
    if isinstance(record, Finding):
        return f"{record.id} {record.state} {record.kind}/{record.cause} {record.subject.label()}: {record.summary}"
    if isinstance(record, Incident):
        return f"{record.id} r{record.revision} {record.state} {record.kind}/{record.cause}: {record.summary}"
    return json.dumps({name: value for name, value in _plain(record).items() if value not in (None, "", [], {})})


def _plain(record: Record) -> dict[str, Any]:
    return {name: value for name, value in readable(record).items() if name not in ("type", "cluster", "ts_ms", "v")}
