"""What the management controllers of a simulated rack answer: Redfish trees (path to document) of its readings.

In the shapes of DMTF's schemas and of a GB200 tray, so that the collector runs unchanged on them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.matrix import Matrix

Tree = dict[str, dict[str, Any]]

OK = {"State": "Enabled", "Health": "OK"}


def tray_tree(detectors: Matrix, tray: str) -> Tree:
    """A compute tray's controller: the leak detectors of section `leak` that belong to `tray` ("node/detector"), two
    fans, and sensors of its air. A detector without a reading says Unavailable."""
    base = "/redfish/v1/Chassis/Chassis_0"
    tree = _root({"Chassis": _link("/redfish/v1/Chassis")}) | _collection("/redfish/v1/Chassis", "Chassis", [base])
    tree[base] = _document(base, "Chassis.v1_22_0.Chassis") | {
        "ThermalSubsystem": _link(f"{base}/ThermalSubsystem"),
        "Sensors": _link(f"{base}/Sensors"),
    }
    thermal = f"{base}/ThermalSubsystem"
    tree[thermal] = _document(thermal, "ThermalSubsystem.v1_3_0.ThermalSubsystem") | {
        "LeakDetection": _link(f"{thermal}/LeakDetection"),
        "Fans": _link(f"{thermal}/Fans"),
    }
    leaks = f"{thermal}/LeakDetection"
    tree[leaks] = _document(leaks, "LeakDetection.v1_0_0.LeakDetection") | {
        "LeakDetectors": _link(f"{leaks}/LeakDetectors")
    }
    states = {}
    for row, wet in zip(detectors.rows, detectors.column("leak_detected").tolist(), strict=True):
        node, _, name = row.partition("/")
        if node == tray:
            states[f"{leaks}/LeakDetectors/{name}"] = _detector(wet)
    tree |= _collection(f"{leaks}/LeakDetectors", "LeakDetector", list(states))
    tree |= {uri: _document(uri, "LeakDetector.v1_1_0.LeakDetector") | state for uri, state in states.items()}
    fans = [f"{thermal}/Fans/Fan_{i}" for i in range(2)]
    tree |= _collection(f"{thermal}/Fans", "Fan", fans)
    for uri in fans:
        tree[uri] = _document(uri, "Fan.v1_5_1.Fan") | {"SpeedPercent": {"Reading": 45, "SpeedRPM": 9800}}
    air = f"{base}/Sensors/Inlet"
    tree |= _collection(f"{base}/Sensors", "Sensor", [air])
    tree[air] = _document(air, "Sensor.v1_7_0.Sensor") | {
        "Reading": 25.0,
        "ReadingUnits": "Cel",
        "ReadingType": "Temperature",
        "Thresholds": {"UpperCritical": {"Reading": 45.0}},
    }
    return tree


def unit_tree(loop: Matrix, cdu: Matrix) -> Tree:
    """A coolant distribution unit's controller: the loops of section `loop` as its secondary connectors, the pumps of
    section `cdu`, and the pressure over them as the loops'."""
    base = "/redfish/v1/ThermalEquipment"
    unit = f"{base}/CDUs/1"
    tree = _root({"ThermalEquipment": _link(base)}) | _collection(f"{base}/CDUs", "CoolingUnit", [unit])
    tree[base] = _document(base, "ThermalEquipment.v1_1_1.ThermalEquipment") | {"CDUs": _link(f"{base}/CDUs")}
    tree[unit] = _document(unit, "CoolingUnit.v1_1_1.CoolingUnit") | {
        "EquipmentType": "CDU",
        "SecondaryCoolantConnectors": _link(f"{unit}/SecondaryCoolantConnectors"),
        "Pumps": _link(f"{unit}/Pumps"),
    }
    loops = [f"{unit}/SecondaryCoolantConnectors/{i + 1}" for i in range(len(loop.rows))]
    tree |= _collection(f"{unit}/SecondaryCoolantConnectors", "CoolantConnector", loops)
    columns = ("supply_c", "return_c", "flow_lpm", "heat_w")
    pressure = float(cdu.column("pressure_kpa")[0]) if cdu.rows else math.nan
    for uri, row in zip(loops, loop.select(columns).astype(float), strict=True):
        supply, back, flow, heat_w = row.tolist()
        tree[uri] = _document(uri, "CoolantConnector.v1_0_1.CoolantConnector") | {
            "SupplyTemperatureCelsius": _reading(supply),
            "ReturnTemperatureCelsius": _reading(back),
            "FlowLitersPerMinute": _reading(flow),
            "HeatRemovedkW": _reading(heat_w / 1000),
            "DeltaPressurekPa": _reading(pressure),
        }
    pumps = [f"{unit}/Pumps/{i + 1}" for i in range(len(cdu.rows))]
    tree |= _collection(f"{unit}/Pumps", "Pump", pumps)
    for uri, speed in zip(pumps, cdu.column("pump_speed_pct").tolist(), strict=True):
        status = OK if speed else OK | {"State": "StandbySpare"}
        tree[uri] = _document(uri, "Pump.v1_0_1.Pump") | {"Status": status, "PumpSpeedPercent": _reading(speed)}
    return tree


