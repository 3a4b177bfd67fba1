"""Redfish documents to rows: literal shapes, vendors' words, golden outputs, and anything else without a fall."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.cooling.redfish_parse import kind_of, parse
from collectors.cooling.redfish_row import name_of
from collectors.cooling.redfish_tree import look

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "data" / "redfish"
REAL = ROOT / ".." / "shared" / "data" / "gpu" / "redfish"
GOLDEN = ROOT / "tests" / "golden" / "redfish"


def rows(document: dict[str, Any], uri: str = "/redfish/v1/x") -> list[tuple[str, str, dict[str, Any]]]:
    return [(row.section, row.name, row.values) for row in parse(document, uri)]


def one(document: dict[str, Any]) -> dict[str, Any]:
    (row,) = parse(document, "/redfish/v1/x")
    return row.values


def readable(path: Path) -> list[Any]:
    """What a golden file holds of one document: its rows, and the links that would be followed."""
    document = json.loads(path.read_text())
    uri = "/redfish/v1/sample"
    here = look(document, uri)
    return [[list(row) for row in rows(document, uri)], {"follow": here.follow, "attempt": here.attempt}]


def check_golden(folder: Path, golden: Path) -> None:
    found = {str(path.relative_to(folder)): readable(path) for path in sorted(folder.rglob("*.json"))}
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    assert found, folder
    assert text == golden.read_text(), f"{golden.name} differs; if the new output is right, write it anew"


def test_our_samples_of_every_kind_give_the_golden_rows() -> None:
    check_golden(SAMPLES, GOLDEN / "samples.json")


def test_real_documents_give_the_golden_rows() -> None:
    if not REAL.is_dir():
        pytest.skip("no shared/data/gpu/redfish beside the project")
    check_golden(REAL, GOLDEN / "real.json")


OK = {"Health": "OK", "State": "Enabled"}
CRITICAL = {"Health": "Critical", "State": "Enabled"}
OFF = {"temperature_c": "not_enabled", "alarm_code": "not_enabled"}
NOTHING = {"temperature_c": "unsupported", "alarm_code": "unsupported"}


@pytest.mark.parametrize(
    ("detector", "wet", "failed"),
    [
        ({"DetectorState": "OK", "Status": OK}, 0.0, 0.0),
        ({"DetectorState": "Warning", "Status": {"Health": "Warning"}}, 1.0, 0.0),
        ({"DetectorState": "Critical", "Status": CRITICAL}, 1.0, 0.0),
        ({"DetectorState": "LeakDetected", "Status": CRITICAL}, 1.0, 0.0),
        ({"DetectorState": "Leak Detected", "Status": OK}, 1.0, 0.0),
        ({"DetectorState": "No Leak", "Status": OK}, 0.0, 0.0),
        ({"DetectorState": "NoLeakDetected"}, 0.0, 0.0),
        ({"DetectorState": "Wet"}, 1.0, 0.0),
        ({"DetectorState": "Unavailable", "Status": {"State": "Enabled"}}, "not_enabled", 1.0),
        ({"DetectorState": "Absent", "Status": {"State": "Absent"}}, "not_enabled", 1.0),
        ({"DetectorState": "OK", "Status": {"State": "Disabled", "Health": "OK"}}, "not_enabled", 1.0),
        ({"DetectorState": "OK", "Status": CRITICAL}, "not_enabled", 1.0),
        ({"DetectorState": "Sploosh", "Status": CRITICAL}, 1.0, 0.0),
        ({"DetectorState": "Sploosh", "Status": OK}, "unknown_state", 1.0),
        ({"DetectorState": None, "Status": CRITICAL}, 1.0, 0.0),
        ({"DetectorState": None, "Status": OK}, 0.0, 0.0),
        ({"DetectorState": None}, "unsupported", "unsupported"),
        ({"DetectorState": 7, "LeakDetected": True}, 1.0, 0.0),
    ],
)
def test_words_of_leak_detectors(detector: dict[str, Any], wet: object, failed: object) -> None:
    values = one(detector | {"@odata.type": "#LeakDetector.v1_1_0.LeakDetector"})
    assert (values["leak_detected"], values["sensor_failed"]) == (wet, failed)


@pytest.mark.parametrize(
    ("sensor", "expected"),
    [
        ({"Reading": 58.0, "ReadingUnits": "Cel", "ReadingBasis": "Headroom"}, {"margin_c": 58.0, "alarm_code": 0.0}),
        ({"Reading": -3, "ReadingUnits": "Cel", "ReadingBasis": "Headroom"}, {"margin_c": -3.0, "alarm_code": 2.0}),
        ({"Reading": None, "ReadingUnits": "Cel", "Status": {"State": "UnavailableOffline"}}, OFF),
        ({"Reading": 41, "ReadingUnits": "Cel", "Status": {"State": "Disabled"}}, OFF),
        ({"Reading": None, "ReadingUnits": "W"}, {"power_w": "unsupported", "alarm_code": "unsupported"}),
        ({"Reading": 86.0, "ReadingUnits": "[degF]"}, {"temperature_c": pytest.approx(30.0), "alarm_code": 0.0}),
        ({"Reading": 2.5, "ReadingUnits": "bar"}, {"pressure_kpa": 250.0, "alarm_code": 0.0}),
        ({"Reading": 0.5, "ReadingUnits": "L/s"}, {"flow_lpm": 30.0, "alarm_code": 0.0}),
        ({"Reading": 3, "ReadingUnits": "m3/h"}, {"flow_lpm": 50.0, "alarm_code": 0.0}),
        ({"Reading": 42.0, "ReadingType": "LiquidFlowLPM"}, {"flow_lpm": 42.0, "alarm_code": 0.0}),
        ({"Reading": 45, "ReadingUnits": "%", "Name": "Chassis Fan #1"}, {"speed_pct": 45.0, "alarm_code": 0.0}),
        ({"Reading": 45, "ReadingUnits": "%", "ReadingType": "Humidity"}, {"humidity_pct": 45.0, "alarm_code": 0.0}),
        ({"Reading": "31.5", "ReadingUnits": "Cel"}, {"temperature_c": 31.5, "alarm_code": 0.0}),
        ({"Reading": 9223372036854775807, "ReadingUnits": "Cel"}, NOTHING),
    ],
)  # fmt: skip
def test_sensors(sensor: dict[str, Any], expected: dict[str, Any]) -> None:
    assert one({"@odata.type": "#Sensor.v1_7_0.Sensor"} | sensor) == expected


@pytest.mark.parametrize(
    ("reading", "thresholds", "code"),
    [
        (39, {"UpperCaution": {"Reading": 42}, "UpperCritical": {"Reading": 45}, "UpperFatal": {"Reading": 50}}, 0),
        (43, {"UpperCaution": {"Reading": 42}, "UpperCritical": {"Reading": 45}, "UpperFatal": {"Reading": 50}}, 1),
        (45, {"UpperCaution": {"Reading": 42}, "UpperCritical": {"Reading": 45}, "UpperFatal": {"Reading": 50}}, 2),
        (51, {"UpperCaution": {"Reading": 42}, "UpperCritical": {"Reading": 45}, "UpperFatal": {"Reading": 50}}, 3),
        (3, {"LowerCritical": {"Reading": 5}}, 2),
        (46, {"UpperCritical": {"Reading": 45, "Activation": "Disabled"}}, 0),
        (46, {"UpperCriticalUser": {"Reading": 45}}, 0),
        (30, {"UpperCritical": {"Reading": 0}, "LowerCritical": {"Reading": 0}}, 0),
        (30, {"UpperCritical": {"Reading": 10}, "LowerCritical": {"Reading": 40}}, 0),
        (30, {"UpperCritical": {"Reading": None}}, 0),
        (30, {"UpperCritical": None}, 0),
        (30, [], 0),
    ],
)
def test_limits_that_are_none_and_limits_that_hold(reading: float, thresholds: Any, code: int) -> None:
    sensor = {
        "@odata.type": "#Sensor.v1_7_0.Sensor",
        "Reading": reading,
        "ReadingUnits": "Cel",
        "Thresholds": thresholds,
    }
    assert one(sensor)["alarm_code"] == code


def test_misspelt_properties_are_found_and_neighbours_are_not_mistaken() -> None:
    values = one(
        {
            "@odata.type": "#CoolantConnector.v1_0_1.CoolantConnector",
            "SupplyTempratureCelsius": {"Reading": 30.0},
            "returnTemperatureCelsius": {"Reading": 45.0},
            "FlowLitresPerMinute": {"Reading": 50.0},
            "SupplyPressurekPa": {"Reading": 300.0},
        }
    )
    assert (values["supply_c"], values["return_c"], values["flow_lpm"]) == (30.0, 45.0, 50.0)
    assert (values["supply_kpa"], values["return_kpa"], values["delta_kpa"]) == (300.0, "unsupported", "unsupported")


def test_a_temperature_that_is_missing_follows_from_the_other_and_the_difference() -> None:
    base = {"@odata.type": "#CoolantConnector.v1_0_1.CoolantConnector", "DeltaTemperatureCelsius": {"Reading": 10.0}}
    assert one(base | {"SupplyTemperatureCelsius": {"Reading": 30.0}})["return_c"] == 40.0
    assert one(base | {"ReturnTemperatureCelsius": {"Reading": 40.0}})["supply_c"] == 30.0


def test_one_sensor_shown_in_three_places_is_one_row() -> None:
    uri = "/redfish/v1/Chassis/1U/Sensors/CPU1Temp"
    shown = {"Reading": 39, "DataSourceUri": uri}
    metrics = {"@odata.type": "#ThermalMetrics.v1_1_0.ThermalMetrics", "TemperatureReadingsCelsius": [shown]}
    environment = {"@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics", "TemperatureCelsius": shown}
    sensor = {"@odata.type": "#Sensor.v1_6_0.Sensor", "@odata.id": uri, "Reading": 39, "ReadingUnits": "Cel"}
    assert {row.name for document in (metrics, environment, sensor) for row in parse(document, "/x")} == {"1U/CPU1Temp"}


def test_a_detector_listed_in_two_collections_is_one_row() -> None:
    paths = ("Chassis/C0/ThermalSubsystem/LeakDetection/LeakDetectors/L1", "Chassis/C0/LeakDetectors/L1")
    assert len({name_of(f"/redfish/v1/{path}") for path in paths}) == 1


def test_a_kind_is_known_without_its_type() -> None:
    assert kind_of({"DetectorState": "OK"}) == "LeakDetector"
    assert kind_of({"@odata.type": "#OemWaterThing.v1.OemWaterThing", "PumpSpeedPercent": {"Reading": 3}}) == "Pump"
    assert kind_of({"@odata.type": 7, "Members": []}) == "Collection"


def test_members_that_a_collection_carries_whole_are_read_with_it() -> None:
    whole = {
        "@odata.type": "#SensorCollection.SensorCollection",
        "Members": [{"@odata.id": "/redfish/v1/Chassis/P/Sensors/a", "Reading": 5.5, "ReadingUnits": "A"}, 3, None],
    }
    assert rows(whole) == [("sensor", "P/a", {"current_a": 5.5, "alarm_code": 0.0})]
    assert look(whole, "/redfish/v1/Chassis/P/Sensors").readings


def test_a_leak_detection_without_its_link_is_tried_at_the_usual_place() -> None:
    document = {"@odata.type": "#LeakDetection.v1_0_0.LeakDetection", "Id": "LeakDetection"}
    assert look(document, "/redfish/v1/C/LeakDetection").attempt == ("/redfish/v1/C/LeakDetection/LeakDetectors",)


def test_links_out_of_the_controller_are_not_followed() -> None:
    links = ["http://evil/redfish/v1/x", "//evil/redfish", "/etc/passwd", "/redfish/v1/a b", "/redfish/v1/a\r\nX: y", 5]
    document = {"Members": [{"@odata.id": link} for link in [*links, "/redfish/v1/good"]]}
    assert look(document, "/redfish/v1/x").follow == ("/redfish/v1/good",)


NAMES = st.sampled_from(
    (
        "@odata.id", "@odata.type", "Members", "Reading", "ReadingUnits", "ReadingType", "ReadingBasis", "Thresholds",
        "UpperCritical", "Status", "State", "Health", "DetectorState", "LeakDetectorGroups", "Detectors",
        "LeakDetectors", "SpeedPercent", "SpeedRPM", "PumpSpeedPercent", "SupplyTemperatureCelsius",
        "FlowLitersPerMinute", "Temperatures", "Fans", "PowerSupplies", "TemperatureSummaryCelsius",
        "FanSpeedsPercent", "CoolantLevelPercent", "FluidLevelStatus", "InputPowerWatts", "Chassis", "RedfishVersion",
    )
)  # fmt: skip
WORDS = st.sampled_from(
    (
        "#Fan.v1.Fan", "#Sensor.v1.Sensor", "#LeakDetection.v1.LeakDetection", "#Thermal.v1.Thermal", "#Power.v1.Power",
        "#X.v1.XCollection", "#CoolantConnector.v1.CoolantConnector", "#EnvironmentMetrics.v1.EnvironmentMetrics",
        "Cel", "%", "OK", "Absent", "/redfish/v1/a",
    )
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=8) | VALUES)
def test_nothing_that_a_controller_writes_makes_it_fall(document: Any) -> None:
    for row in parse(document, "/redfish/v1/x"):
        assert 0 < len(row.name) <= 200
        assert all(isinstance(value, float | str) for value in row.values.values())
    look(document, "/redfish/v1/x")
