"""The building's values: every form of line, misspelt tags, units, irregular times; and the real sample."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.base import NoData
from collectors.cooling.bms import CoolingBmsCollector, recorded
from collectors.cooling.bms_points import BadLine, Message, meaning, offset_ms, parse_line
from schemas.frame import RackFrame

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "data" / "cooling_bms"
REAL = ROOT / ".." / "shared" / "data" / "gpu" / "cooling_bms"
GOLDEN = ROOT / "tests" / "golden" / "cooling_bms"


def told(frames: Iterable[RackFrame]) -> dict[str, Any]:
    """Every number, by "rack section row column"."""
    return {
        f"{frame.rack} {section} {row} {column}": round(float(value), 3)
        for frame in frames
        for section, matrix in frame.sections.items()
        for row, values in zip(matrix.rows, matrix.values(), strict=True)
        for column, value in zip(matrix.columns, values, strict=True)
        if not math.isnan(value)
    }


def read(path: Path) -> tuple[list[list[Any]], list[str]]:
    bad: list[str] = []
    with path.open(encoding="utf-8") as lines:
        return [[tick, told(frames)] for tick, frames in recorded(lines, bad.append)], bad


@pytest.mark.parametrize("name", ["recorded.csv", "bridge.log"])
def test_our_sample_in_two_forms_gives_the_golden_values(name: str) -> None:
    found, bad = read(SAMPLES / name)
    assert bad == []
    assert json.dumps(found, indent=1) + "\n" == (GOLDEN / f"{name}.json").read_text()


def test_the_real_sample_gives_the_golden_values() -> None:
    if not REAL.is_dir():
        pytest.skip("no shared/data/gpu/cooling_bms beside the project")
    last: dict[str, Any] = {}
    for name in ("dsx_exemplar_subset.csv", "dsx_exemplar_subset_values.csv"):
        found, bad = read(REAL / name)
        assert bad == []
        assert len(found) >= 98
        values: dict[str, Any] = {}
        for _, at in found:
            values |= at
        last[name] = values
    assert json.dumps(last, indent=1, sort_keys=True) + "\n" == (GOLDEN / "real.json").read_text()


def test_the_real_racks_close_their_heat_balance() -> None:
    """What the threshold of the cross-check rests on."""
    if not REAL.is_dir():
        pytest.skip("no shared/data/gpu/cooling_bms beside the project")
    found, _ = read(REAL / "dsx_exemplar_subset.csv")
    last: dict[str, float] = {}
    for _, at in found:
        last |= at
    for rack in ("Pod1C-E02", "Pod1C-E03"):
        v = {name.rpartition(" ")[2]: value for name, value in last.items() if name.startswith(f"{rack} loop")}
        heat = 68.0 * v["flow_lpm"] * (v["return_c"] - v["supply_c"])
        assert heat == pytest.approx(v["power_w"], rel=0.05)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1m39.3650521s", 99365),
        ("67.18ms", 67),
        ("1.914", 1914),
        ("1h2m3s", 3_723_000),
        ("250us", 0),
        ("soon", None),
        ("1.2.3s", None),
        ("", None),
    ],
)
def test_offsets(text: str, ms: int | None) -> None:
    assert offset_ms(text) == ms


POWER = "BMS/v1/PUB/Value/Rack/RackPower/h/rack1/p"


@pytest.mark.parametrize(
    ("line", "value", "ts_ms"),
    [
        (POWER + ' {"value": 3.5, "timestamp": 1780000000000, "quality": 1}', 3.5, 1_780_000_000_000),
        ('{"topic": "' + POWER + '", "payload": {"value": 3.5, "quality": 192}}', 3.5, None),
        ('{"topic": "' + POWER + '", "payload": "{\\"value\\": true}"}', 1.0, None),
        ('BMS/v1/hall/rack1/LeakDetectRack/Value {"value": 1, "timestamp": 1780000000}', 1.0, 1_780_000_000_000),
        (POWER + ' {"value": 3.5, "quality": 0}', None, None),
        (POWER + ' {"value": null}', None, None),
        ("1.9,Rack,RackPower,rowE/rack03,n/t/rowE/rack03/power,46.9,1", 46.9, None),
        ("1.9,Rack,RackPower,rowE/rack03,n/t/rowE/rack03/power,46.9,0", None, None),
    ],
)  # fmt: skip
def test_forms_of_a_value(line: str, value: float | None, ts_ms: int | None) -> None:
    message = parse_line(line)
    assert message is not None
    assert (message.value, message.ts_ms) == (value, ts_ms)


@pytest.mark.parametrize(
    "line",
    ["hello", "BMS/v1/PUB/Value/Rack/RackPower/x {", "BMS/v1 {}", '{"topic": 5}', "a,b,c", '"', "BMS/v1/a/b/c []"],
)
def test_what_is_no_message_is_said_so(line: str) -> None:
    with pytest.raises(BadLine):
        parse_line(line)


def test_the_older_form_names_its_point_in_the_tag() -> None:
    message = parse_line('BMS/v1/hall/rack1/LeakDetectRack/Value {"value": 1, "timestamp": 1780000000}')
    assert message is not None
    where = meaning(message, {})
    assert where is not None
    assert (where.section, where.column) == ("leak", "leak_detected")


@pytest.mark.parametrize("unit", ["furlong", "kWh"])
def test_a_unit_that_nobody_knows_is_no_reading(unit: str) -> None:
    assert meaning(Message("Rack", "RackPower", "h/rack1/p"), {"engUnit": unit}) is None


class Lines:
    def __init__(self) -> None:
        self.waiting: list[tuple[str, bytes]] = []

    def read(self) -> list[tuple[str, bytes]]:
        out, self.waiting = self.waiting, []
        return out


def test_the_collector_sends_what_came_since_the_last_tick_and_repeats_nothing() -> None:
    lines = Lines()
    collector = CoolingBmsCollector(lines)
    with pytest.raises(NoData):
        collector.collect(1000)
    lines.waiting = [("log", line) for line in (SAMPLES / "bridge.log").read_bytes().splitlines()] + [
        ("log", b"\xff\xfe")
    ]
    reading = collector.collect(2000)
    assert {draft.rack for draft in reading.drafts if isinstance(draft, RackFrame)} == {"Hall2-B11", "B-CDU-2"}
    assert reading.missing == {"bad_line": 1}
    with pytest.raises(NoData):
        collector.collect(3000)


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=60)
    | st.builds(
        lambda point, tag, payload: f"BMS/v1/PUB/Value/Rack/{point}/{tag} {payload}",
        st.sampled_from(["RackPower", "RackLiquidFlow", "x"]),
        st.text(max_size=20),
        st.text(max_size=20) | st.floats().map(lambda v: f'{{"value": {v}}}'),
    )
)
def test_no_line_makes_it_fall(line: str) -> None:
    list(recorded([line], lambda _: None))
