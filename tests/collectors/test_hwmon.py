"""The board's sensors: parsing, fans that stop, and sensors that tell nonsense."""

from pathlib import Path

import pytest

from collectors.base import NoData
from collectors.host.hwmon import HwmonCollector, Sensor, parse_chip


def test_a_chip_with_limits_alarms_and_nonsense() -> None:
    files = {
        "name": "coretemp", "temp1_input": "71000\n", "temp1_crit": "100000", "temp1_max": "90000",
        "temp2_input": "-128000", "temp3_input": "N/A", "temp4_input": "65000", "temp4_max": "80000",
        "temp5_input": "40000", "temp5_crit": "0", "fan1_input": "0", "fan1_alarm": "1",
    }  # fmt: skip
    assert parse_chip("coretemp", files) == [
        Sensor("coretemp", "fan", 1, 0.0, None, True),
        Sensor("coretemp", "temp", 1, 71.0, 100.0),
        Sensor("coretemp", "temp", 4, 65.0, 80.0),
        Sensor("coretemp", "temp", 5, 40.0, None),
    ]


def chip(root: Path, number: int, name: str, **files: str) -> Path:
    folder = root / "class" / "hwmon" / f"hwmon{number}"
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in ({"name": name} | files).items():
        (folder / file).write_text(text + "\n")
    return folder


def row(collector: HwmonCollector) -> dict[str, float]:
    matrix = collector.collect(0).sections["host"]
    return dict(zip(matrix.columns, matrix.values()[0].tolist(), strict=True))


def test_the_hottest_cpu_the_least_margin_and_a_fan_that_stops(tmp_path: Path) -> None:
    chip(tmp_path, 0, "coretemp", temp1_input="71000", temp1_crit="100000")
    chip(tmp_path, 1, "nvme", temp1_input="75000", temp1_crit="85000")
    board = chip(tmp_path, 2, "nct6775", fan1_input="4200", fan2_input="3900", fan3_input="0")
    collector = HwmonCollector(tmp_path, "n1")
    assert row(collector) == {
        "cpu_temperature_c": 71.0,
        "temperature_margin_c": 10.0,
        "fan_lowest_rpm": 3900.0,
        "fans_stopped_count": 0.0,
    }
    (board / "fan2_input").write_text("0\n")
    assert row(collector)["fans_stopped_count"] == 1.0
    (board / "fan2_input").write_text("3900\n")
    assert row(collector)["fans_stopped_count"] == 0.0


def test_unreadable_files_cost_their_own_sensor_only(tmp_path: Path) -> None:
    folder = chip(tmp_path, 0, "k10temp", temp1_input="50000")
    (folder / "temp2_input").mkdir()
    (folder / "fan1_input").write_bytes(b"\xff\xff")
    found = row(HwmonCollector(tmp_path, "n1"))
    assert found["cpu_temperature_c"] == 50.0
    assert found["fan_lowest_rpm"] != found["fan_lowest_rpm"]


def test_no_sensors_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        HwmonCollector(tmp_path, "n1").collect(0)