def shelf_tree(shelf: Matrix) -> Tree:
    """A power shelf's controller: the shelves of section `shelf` as its supplies."""
    base = "/redfish/v1/Chassis/PowerShelf_0"
    supplies = f"{base}/PowerSubsystem/PowerSupplies"
    tree = _root({"Chassis": _link("/redfish/v1/Chassis")}) | _collection("/redfish/v1/Chassis", "Chassis", [base])
    tree[base] = _document(base, "Chassis.v1_22_0.Chassis") | {"PowerSubsystem": _link(f"{base}/PowerSubsystem")}
    tree[f"{base}/PowerSubsystem"] = _document(f"{base}/PowerSubsystem", "PowerSubsystem.v1_1_0.PowerSubsystem") | {
        "PowerSupplies": _link(supplies)
    }
    own = [f"{supplies}/{row}" for row in shelf.rows]
    tree |= _collection(supplies, "PowerSupply", own)
    for uri, output_w in zip(own, shelf.column("output_w").tolist(), strict=True):
        tree[uri] = _document(uri, "PowerSupply.v1_5_0.PowerSupply") | {"Metrics": _link(f"{uri}/Metrics")}
        tree[f"{uri}/Metrics"] = _document(f"{uri}/Metrics", "PowerSupplyMetrics.v1_1_0.PowerSupplyMetrics") | {
            "OutputPowerWatts": _reading(output_w)
        }
    return tree


def _root(links: Mapping[str, Any]) -> Tree:
    return {"/redfish/v1": _document("/redfish/v1/", "ServiceRoot.v1_15_0.ServiceRoot") | dict(links)}


def _document(uri: str, kind: str) -> dict[str, Any]:
    name = uri.rstrip("/").rpartition("/")[2]
    return {"@odata.id": uri, "@odata.type": f"#{kind}", "Id": name, "Name": name, "Status": OK}


def _collection(uri: str, kind: str, members: Sequence[str]) -> Tree:
    return {
        uri: {
            "@odata.id": uri,
            "@odata.type": f"#{kind}Collection.{kind}Collection",
            "Name": f"{kind} Collection",
            "Members": [_link(member) for member in members],
            "Members@odata.count": len(members),
        }
    }


def _link(uri: str) -> dict[str, str]:
    return {"@odata.id": uri}


def _reading(value: float) -> dict[str, float | None]:
    return {"Reading": None if math.isnan(value) else value}


def _detector(wet: float) -> dict[str, Any]:
    if math.isnan(wet):
        return {"DetectorState": "Unavailable", "Status": {"State": "UnavailableOffline"}}
    if wet:
        return {"DetectorState": "LeakDetected", "Status": OK | {"Health": "Critical"}}
    return {"DetectorState": "OK", "Status": OK}
