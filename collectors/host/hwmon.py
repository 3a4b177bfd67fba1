"""The board's own sensors through Linux's hwmon: temperatures with their limits, and fans.

Chips are numbered anew at each boot, so they are told by `name`; values are in thousandths of a degree and in turns a
minute (Documentation/hwmon/sysfs-interface). Some chips take milliseconds to answer: read every ten seconds.
"""

import re
from pathlib import Path
from typing import NamedTuple

from collectors.agent.node import Node
from collectors.base import Collector, NoData, Reading
from collectors.digits import whole
from collectors.host.kernel_files import content
from collectors.rates import Value
from collectors.table import table

CLASS = "class/hwmon"

CPU_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "grace", "scpi_sensors")
"""Drivers whose temperatures are the processors' own."""

PLAUSIBLE_C = (-20.0, 150.0)
"""Unconnected inputs read -55, -128 or 255."""

_INPUT = re.compile(r"(temp|fan)(\d+)_input")


class Sensor(NamedTuple):
    """One input: `value` in degrees or turns a minute, `limit` the critical (else highest) temperature, None where it
    has none."""

    chip: str
    kind: str
    number: int
    value: float
    limit: float | None = None
    alarm: bool = False


def parse_chip(name: str, files: dict[str, str]) -> list[Sensor]:
    """All inputs of one chip from its files' texts; what is no number or cannot be true is left out.

    >>> parse_chip("k10temp", {"temp1_input": "61500", "temp1_crit": "95000"})
    [Sensor(chip='k10temp', kind='temp', number=1, value=61.5, limit=95.0, alarm=False)]
    """
    found = []
    for file, text in sorted(files.items()):
        match = _INPUT.fullmatch(file)
        raw = _number(text)
        if match is None or raw is None:
            continue
        kind, number = match[1], int(match[2])
        scale = 1000.0 if kind == "temp" else 1.0
        value = raw / scale
        if kind == "temp" and not PLAUSIBLE_C[0] <= value <= PLAUSIBLE_C[1]:
            continue
        limits = (_number(files.get(f"temp{number}_{word}", "")) for word in ("crit", "max"))
        limit = (
            next((most / scale for most in limits if most is not None and most > 0), None) if kind == "temp" else None
        )
        alarm = files.get(f"{kind}{number}_alarm", "").strip() == "1"
        found.append(Sensor(name, kind, number, value, limit, alarm))
    return found


class HwmonCollector:
    """Fills the sensors' columns of section `host`; `sys` is the root of /sys."""

    name = "hwmon"
    interval_s = 10.0

    def __init__(self, sys: Path, node: str) -> None:
        self._sys, self._node = sys, node
        self._ran: set[tuple[str, int]] = set()

    def collect(self, tick_ms: int) -> Reading:
        """NoData where the machine shows no sensors (most virtual ones)."""
        sensors = [sensor for place, name, files in self._chips() for sensor in parse_chip(f"{place}/{name}", files)]
        if not sensors:
            raise NoData("no hwmon sensors here")
        hottest = [s.value for s in sensors if s.kind == "temp" and s.chip.rpartition("/")[2] in CPU_CHIPS]
        margins = [s.limit - s.value for s in sensors if s.kind == "temp" and s.limit is not None]
        fans = [s for s in sensors if s.kind == "fan"]
        self._ran |= {(s.chip, s.number) for s in fans if s.value > 0}
        # A header without a fan reads 0 for ever; a fan that has run and stands still is one that stopped.
        stopped = [s for s in fans if s.value == 0 and ((s.chip, s.number) in self._ran or s.alarm)]
        turning = [s.value for s in fans if s.value > 0]
        row: dict[str, Value] = {
            "cpu_temperature_c": max(hottest, default="unsupported"),
            "temperature_margin_c": min(margins, default="unsupported"),
            "fan_lowest_rpm": min(turning, default="unsupported"),
            "fans_stopped_count": float(len(stopped)) if fans else "unsupported",
        }
        matrix, missing = table("host", [self._node], tuple(row), [row])
        return Reading({"host": matrix}, missing=missing)

    def _chips(self) -> list[tuple[str, str, dict[str, str]]]:
        """Place, driver and files of every chip that can be read."""
        try:
            folders = sorted((self._sys / CLASS).iterdir(), key=lambda folder: folder.name)
        except OSError:
            return []
        chips = []
        for folder in folders:
            try:
                wanted = [f for f in folder.iterdir() if f.name.startswith(("temp", "fan", "name"))]
            except OSError:
                continue
            files = {f.name: _text(f) for f in wanted if f.name.endswith(("_input", "_crit", "_max", "_alarm", "name"))}
            chips.append((folder.name, files.get("name", "").strip(), files))
        return chips


def _number(text: str) -> int | None:
    text = text.strip()
    number = whole(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def _text(path: Path) -> str:
    try:
        return content(path).decode("ascii", "replace")
    except OSError:
        return ""  # a sensor that is switched off answers with an error


def on_node(node: Node) -> Collector:
    """From this machine's /sys."""
    return HwmonCollector(node.machine.sys, node.identity.node)
