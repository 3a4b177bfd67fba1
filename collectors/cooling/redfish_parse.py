"""Redfish resources to rows of the catalogue: pure, one function per kind of resource.

Property names and units are those of DMTF's schemas (DSP8010): CoolantConnector, CoolingLoop, Pump, Reservoir, Filter,
Fan, LeakDetector, Sensor, EnvironmentMetrics, ThermalMetrics, PowerSupply; the old Thermal and Power where a controller
has nothing newer. A device that says it is not enabled has no readings, whatever numbers it still shows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from collectors.cooling.redfish_limits import alarm, old_alarm
from collectors.cooling.redfish_processors import port, port_metrics, processor_metrics
from collectors.cooling.redfish_row import Row, name_of, row_of
from collectors.cooling.redfish_values import (
    ABSENT,
    Document,
    excerpt,
    get,
    health_of,
    number,
    quantity_of,
    source_of,
    state_of,
)
from collectors.cooling.redfish_words import leak_values, level_code

KW = 1000.0


def parse(document: object, uri: str) -> list[Row]:
    """The rows in one resource that was read from `uri`, and in members and entries that it carries whole.

    Never raises for what a controller may write; a kind that is not known gives nothing.
    """
    if not isinstance(document, Mapping):
        return []
    parser = PARSERS.get(kind_of(document))
    return list(parser(document, _own(document, uri))) if parser else []


def looks_like(start: bytes) -> bool:
    """Whether a file that begins so is a Redfish resource."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (
        b'"@odata.type"' in start or (b'"@odata.id"' in start and b"/redfish/" in start)
    )


def kind_of(document: Document) -> str:
    """The kind of a resource by its @odata.type ("#Fan.v1_5_1.Fan"), else by what is in it.

    >>> kind_of({"@odata.type": "#LeakDetectorCollection.LeakDetectorCollection"}), kind_of({"DetectorState": "OK"})
    ('Collection', 'LeakDetector')
    """
    said = document.get("@odata.type")
    name = said.rsplit(".", 1)[-1].lstrip("#") if isinstance(said, str) else ""
    if name.endswith("Collection") or isinstance(document.get("Members"), list):
        return "Collection"
    if name in PARSERS or name in CONTAINERS:
        return name
    return next((kind for kind, names in SHAPES if all(n in document for n in names)), name)


CONTAINERS = frozenset(
    (
        "ServiceRoot",
        "Chassis",
        "ThermalEquipment",
        "PowerEquipment",
        "PowerSubsystem",
        "Manager",
        "ComputerSystem",
        "Processor",
    )
)

SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("LeakDetector", ("DetectorState",)),
    ("LeakDetection", ("LeakDetectorGroups",)),
    ("LeakDetection", ("LeakDetectors",)),
    ("Pump", ("PumpSpeedPercent",)),
    ("Fan", ("SpeedPercent",)),
    ("CoolantConnector", ("SupplyTemperatureCelsius",)),
    ("CoolantConnector", ("FlowLitersPerMinute",)),
    ("CoolingLoop", ("CoolantLevelPercent",)),
    ("Reservoir", ("FluidLevelPercent",)),
    ("Thermal", ("Temperatures",)),
    ("ThermalMetrics", ("TemperatureReadingsCelsius",)),
    ("ThermalMetrics", ("TemperatureSummaryCelsius",)),
    ("PowerSupplyMetrics", ("OutputPowerWatts",)),
    ("Sensor", ("Reading", "ReadingUnits")),
    ("Sensor", ("Reading", "ReadingType")),
)
"""What tells a resource's kind where its type is missing or a vendor's own."""


def _own(document: Document, uri: str) -> str:
    said = document.get("@odata.id")
    return said if isinstance(said, str) and said.startswith("/") else uri


def _collection(document: Document, uri: str) -> Iterator[Row]:
    for member in _objects(get(document, "Members")):
        yield from parse(member, uri)


def _connector(document: Document, uri: str) -> Iterator[Row]:
    def read(name: str) -> float | None:
        return excerpt(get(document, name, CONNECTOR))

    supply, back, rise = (read(f"{which}TemperatureCelsius") for which in ("Supply", "Return", "Delta"))
    if back is None and supply is not None and rise is not None:
        back = supply + rise
    if supply is None and back is not None and rise is not None:
        supply = back - rise
    into, out, across = (read(f"{which}PressurekPa") for which in ("Supply", "Return", "Delta"))
    if across is None and into is not None and out is not None:
        across = into - out
    removed = read("HeatRemovedkW")
    yield row_of(
        "loop",
        uri,
        {
            "supply_c": supply,
            "return_c": back,
            "flow_lpm": read("FlowLitersPerMinute"),
            "heat_w": None if removed is None else KW * removed,
            "supply_kpa": into,
            "return_kpa": out,
            "delta_kpa": across,
            "valve_pct": read("ValvePositionPercent"),
            "rated_lpm": number(get(document, "RatedFlowLitersPerMinute", CONNECTOR)),
            "status_code": health_of(document),
        },
        document,
    )


