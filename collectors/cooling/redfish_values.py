"""Single values of Redfish documents: properties found although misspelt, numbers, units, states."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, NamedTuple

Document = Mapping[str, Any]

ABSENT = "unsupported"
"""Reason of a value that the device does not have."""

OFF = "not_enabled"
"""Reason of a value whose device says that it is disabled, absent or offline: its reading means nothing."""

ALIKE = 0.9
"""How alike a misspelt name must be (difflib's ratio): one or two letters of a Redfish name."""

BLANK = 1e15
"""Numbers beyond are fillers (2^63 - 1 and the like), never readings."""


def get(document: object, name: str, known: frozenset[str] = frozenset()) -> Any:
    """A property by its name; by the same name in other letters, or misspelt (never one of `known`), where it is not
    there. None where nothing fits, or where `document` is no object.

    >>> get({"SupplyTempratureCelsius": {"Reading": 30}}, "SupplyTemperatureCelsius")
    {'Reading': 30}
    """
    if not isinstance(document, Mapping):
        return None
    if name in document:
        return document[name]
    found = _alike(tuple(key for key in document if isinstance(key, str)), name, known)
    return None if found is None else document[found]


@lru_cache(maxsize=4096)
def _alike(keys: tuple[str, ...], name: str, known: frozenset[str]) -> str | None:
    low = name.lower()
    for key in keys:
        if key.lower() == low:
            return key
    if len(name) < 8:  # short names are too alike: Id, Name, State
        return None
    best, ratio = None, ALIKE
    for key in keys:
        if key in known or abs(len(key) - len(name)) > 2 or key[:1].lower() != low[:1]:
            continue
        here = SequenceMatcher(None, key.lower(), low).ratio()
        if here > ratio:
            best, ratio = key, here
    return best


def number(value: object) -> float | None:
    """A finite number, or text that is one; None for null, booleans, fillers and words ("N/A").

    >>> number("31.5"), number(None), number(True), number("N/A")
    (31.5, None, None, None)
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < BLANK else None  # NaN and infinities fail here too


def excerpt(value: object) -> float | None:
    """The number of a sensor excerpt {"Reading": 31.5}, of a bare one, or of a list's first.

    >>> excerpt({"Reading": 24.3, "DataSourceUri": "/x"}), excerpt(24.3)
    (24.3, 24.3)
    """
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, Mapping):
        if not enabled(value):
            return None
        value = get(value, "Reading")
    return number(value)


def source_of(value: object) -> str:
    """The resource that an excerpt repeats; "" where it does not say."""
    uri = get(value, "DataSourceUri")
    return uri if isinstance(uri, str) else ""


RUNNING = frozenset(("enabled", "standbyspare", "standbyoffline", "intest", "starting", "updating", "qualified"))


def state_of(document: object) -> str:
    """Status.State, "Enabled" where nothing is said."""
    state = get(get(document, "Status"), "State")
    return state if isinstance(state, str) and state else "Enabled"


def enabled(document: object) -> bool:
    """Whether a device's readings mean something: not Disabled, Absent, UnavailableOffline, or the like."""
    return state_of(document).lower() in RUNNING


HEALTH = {"ok": 0.0, "warning": 1.0, "critical": 2.0}


def health_of(document: object) -> float | None:
    """Status.Health as a code: 0 OK, 1 warning, 2 critical; None where nothing, or nothing known, is said."""
    status = get(document, "Status")
    said = get(status, "Health")
    return HEALTH.get(said.lower()) if isinstance(said, str) else None


class Quantity(NamedTuple):
    """What a sensor's number is in the catalogue: column, and how to get there from its unit."""

    column: str
    factor: float = 1.0
    offset: float = 0.0


UNITS: dict[str, Quantity] = {
    "cel": Quantity("temperature_c"),
    "c": Quantity("temperature_c"),
    "degreesc": Quantity("temperature_c"),
    "[degf]": Quantity("temperature_c", 5 / 9, -160 / 9),
    "degf": Quantity("temperature_c", 5 / 9, -160 / 9),
    "f": Quantity("temperature_c", 5 / 9, -160 / 9),
    "k": Quantity("temperature_c", 1.0, -273.15),
    "rpm": Quantity("speed_rpm"),
    "{rev}/min": Quantity("speed_rpm"),
    "w": Quantity("power_w"),
    "watts": Quantity("power_w"),
    "kw": Quantity("power_w", 1e3),
    "v": Quantity("voltage_v"),
    "volts": Quantity("voltage_v"),
    "mv": Quantity("voltage_v", 1e-3),
    "a": Quantity("current_a"),
    "amps": Quantity("current_a"),
    "ma": Quantity("current_a", 1e-3),
    "kpa": Quantity("pressure_kpa"),
    "pa": Quantity("pressure_kpa", 1e-3),
    "mpa": Quantity("pressure_kpa", 1e3),
    "bar": Quantity("pressure_kpa", 100.0),
    "mbar": Quantity("pressure_kpa", 0.1),
    "psi": Quantity("pressure_kpa", 6.894757),
    "[psi]": Quantity("pressure_kpa", 6.894757),
    "l/min": Quantity("flow_lpm"),
    "lpm": Quantity("flow_lpm"),
    "l/s": Quantity("flow_lpm", 60.0),
    "l/h": Quantity("flow_lpm", 1 / 60),
    "m3/h": Quantity("flow_lpm", 1000 / 60),
    "gpm": Quantity("flow_lpm", 3.785412),
    "[gal_us]/min": Quantity("flow_lpm", 3.785412),
}
"""By unit, in small letters: UCUM as Redfish asks for, and what devices write instead. "mW" is left out: in small
letters a megawatt is one too."""

TYPES: dict[str, Quantity] = {
    "temperature": Quantity("temperature_c"),
    "humidity": Quantity("humidity_pct"),
    "power": Quantity("power_w"),
    "voltage": Quantity("voltage_v"),
    "current": Quantity("current_a"),
    "rotational": Quantity("speed_rpm"),
    "pressure": Quantity("pressure_kpa", 1e-3),
    "pressurepa": Quantity("pressure_kpa", 1e-3),
    "pressurekpa": Quantity("pressure_kpa"),
    "liquidflow": Quantity("flow_lpm", 60.0),
    "liquidflowlpm": Quantity("flow_lpm"),
    "heat": Quantity("power_w", 1e3),
}
"""By ReadingType, in the unit that Redfish's schema gives each; used where no unit is said."""

PERCENT: dict[str, str] = {"humidity": "humidity_pct", "liquidlevel": "level_pct", "rotational": "speed_pct"}
"""What per cent means by ReadingType."""


def quantity_of(sensor: Document) -> Quantity | None:
    """What the number of a Sensor is; None where the catalogue has no place for it (energy, frequency, altitude).

    >>> quantity_of({"ReadingUnits": "Cel", "ReadingBasis": "Headroom"})
    Quantity(column='margin_c', factor=1.0, offset=0.0)
    """
    unit = str(get(sensor, "ReadingUnits") or "").strip().lower().replace(" ", "")
    kind = str(get(sensor, "ReadingType") or "").strip().lower()
    found = UNITS.get(unit)
    if unit in ("%", "percent"):
        name = f"{get(sensor, 'Name') or ''} {get(sensor, 'Id') or ''}".lower()
        guess = "speed_pct" if "fan" in name or "pump" in name else "humidity_pct" if "humid" in name else ""
        column = PERCENT.get(kind, guess or ("level_pct" if "level" in name else ""))
        found = Quantity(column) if column else None
    elif not unit:
        found = TYPES.get(kind)
    if found and found.column == "temperature_c":
        if str(get(sensor, "ReadingBasis") or "").lower() == "headroom":
            return Quantity("margin_c", found.factor)
        if str(get(sensor, "ReadingBasis") or "").lower() == "delta":
            return None
    return found
