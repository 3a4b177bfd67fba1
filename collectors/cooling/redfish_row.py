"""Rows of the catalogue from Redfish resources, and their names. A row is what every parser of a resource gives."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from collectors.cooling.redfish_values import ABSENT, OFF, Document, enabled
from collectors.rates import Value
from schemas.metrics import Section


class Row(NamedTuple):
    """One row of one section. `source` is the resource that measured it: a sensor that a summary repeats is the
    sensor's row."""

    section: Section
    name: str
    values: dict[str, Value]
    source: str


NOISE = frozenset(
    (
        "redfish", "v1", "Chassis", "ThermalEquipment", "ThermalSubsystem", "LeakDetection", "Sensors",
        "PowerSubsystem", "PowerEquipment", "Ports",
    )
)  # fmt: skip
"""Parts of a path that say nothing: what is left names a row, the same in whichever place it is listed."""


def name_of(uri: str) -> str:
    """A short, stable name of a resource: its path without what every path has.

    >>> name_of("/redfish/v1/Chassis/1U/ThermalSubsystem/Fans/Bay1")
    '1U/Fans/Bay1'
    """
    parts = urlsplit(uri)
    path = parts.path + ("/" + parts.fragment if parts.fragment else "")
    kept = [unquote(part) for part in path.split("/") if part and part not in NOISE]
    return "".join(c for c in "/".join(kept) if c.isprintable())[:200] or "root"


def row_of(section: Section, uri: str, values: dict[str, float | None], document: Document) -> Row:
    """A row of readings of one device: absent ones by their reason, all of them where it is not enabled."""
    on = enabled(document)
    done: dict[str, Value] = {
        name: OFF if not on else ABSENT if value is None else value for name, value in values.items()
    }
    return Row(section, name_of(uri), done, uri)
