"""Lines of a building management system to points: where, what, in which unit. Pure.

NVIDIA's DSX Exchange publishes over MQTT: `BMS/v1/PUB/{Value|Metadata}/{object}/{point}/{tag}`; an older form is
`BMS/v1/{tag}/Value` with seconds. What a bridge or a recording makes of it is taken as it comes: "topic payload"
(mosquitto_sub -v), a JSON object with topic and payload, or CSV (offset, topic, payload; or already flat). Tags are
written by hand in every hall: names are matched by likeness, units by what the metadata say.
"""

import csv
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from collectors.cooling.redfish_values import UNITS, number
from schemas.metrics import Section


class Message(NamedTuple):
    """One published message. `metadata` describes the point; else `value` is its reading (None: null or of bad
    quality). `offset_ms` is the time in a recording, `ts_ms` the publisher's own; None where there is none."""

    object_type: str
    point: str
    tag: str
    metadata: Mapping[str, Any] | None = None
    value: float | None = None
    offset_ms: int | None = None
    ts_ms: int | None = None


class Meaning(NamedTuple):
    """Where a point's value belongs. `part` names the row within its rack or unit."""

    section: Section
    column: str
    part: str
    factor: float = 1.0
    offset: float = 0.0


class BadLine(ValueError):
    """A line that is no message of a building; the text is one word for counting."""


GOOD_QUALITY = (1, 192)
"""DSX Exchange says 1; OPC's good is 192 and above."""

SECONDS_BELOW = 1e11
"""A time stamp below this counts seconds (until the year 5138), above it milliseconds (since 1973)."""

LONGEST_WORD, MOST_WORDS = 64, 64
"""Letters of a time, and words of a tag, that are looked at: no hall has longer ones."""

MOST_MS = 4_102_444_800_000
"""The year 2100, and the last time that a record may have."""

_TAG_WORD = re.compile(r"[a-z]{1,64}\d{0,8}")
_TEMPLATE = re.compile(r"\{\{\s*\w+\s*\}\}")
_GO = re.compile(r"([\d.]+)(h|ms|us|µs|ns|m|s)")
_GO_MS = {"h": 3.6e6, "m": 6e4, "s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}


def looks_like(start: bytes) -> bool:
    """Whether a file that begins so holds messages of a building: its topics, or the flat table made of them."""
    first = start.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].strip().lower()
    return b"BMS/v1/" in start[:4096] or first.startswith(b"offset_s,object_type,point_type,object,tag,value")


def parse_line(line: str) -> Message | None:
    """The message in a line; None for a header or an empty line. Raises BadLine for anything else."""
    line = line.strip().lstrip("\ufeff")
    if not line or line.lower().startswith(("offset,", "offset_s,", "time,", "timestamp,")):
        return None
    if line.startswith("{"):
        whole = _json(line)
        topic, payload = whole.get("topic"), whole.get("payload")
        if not isinstance(topic, str):
            raise BadLine("no_topic")
        return _message(topic, payload if isinstance(payload, dict) else _json(str(payload)), None)
    if line.startswith("BMS/"):
        topic, _, payload = line.partition(" ")
        return _message(topic, _json(payload), None)
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        raise BadLine("not_csv") from None
    if len(cells) >= 3 and cells[1].startswith("BMS/"):
        return _message(cells[1], _json(cells[2]), offset_ms(cells[0]))
    if len(cells) >= 6 and cells[4].count("/") >= 2:
        quality = number(cells[6]) if len(cells) > 6 and cells[6] else 1.0
        value = number(cells[5]) if _good(quality) else None
        return Message(cells[1], cells[2], cells[4], None, value, offset_ms(cells[0]))
    raise BadLine("unknown_form")


def offset_ms(text: str) -> int | None:
    """Milliseconds of a Go duration, or of plain seconds.

    >>> offset_ms("1m39.365s"), offset_ms("67.18ms"), offset_ms("1.914")
    (99365, 67, 1914)
    """
    if len(text) > LONGEST_WORD:
        return None
    plain = number(text)
    if plain is not None:
        return _moment(1000 * plain)
    found = _GO.findall(text)
    if not found or "".join(n + unit for n, unit in found) != text.strip():
        return None
    try:
        return _moment(sum(float(n) * _GO_MS[unit] for n, unit in found))
    except ValueError:
        return None


def _moment(ms: float) -> int | None:
    return round(ms) if abs(ms) <= MOST_MS else None


def _message(topic: str, payload: Mapping[str, Any], offset: int | None) -> Message:
    parts = topic.split("/")
    if parts[:1] != ["BMS"] or len(parts) < 5:
        raise BadLine("unknown_topic")
    if len(parts) > 6 and parts[2] == "PUB" and parts[3] in ("Value", "Metadata"):
        what, object_type, point, tag = parts[3], parts[4], parts[5], "/".join(parts[6:])
    elif parts[-1] in ("Value", "Metadata"):  # the older form has no point type: its tag says it
        what, tag = parts[-1], "/".join(parts[2:-1])
        object_type, point = str(payload.get("objectType", "")), str(payload.get("pointType", parts[-2]))
    else:
        raise BadLine("unknown_topic")
    if what == "Metadata":
        return Message(object_type, point, tag, payload, None, offset)
    stamp = number(payload.get("timestamp"))
    ts_ms = None if stamp is None or stamp <= 0 else _moment(stamp * 1000 if stamp < SECONDS_BELOW else stamp)
    value = payload.get("value")
    value = float(value) if isinstance(value, bool) else number(value)
    if not _good(number(payload.get("quality", 1))):
        value = None
    return Message(object_type, point, tag, None, value, offset, ts_ms)


