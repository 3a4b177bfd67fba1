"""A record as a person reads it in a terminal, or as a machine does: one JSON object a line."""

import json
import os
from datetime import UTC, datetime

from schemas.finding import Finding
from schemas.frame import NodeFrame, RackFrame
from schemas.incident import Incident
from schemas.readable import readable
from schemas.record import Record


def shown(record: Record, form: str) -> str:
    """The record in `form` "json" or "text"."""
    return json.dumps(readable(record)) if form == "json" else line(record)


def line(record: Record) -> str:
    """When, whose, and what; frames with a line for each row."""
    when = datetime.fromtimestamp(record.ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{when}  {record.key}  {_gist(record)}"


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
    plain = readable(record)
    for repeated in ("type", "cluster", "ts_ms", "v"):
        plain.pop(repeated, None)
    return json.dumps({name: value for name, value in plain.items() if value not in (None, "", [], {})})