CONNECTOR = frozenset(
    f"{which}{what}"
    for which in ("Supply", "Return", "Delta")
    for what in ("TemperatureCelsius", "PressurekPa", "TemperatureControlCelsius", "PressureControlkPa")
) | {"FlowLitersPerMinute", "RatedFlowLitersPerMinute", "RatedFlowPressurekPa", "RatedPressurekPa", "HeatRemovedkW"}
"""A CoolantConnector's own properties: none of them is another one misspelt."""


def _loop(document: Document, uri: str) -> Iterator[Row]:
    yield row_of(
        "loop",
        uri,
        {
            "level_pct": excerpt(get(document, "CoolantLevelPercent")),
            "status_code": _worst(
                health_of(document),
                level_code(get(document, "CoolantLevelStatus")),
                level_code(get(document, "CoolantQuality")),
            ),
        },
        document,
    )


def _unit(document: Document, uri: str) -> Iterator[Row]:
    yield row_of("cdu", uri, {"status_code": health_of(document)}, document)


def _pump(document: Document, uri: str) -> Iterator[Row]:
    speed = get(document, "PumpSpeedPercent")
    values = {
        "pump_speed_pct": excerpt(speed),
        "pump_speed_rpm": number(get(speed, "SpeedRPM")),
        "status_code": health_of(document),
    }
    if state_of(document).lower() != "absent":  # an empty place for a pump is no pump
        yield row_of("cdu", uri, values, document)


def _reservoir(document: Document, uri: str) -> Iterator[Row]:
    status = _worst(health_of(document), level_code(get(document, "FluidLevelStatus")))
    level = excerpt(get(document, "FluidLevelPercent"))
    yield row_of("cdu", uri, {"level_pct": level, "status_code": status}, document)


def _filter(document: Document, uri: str) -> Iterator[Row]:
    across = excerpt(get(document, "DeltaLiquidPressurekPa"))
    if across is None:
        across = excerpt(get(document, "DeltaPressurekPa"))
    yield row_of("cdu", uri, {"filter_kpa": across, "status_code": health_of(document)}, document)


def _fan(document: Document, uri: str) -> Iterator[Row]:
    """A Fan, or an entry of the old Thermal.Fans with Reading and ReadingUnits."""
    speed = get(document, "SpeedPercent")
    per_cent, rpm = excerpt(speed), number(get(speed, "SpeedRPM"))
    old, unit = number(get(document, "Reading")), str(get(document, "ReadingUnits") or "RPM").lower()
    if old is not None:
        per_cent, rpm = (old, rpm) if unit.startswith(("perc", "%")) else (per_cent, old)
    values = {"speed_pct": per_cent, "speed_rpm": rpm, "status_code": health_of(document)}
    if state_of(document).lower() != "absent":
        yield row_of("fan", uri, values, document)


def _leak_detector(document: Document, uri: str) -> Iterator[Row]:
    yield Row("leak", name_of(uri), leak_values(document), uri)


def _leak_detection(document: Document, uri: str) -> Iterator[Row]:
    """The groups of detectors in a LeakDetection, and detectors that it carries whole."""
    for group in _objects(get(document, "LeakDetectorGroups")):
        for detector in _objects(get(group, "Detectors")):
            source = source_of(detector) or f"{uri}/{get(detector, 'DeviceName') or 'detector'}"
            yield Row("leak", name_of(source), leak_values(detector), source)
    for detector in _objects(get(document, "LeakDetectors")):
        if get(detector, "DetectorState") is not None:
            yield from _leak_detector(detector, _own(detector, uri))


def _sensor(document: Document, uri: str) -> Iterator[Row]:
    quantity = quantity_of(document)
    if quantity is None:
        return
    value = number(get(document, "Reading"))
    scaled = None if value is None else value * quantity.factor + quantity.offset
    code = None if value is None else alarm(document, value, quantity.column)
    yield row_of("sensor", uri, {quantity.column: scaled, "alarm_code": code}, document)