def _good(quality: float | None) -> bool:
    return quality is not None and (quality == GOOD_QUALITY[0] or quality >= GOOD_QUALITY[1])


def _json(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_TEMPLATE.sub("null", text))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise BadLine("not_json") from None
    if not isinstance(found, dict):
        raise BadLine("not_json")
    return found


RACK_POINTS: dict[str, tuple[Section, str, str, str]] = {
    "RackLiquidSupplyTemperature": ("loop", "supply_c", "loop", "c"),
    "RackLiquidReturnTemperature": ("loop", "return_c", "loop", "c"),
    "RackLiquidFlow": ("loop", "flow_lpm", "loop", "lpm"),
    "RackLiquidDifferentialPressure": ("loop", "delta_kpa", "loop", "kpa"),
    "RackControlValvePosition": ("loop", "valve_pct", "loop", "%"),
    "RackPower": ("loop", "power_w", "loop", "kw"),
    "RackLeakDetect": ("leak", "leak_detected", "rack", ""),
    "RackLeakDetectTray": ("leak", "leak_detected", "trays", ""),
    "LeakDetectRack": ("leak", "leak_detected", "rack", ""),
    "LeakDetectTray": ("leak", "leak_detected", "trays", ""),
    "RackLeakSensorFault": ("leak", "sensor_failed", "rack", ""),
}
"""What a rack's point is: section, column, row, and its unit where the metadata name none."""

UNIT_POINTS = (
    "LiquidTemperature", "LiquidFlow", "LiquidPressure", "LiquidDifferentialPressure", "PumpSpeed", "ValvePosition",
    "LeakDetect", "LeakSensorFault",
)  # fmt: skip

LIKE = 0.85
"""difflib's ratio from which a name is one of ours misspelt."""


def meaning(message: Message, metadata: Mapping[str, Any]) -> Meaning | None:
    """Where the value of a point belongs, given what is known of it; None for set points, requests, and what the
    catalogue has no place for."""
    if metadata.get("isSetpoint") is True or message.point.endswith(("Sp", "Request", "Setpoint")):
        return None
    words = tuple(found[0] for found in islice(_TAG_WORD.finditer(message.tag.lower()), MOST_WORDS))
    if any(word.startswith(("setpoint", "dpsetpoint", "tempsetpoint", "finalsetpoint")) for word in words):
        return None
    unit = str(metadata.get("engUnit") or "").strip().lower().replace(" ", "")
    of_rack = message.object_type.lower().startswith("rack") or message.point in RACK_POINTS
    rack_point = _like(message.point, tuple(RACK_POINTS)) if of_rack else ""
    if rack_point:
        section, column, part, usual = RACK_POINTS[rack_point]
        return _scaled(section, column, part, unit or usual)
    area = metadata.get("processArea")
    said = [str(word)[:LONGEST_WORD].lower() for word in area[:MOST_WORDS]] if isinstance(area, list) else []
    return _unit_point(_like(message.point, UNIT_POINTS), said, list(words), unit, "stateText" in metadata)


def _unit_point(point: str, area: list[str], words: list[str], unit: str, is_state: bool) -> Meaning | None:
    side = _word(area + words, ("primary", "secondary")) or "secondary"
    end = _word(area + words, ("supply", "return", "inlet", "outlet"))
    first = end in ("supply", "inlet")
    if point == "LiquidTemperature" and end:
        return _scaled("loop", "supply_c" if first else "return_c", side, unit or "c")
    if point == "LiquidFlow":
        return _scaled("loop", "flow_lpm", side, unit or "lpm")
    if point == "LiquidPressure" and end:
        return _scaled("loop", "supply_kpa" if first else "return_kpa", side, unit or "kpa")
    if point == "LiquidDifferentialPressure":
        across = next((word for word in words if re.fullmatch(r"filter\d+", word)), "")
        across = across or ("filter" if any(word.startswith("filter") for word in area + words) else "")
        if across:
            return _scaled("cdu", "filter_kpa", across, unit or "kpa")
        return _scaled("loop", "delta_kpa", side, unit or "kpa")
    if point == "PumpSpeed" and not is_state and "status" not in words:
        pump = next((word for word in words if re.fullmatch(r"pump\d+", word)), "pump")
        return _scaled("cdu", "pump_speed_rpm" if unit == "rpm" else "pump_speed_pct", pump, unit or "%")
    if point == "ValvePosition":
        return _scaled("loop", "valve_pct", side, unit or "%")
    if point == "LeakDetect":
        return Meaning("leak", "leak_detected", "unit")
    if point == "LeakSensorFault":
        return Meaning("leak", "sensor_failed", "unit")
    return None


def _scaled(section: Section, column: str, part: str, unit: str) -> Meaning | None:
    known = UNITS.get(unit)
    if known is None:
        return Meaning(section, column, part) if unit in ("", "%", "percent") else None
    return Meaning(section, column, part, known.factor, known.offset)


@lru_cache(maxsize=1024)
def _like(name: str, known: tuple[str, ...]) -> str:
    if name in known:
        return name
    by_low = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), by_low, 1, LIKE)
    return by_low[found[0]] if found else ""


def _word(words: list[str], known: tuple[str, ...]) -> str:
    """The first of `words` that is one of `known`, or one misspelt ("Seccondary")."""
    for word in words:
        found = _like(word, known)
        if found:
            return found
    return ""
