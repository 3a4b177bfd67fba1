"""Cooling as files: recognised by what is in them, judged as live, decoded by --events."""

import json
from pathlib import Path

import pytest

from lockstep.analyze import analyze, events
from lockstep.analyze.recognise import recognise
from runtime.errors import UserError

ROOT = Path(__file__).parents[2]
BUILDING = ROOT / "tests" / "data" / "cooling_bms"
REDFISH = ROOT / "tests" / "data" / "redfish"
REAL = ROOT / ".." / "shared" / "data" / "gpu"


def recording(path: Path, seconds: int, wet_from: int | None = None, low_flow_from: int | None = None) -> Path:
    """A rack of 48 kW in the building's own words, a value of each point every second."""
    lines = ["offset_s,object_type,point_type,object,tag,value,quality"]
    for s in range(seconds):
        ill = low_flow_from is not None and s >= low_flow_from
        values = {
            "RackLiquidSupplyTemperature": 32.0 + 0.02 * (s % 3),
            "RackLiquidReturnTemperature": (58.4 if ill else 45.2) + 0.02 * (s % 5),
            "RackLiquidFlow": (25.8 if ill else 51.6) + 0.1 * (s % 4),
            "RackPower": 47.0 + 0.01 * (s % 7),
            "RackLeakDetect": float(wet_from is not None and s >= wet_from),
        }
        lines += [
            f"{s}.{i},Rack,{point},rowA/rack07,h/p/rowA/rack07/valve/{point}/value,{value},1"
            for i, (point, value) in enumerate(values.items())
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["recorded.csv", "bridge.log"])
def test_a_recording_of_the_building_is_known_by_its_topics_and_its_leak_found(name: str) -> None:
    assert recognise(BUILDING / name) == "cooling-bms"
    (run,) = analyze([BUILDING / name]).runs
    (incident,) = run.incidents
    assert (incident.kind, incident.cause) == ("cooling", "leak")
    (told,) = analyze([BUILDING / name]).to_json()["incidents"]
    assert told["culprits"] == [
        {"rank": None, "node": None, "gpu": None, "link": None, "group": None, "rack": "Hall2-B11"}
    ]


def test_a_healthy_recording_says_nothing(tmp_path: Path) -> None:
    path = recording(tmp_path / "a.csv", 300)
    assert recognise(path) == "cooling-bms"
    assert analyze([path]).healthy


def test_a_flow_that_falls_is_found_when_an_online_run_would_have_said_it(tmp_path: Path) -> None:
    (run,) = analyze([recording(tmp_path / "a.csv", 300, low_flow_from=200)]).runs
    (incident,) = run.incidents
    assert (incident.cause, incident.culprits[0].rack) == ("coolant_flow", "rowA/rack07")
    assert 200_000 <= incident.onset_ms <= 203_000
    assert incident.onset_ms < incident.detected_ms <= 215_000


def test_redfish_documents_of_every_kind_are_known_and_one_that_leaks_is_said(tmp_path: Path) -> None:
    kinds = {path.name: recognise(path) for path in REDFISH.iterdir()}
    assert {name for name, kind in kinds.items() if kind != "redfish"} == {"not_an_object.json"}
    for name in ("leak_vendor_word.json", "fan.json"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_bytes((REDFISH / name).read_bytes())
    assert analyze([tmp_path / "fan"]).healthy
    (run,) = analyze([tmp_path]).runs
    (incident,) = run.incidents
    assert (incident.cause, incident.culprits[0].rack) == ("leak", "leak_vendor_word")


def test_a_tree_on_disk_is_one_rack(tmp_path: Path) -> None:
    base = tmp_path / "cdu-7" / "redfish" / "v1" / "ThermalEquipment" / "CDUs" / "1"
    for part, document in {
        "Pumps/1": {"PumpSpeedPercent": {"Reading": 0}, "Status": {"State": "Enabled", "Health": "Critical"}},
        "LeakDetection": {"LeakDetectorGroups": [{"Detectors": [{"DeviceName": "Rope", "DetectorState": "Critical"}]}]},
    }.items():
        (base / part).mkdir(parents=True)
        uri = f"/redfish/v1/ThermalEquipment/CDUs/1/{part}"
        (base / part / "index.json").write_text(json.dumps({"@odata.id": uri} | document))
    (run,) = analyze([tmp_path]).runs
    (incident,) = run.incidents
    assert (incident.cause, [s.rack for s in incident.culprits]) == ("leak", ["cdu-7"])
    assert any("Pumps/1" in e.text for e in incident.evidence)


def test_decoded_values_and_rows() -> None:
    values = list(events([BUILDING / "recorded.csv"]))
    flow = next(v for v in values if v.get("metric") == "flow_lpm")
    assert (flow["object"], flow["value"], flow["reading"]) == ("Hall2-B11", 0.75, 45.0)
    assert all(v["line"] > 1 for v in values)
    (leak,) = events([REDFISH / "leak_vendor_word.json"])
    assert (leak["event"], leak["leak_detected"]) == ("redfish_leak", 1.0)


def test_a_damaged_document_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"@odata.id": "/redfish/v1/x", ')
    with pytest.raises(UserError, match="no usable redfish record"):
        analyze([tmp_path / "a.json"])


def test_the_real_samples() -> None:
    if not REAL.is_dir():
        pytest.skip("no shared/data/gpu beside the project")
    assert analyze([REAL / "cooling_bms"]).healthy
    (run,) = analyze([REAL / "redfish"]).runs
    (incident,) = run.incidents
    assert incident.cause == "leak"
    assert "Chassis_0_LeakDetector_1_Manifold" in incident.evidence[0].text