METRICS: dict[str, str] = {
    "TemperatureCelsius": "temperature_c",
    "AmbientTemperatureCelsius": "temperature_c",
    "HumidityPercent": "humidity_pct",
    "PowerWatts": "power_w",
    "FanSpeedsPercent": "speed_pct",
    "TemperatureSummaryCelsius": "temperature_c",
    "TemperatureReadingsCelsius": "temperature_c",
}
"""What a summary repeats of sensors: an excerpt, a list of them, or a map of them."""

SUMMARIES = frozenset(METRICS)


def _summary(document: Document, uri: str) -> Iterator[Row]:
    for name, column in METRICS.items():
        for label, item in _excerpts(get(document, name, SUMMARIES)):
            source = source_of(item) or "/".join(filter(None, (uri, name, label)))
            value = excerpt(item)
            yield Row("sensor", name_of(source), {column: ABSENT if value is None else value}, source)


def _excerpts(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield str(get(item, "DeviceName") or i), item
    elif isinstance(value, Mapping) and "Reading" not in value:
        yield from ((str(key), item) for key, item in value.items() if isinstance(item, Mapping))
    elif value is not None:
        yield "", value


def _thermal(document: Document, uri: str) -> Iterator[Row]:
    """The old Thermal resource: arrays of temperatures and fans."""
    for item, own in _entries(document, "Temperatures", uri):
        value = number(get(item, "ReadingCelsius"))
        values = {"temperature_c": value, "alarm_code": None if value is None else old_alarm(item, value)}
        yield row_of("sensor", own, values, item)
    for item, own in _entries(document, "Fans", uri):
        yield from _fan(item, own)


def _entries(document: Document, name: str, uri: str) -> Iterator[tuple[Document, str]]:
    for i, item in enumerate(_objects(get(document, name))):
        label = get(item, "Name") or get(item, "FanName") or get(item, "MemberId") or i
        yield item, f"{uri}/{name}/{label}"


def _supply(document: Document, uri: str) -> Iterator[Row]:
    """A PowerSupply, its metrics, or an entry of the old Power.PowerSupplies."""
    into = excerpt(get(document, "InputPowerWatts", SUPPLY))
    out = excerpt(get(document, "OutputPowerWatts", SUPPLY))
    values: dict[str, float | None] = {
        "output_w": out if out is not None else _first(document, "PowerOutputWatts", "LastPowerOutputWatts"),
        "input_w": into if into is not None else _first(document, "PowerInputWatts"),
    }
    if state_of(document).lower() != "absent":
        yield _shelf(values, document, uri)


SUPPLY = frozenset(("InputPowerWatts", "OutputPowerWatts", "PowerInputWatts", "PowerOutputWatts"))


def _power(document: Document, uri: str) -> Iterator[Row]:
    for item, own in _entries(document, "PowerSupplies", uri):
        yield from _supply(item, own)


def _distribution(document: Document, uri: str) -> Iterator[Row]:
    """A power shelf or unit as a whole; PowerWatts is what goes through it."""
    yield _shelf({"input_w": excerpt(get(document, "PowerWatts"))}, document, uri)


def _shelf(values: dict[str, float | None], document: Document, uri: str) -> Row:
    """A row of a supply or shelf; its metrics, a resource of their own, say how it is read, not how it is."""
    if uri.endswith("/Metrics"):
        return row_of("shelf", uri.removesuffix("/Metrics"), values, document)
    return row_of("shelf", uri, values | {"status_code": health_of(document)}, document)


def _first(document: Document, *names: str) -> float | None:
    return next((value for name in names if (value := number(document.get(name))) is not None), None)


def _worst(*codes: float | None) -> float | None:
    return max((code for code in codes if code is not None), default=None)


def _objects(value: object) -> list[Document]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


PARSERS: dict[str, Callable[[Document, str], Iterable[Row]]] = {
    "Collection": _collection,
    "CoolantConnector": _connector,
    "CoolingLoop": _loop,
    "CoolingUnit": _unit,
    "Pump": _pump,
    "Reservoir": _reservoir,
    "Filter": _filter,
    "Fan": _fan,
    "LeakDetector": _leak_detector,
    "LeakDetection": _leak_detection,
    "Sensor": _sensor,
    "EnvironmentMetrics": _summary,
    "ThermalMetrics": _summary,
    "Thermal": _thermal,
    "PowerSupply": _supply,
    "PowerSupplyMetrics": _supply,
    "Power": _power,
    "PowerDistribution": _distribution,
    "PowerDistributionMetrics": _distribution,
    "ProcessorMetrics": processor_metrics,
    "Port": port,
    "PortMetrics": port_metrics,
}
"""A kind of resource and who reads it. Another one is a line here, and a link in `redfish_tree` if it hangs apart."""
