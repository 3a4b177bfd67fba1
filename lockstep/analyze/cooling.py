"""Cooling as files: the building's recorded values, judged as they come; Redfish documents, judged as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from collectors.cooling.bms import Building, recorded
from collectors.cooling.bms_points import BadLine, parse_line
from collectors.cooling.redfish import frames
from collectors.cooling.redfish_parse import parse
from collectors.cooling.redfish_poll import Found
from collectors.cooling.redfish_row import Row
from collectors.cooling.redfish_targets import Target
from detectors.rack.detector import RackDetector
from lockstep.analyze.files import DAMAGED, lines, open_bytes
from lockstep.analyze.recording import CLUSTER, TICK_MS, Input, Progress, Run
from schemas.finding import Finding

JOB = "cooling"

LARGEST = 16 << 20
"""Bytes of one Redfish document; a whole baseboard's sensors in one are half a megabyte."""

FIRST_MOMENT_MS = 1_000_000_000_000
"""A tick below this (2001) is counted from the recording's start."""


def read_building(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run for each recording of a building management system."""
    for number, input_ in enumerate(inputs):
        ticks = _building(input_, progress)
        first = next(ticks, None)
        if first is None:
            continue
        yield Run(number if len(inputs) > 1 else None, JOB, first[0] >= FIRST_MOMENT_MS, _after(first, ticks))


def read_redfish(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run over all documents: those of one folder are one controller, and a rack of its own."""
    told: dict[str, list[Row]] = {}
    for number, input_ in enumerate(inputs):
        progress("reading Redfish documents", number)
        told.setdefault(_rack(input_.path), []).extend(_rows(input_))
    findings: list[Finding] = []
    for rack, rows in told.items():
        target = Target(rack, "", "", rack, None, None, "", 0.0)
        for frame in frames([Found(target, tuple(rows))] if rows else []):
            findings += RackDetector(CLUSTER, rack).look(replace(frame, cluster=CLUSTER, ts_ms=TICK_MS))
    yield Run(None, JOB, False, [(TICK_MS, findings)])


def decoded_building(input_: Input) -> Iterator[dict[str, Any]]:
    """Every value with its rack or unit, and where it belongs; those that the catalogue has no place for too."""
    building = Building()
    for number, raw in enumerate(lines(input_.path), 1):
        try:
            message = parse_line(raw.decode("utf-8", "replace"))
        except BadLine:
            continue
        if message is None:
            continue
        building.take(message)
        if message.metadata is not None:
            continue
        placed = [
            {"section": section, "row": row, "metric": column, "reading": round(float(value), 6)}
            for frame in building.frames(0)
            for section, matrix in frame.sections.items()
            for row, values in zip(matrix.rows, matrix.values(), strict=True)
            for column, value in zip(matrix.columns, values, strict=True)
        ]
        yield {
            "line": number,
            "event": "building_value",
            "object": building.name_of(message),
            "point": message.point,
            "tag": message.tag,
            "value": message.value,
            "ts_ms": message.ts_ms if message.ts_ms is not None else message.offset_ms,
            **(placed[0] if placed else {}),
        }


def decoded_redfish(input_: Input) -> Iterator[dict[str, Any]]:
    """Every row in a document: its section, name and readings, absent ones by their reason."""
    for row in _rows(input_):
        yield {"event": f"redfish_{row.section}", "name": row.name, "source": row.source, **row.values}


def _building(input_: Input, progress: Progress) -> Iterator[tuple[int, list[Finding]]]:
    def told() -> Iterator[str]:
        for number, raw in enumerate(lines(input_.path), 1):
            input_.records += 1
            if number % 50_000 == 0:
                progress(f"reading {input_.path.name}", number)
            yield raw.decode("utf-8", "replace")

    def skip(reason: str) -> None:
        input_.records -= 1
        input_.skip(reason)

    racks: dict[str, RackDetector] = {}
    seq = 0
    for tick_ms, made in recorded(told(), skip):
        findings: list[Finding] = []
        for frame in made:
            seq += 1
            rack = racks.setdefault(frame.rack, RackDetector(CLUSTER, frame.rack))
            findings += rack.update(replace(frame, cluster=CLUSTER, seq=seq)).findings
        yield tick_ms, findings


def _after(
    first: tuple[int, list[Finding]], rest: Iterator[tuple[int, list[Finding]]]
) -> Iterator[tuple[int, list[Finding]]]:
    yield first
    yield from rest


def _rows(input_: Input) -> list[Row]:
    try:
        with open_bytes(input_.path) as file:
            text = file.read(LARGEST + 1)
    except DAMAGED:
        input_.skip("damaged")
        return []
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        input_.skip("too_large" if len(text) > LARGEST else "not_json")
        return []
    rows = parse(document, _uri(input_.path))
    input_.records += 1
    return rows


def _rack(path: Path) -> str:
    """The folder that holds the tree: what is before "redfish/v1", else the document's own folder."""
    parts = path.absolute().parts
    if "redfish" in parts[:-1] and parts[parts.index("redfish") + 1] == "v1":
        return parts[parts.index("redfish") - 1] or "rack"
    return path.absolute().parent.name or "rack"


def _uri(path: Path) -> str:
    """What a document without its own @odata.id is called."""
    parts = path.absolute().parts
    if "redfish" in parts[:-1] and parts[parts.index("redfish") + 1] == "v1":
        return "/" + "/".join(parts[parts.index("redfish") :]).removesuffix("/index.json")
    return "/redfish/v1/" + path.stem
