"""What the building says of racks and coolant units: values of its management system, written to files by a bridge.

`mosquitto_sub -v -t 'BMS/v1/PUB/#' >> FOLDER/bms.log` is such a bridge. Points come when they change, each at its own
pace, so a frame holds those that came since the last one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from collectors.base import UNSTAMPED, Collector, LineSource, NoData, Reading
from collectors.cooling.bms_points import BadLine, Message, meaning, parse_line
from collectors.table import table
from schemas.frame import RackFrame
from schemas.metrics import Section, names

if TYPE_CHECKING:
    from collectors.agent.node import Node

MOST_POINTS = 100_000
"""Points whose metadata are kept; a hall has some thousands."""

TICK_MS = 1000


class Building:
    """Keeps what metadata say of points, and turns values into frames. Names racks as the metadata do, else by their
    place in the tag ("rowE/rack02"); a coolant unit is named as a rack of its own."""

    def __init__(self) -> None:
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[Section, dict[str, dict[str, float]]]] = {}
        self._missing: dict[str, dict[str, int]] = {}

    def take(self, message: Message) -> None:
        """Take in one message."""
        if message.metadata is not None:
            if len(self._metadata) < MOST_POINTS or message.tag in self._metadata:
                self._metadata[message.tag] = message.metadata
                name = _named(message.metadata)
                if name:
                    self._names[_place(message)] = name
            return
        metadata = self._metadata.get(message.tag, {})
        where = meaning(message, metadata)
        if where is None:
            return
        rack = self.name_of(message)
        if message.value is None:
            counts = self._missing.setdefault(rack, {})
            counts["bad_quality"] = counts.get("bad_quality", 0) + 1
            return
        rows = self._values.setdefault(rack, {}).setdefault(where.section, {})
        rows.setdefault(where.part, {})[where.column] = message.value * where.factor + where.offset

    def name_of(self, message: Message) -> str:
        """The rack or unit that a message is about."""
        place = _place(message)
        return self._names.get(place, place)[:256]

    def frames(self, tick_ms: int) -> list[RackFrame]:
        """What came since the last call, one unstamped frame for each rack and unit."""
        values, self._values = self._values, {}
        missing, self._missing = self._missing, {}
        return [
            _frame(rack, tick_ms, values.get(rack, {}), missing.get(rack, {}))
            for rack in dict.fromkeys([*values, *missing])
        ]


def recorded(lines: Iterable[str], skip: Callable[[str], None]) -> Iterator[tuple[int, list[RackFrame]]]:
    """The frames of a recording, tick by tick of its own time; `skip` is told of lines that are no messages.

    Times that go back stay in the tick that was reached.
    """
    building, at_ms = Building(), 0
    for line in lines:
        try:
            message = parse_line(line)
        except BadLine as bad:
            skip(str(bad))
            continue
        if message is None:
            continue
        moment = message.ts_ms if message.ts_ms is not None else message.offset_ms
        tick_ms = at_ms if moment is None else max(at_ms, moment - moment % TICK_MS)
        if tick_ms > at_ms:
            made = building.frames(at_ms)
            if made:
                yield at_ms, made
            at_ms = tick_ms
        building.take(message)
    made = building.frames(at_ms)
    if made:
        yield at_ms, made


class CoolingBmsCollector:
    """Drafts a RackFrame for every rack and unit of which a value came. `lines` is where the bridge writes."""

    name = "cooling"
    interval_s = 1.0

    def __init__(self, lines: LineSource) -> None:
        self._lines, self._building = lines, Building()

    def collect(self, tick_ms: int) -> Reading:
        """What came since the last tick. NoData where nothing did."""
        bad = 0
        for _, line in self._lines.read():
            try:
                message = parse_line(line.decode("utf-8", "replace"))
            except BadLine:
                bad += 1
                continue
            if message is not None:
                self._building.take(message)
        frames = self._building.frames(tick_ms)
        if not frames and not bad:
            raise NoData("nothing came from the building")
        return Reading(drafts=tuple(frames), missing={"bad_line": bad} if bad else {})


def _frame(
    rack: str, tick_ms: int, values: Mapping[Section, Mapping[str, Mapping[str, float]]], missing: dict[str, int]
) -> RackFrame:
    sections = {}
    lost = dict(missing)
    for section, rows in values.items():
        used = {column for row in rows.values() for column in row}
        columns = tuple(name for name in names(section) if name in used)
        filled = [{column: row.get(column, math.nan) for column in columns} for row in rows.values()]
        sections[str(section)], wrong = table(section, tuple(rows), columns, filled)
        for reason, count in wrong.items():
            lost[reason] = lost.get(reason, 0) + count
    return RackFrame(**UNSTAMPED, ts_ms=tick_ms, rack=rack, sections=sections, missing=lost)


def _named(metadata: Mapping[str, Any]) -> str:
    for key in ("rackLocationId", "rackLocationName", "objectId", "objectName"):
        value = metadata.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _place(message: Message) -> str:
    """The part of a tag that is the rack's or unit's own: up to the first word that names one.

    >>> _place(Message("Rack", "RackPower", "nvidia/titan/pod1C/rowE/rack02/info/power/value"))
    'rowE/rack02'
    """
    parts = message.tag.split("/")
    wanted = ("rack",) if message.object_type.lower().startswith("rack") else ("cdu", "rack", "unit")
    for i, part in enumerate(parts):
        if any(word in part.lower() for word in wanted) and (i > 0 or len(parts) == 1):
            return "/".join(parts[max(0, i - 1) : i + 1]) if "rack" in part.lower() else part
    return "/".join(parts[:4]) or "unknown"


def on_node(node: "Node") -> Collector | None:
    """The folder that the settings name; none without one."""
    return CoolingBmsCollector(node.lines(node.settings.bms_dir, "*")) if node.settings.bms_dir else None
