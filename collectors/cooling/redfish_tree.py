"""Which resources of a controller are worth asking for: the links that are followed, and what is read of them."""

from collections.abc import Mapping
from typing import NamedTuple

from collectors.cooling.redfish_parse import PARSERS, kind_of, parse
from collectors.cooling.redfish_values import Document, get

ROOT = "/redfish/v1/"

MOST_RESOURCES = 4000
"""Resources looked at on one controller; an HGX baseboard with eight GPUs has about a thousand. A tree that goes on for
ever (each member links to another) ends here."""

LINKS: dict[str, tuple[str, ...]] = {
    "ServiceRoot": ("Chassis", "ThermalEquipment", "PowerEquipment", "Systems"),
    "Chassis": (
        "ThermalSubsystem", "LeakDetectors", "Sensors", "EnvironmentMetrics", "PowerSubsystem", "Thermal", "Power",
    ),
    "ThermalSubsystem": ("LeakDetection", "CoolantConnectors", "Pumps", "Fans", "ThermalMetrics"),
    "ThermalEquipment": (
        "LeakDetection", "LeakDetectors", "CDUs", "ImmersionUnits", "HeatExchangers", "RPUs", "CoolingLoops",
    ),
    "CoolingUnit": (
        "LeakDetection", "PrimaryCoolantConnectors", "SecondaryCoolantConnectors", "Pumps", "Reservoirs", "Filters",
        "EnvironmentMetrics",
    ),
    "CoolingLoop": ("PrimaryCoolantConnectors", "SecondaryCoolantConnectors"),
    "LeakDetection": ("LeakDetectors",),
    "PowerEquipment": ("PowerShelves",),
    "PowerDistribution": ("PowerSupplies", "Metrics"),
    "PowerSubsystem": ("PowerSupplies",),
    "PowerSupply": ("Metrics",),
    "ComputerSystem": ("Processors",),
    "Processor": ("Metrics", "Ports"),
    "Port": ("Metrics",),
}  # fmt: skip
"""By kind of resource, in the order in which they are read: leaks first."""

LINK_WITH_A_NAME = 3
"""A member of a collection with more properties than a link with its type and name is the resource itself."""

OLDER = {"Thermal": "ThermalSubsystem", "Power": "PowerSubsystem"}
"""The old resource is read only where the controller has no new one: the same fans stand in both."""


class Look(NamedTuple):
    """What one resource leads to: resources to look at next, those to try (no fault if they are not there), and
    whether it carries readings itself."""

    follow: tuple[str, ...]
    attempt: tuple[str, ...]
    readings: bool


def look(document: object, uri: str) -> Look:
    """Read one document for its links. What is no object leads nowhere."""
    if not isinstance(document, Mapping):
        return Look((), (), False)
    kind = kind_of(document)
    if kind == "Collection":
        return _collection(document, uri)
    if kind not in LINKS and "Chassis" in document and "RedfishVersion" in document:
        kind = "ServiceRoot"
    names = [n for n in LINKS.get(kind, ()) if not (n in OLDER and uris(document, OLDER[n]))]
    follow = [found for name in names for found in uris(document, name)]
    attempt: tuple[str, ...] = ()
    if kind == "LeakDetection" and not follow and not get(document, "LeakDetectorGroups"):
        attempt = (uri.rstrip("/") + "/LeakDetectors",)  # seen: the link is left out, the collection is there
    if kind == "ThermalSubsystem" and get(document, "LeakDetection") is None:
        attempt = (uri.rstrip("/") + "/LeakDetection",)
    readings = kind in PARSERS and (bool(parse(document, uri)) or kind not in LINKS)
    return Look(_unique(follow), attempt, readings)


def _collection(document: Document, uri: str) -> Look:
    """Members that the collection carries whole are read with it; the others one by one."""
    follow: list[str] = []
    whole = False
    for member in get(document, "Members") or ():
        if not isinstance(member, Mapping):
            continue
        own = member.get("@odata.id")
        here = look(member, own if isinstance(own, str) else uri)
        if here.readings or len(member) > LINK_WITH_A_NAME:
            whole = whole or here.readings
            follow += here.follow
        elif local(own):
            follow.append(str(own))
    following = get(document, "Members@odata.nextLink")
    if local(following):
        follow.append(following)
    return Look(_unique(follow), (), whole)


def uris(document: Document, name: str) -> list[str]:
    """The resources that property `name` links to: one link, a list of links, or nothing."""
    value = get(document, name)
    items = value if isinstance(value, list) else [value]
    found = [item.get("@odata.id") for item in items if isinstance(item, Mapping)]
    return [str(uri) for uri in found if local(uri)]


def local(uri: object) -> bool:
    """Whether it is a path of this controller, and one that can stand in a request line."""
    return (
        isinstance(uri, str) and uri.startswith("/redfish") and uri.isascii() and uri.isprintable() and " " not in uri
    )


def _unique(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(uri.partition("#")[0] for uri in found))
