"""The rules of a rack beyond the plain faults: odd paces, devices' own words, contradictions, one incident a fault."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from node_frames import T0, rack_frame

from detectors.incident.book import IncidentBook
from detectors.rack.detector import RackDetector
from detectors.rack.rules import RACK_RULES
from schemas import Finding, Inventory, RackFrame
from schemas.causes import CAUSES
from schemas.finding import Subject
from schemas.matrix import Matrix
from schemas.metrics import Section

RACK = Subject(scope="rack", rack="r1")
NAN = float("nan")
Rows = Mapping[str, Sequence[float]]


def tray(name: str) -> Subject:
    return Subject(scope="node", node=name, rack="r1")


def frames(seconds: range, **changes: object) -> list[RackFrame]:
    random = np.random.default_rng(seconds.start)
    return [rack_frame(second, random, **changes) for second in seconds]  # type: ignore[arg-type]


def only(second: int, section: Section, columns: Sequence[str], rows: Rows) -> RackFrame:
    """A frame that tells one section."""
    matrix = Matrix.of(list(rows), list(columns), list(rows.values()))
    return RackFrame(
        cluster="c", ts_ms=T0 + second * 1000, node="n1", run_id=1, seq=second, rack="r1", sections={section: matrix}
    )


def feed(rack: RackDetector, of: Iterable[RackFrame]) -> list[Finding]:
    return [f for frame in of for f in rack.update(frame).findings if f.state != "heartbeat"]


def brief(findings: Iterable[Finding]) -> list[tuple[str, str, str, Subject]]:
    return [(f.state, f.detector, f.cause, f.subject) for f in findings]


def polled(every_s: int, count: int) -> range:
    return range(0, every_s * count, every_s)


@cache
def _warm(every_s: int) -> bytes:
    rack = RackDetector("c", "r1")
    assert feed(rack, frames(polled(every_s, 100))) == []
    return rack.learning()


def warm(every_s: int = 1) -> RackDetector:
    rack = RackDetector("c", "r1")
    rack.restore(_warm(every_s), None)
    return rack


def test_every_rule_has_a_name_of_its_own_and_a_cause() -> None:
    assert all(name == rule.name and rule.cause in CAUSES for name, rule in RACK_RULES.items())
    assert all(not rule.unless or rule.unless in RACK_RULES for rule in RACK_RULES.values())


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"loop": {"flow_lpm": 60.0, "return_c": 58.0}}, "coolant_flow"),
        ({"loop": {"supply_c": 38.5, "return_c": 50.0}}, "coolant_temperature"),
        ({"pump_pct": 0.0}, "pump_fan"),
    ],
)
@pytest.mark.parametrize("every_s", [5, 10, 30, 60])
def test_a_fault_is_found_in_a_few_polls_however_far_apart_they_are(
    every_s: int, changes: dict[str, object], cause: str
) -> None:
    rack = warm(every_s)
    start = 100 * every_s
    said = feed(rack, frames(range(start, start + 12 * every_s, every_s), **changes))
    (opened,) = [f for f in said if f.state == "open"]
    assert (opened.cause, opened.subject) == (cause, RACK)
    assert opened.ts_ms <= T0 + 1000 * (start + 6 * every_s)
    assert abs(opened.onset_ms - (T0 + 1000 * start)) <= 2000 * every_s
    later = feed(rack, frames(range(start + 12 * every_s, start + 60 * every_s, every_s)))
    assert [f.state for f in later] == ["close"]


def shards(frame: RackFrame) -> list[RackFrame]:
    """The same readings as several controllers tell them: each section, and each tray's detectors, by itself."""
    out = []
    for section, matrix in frame.sections.items():
        parts = [[row] for row in matrix.rows] if section == "leak" else [list(matrix.rows)]
        for rows in parts:
            values = matrix.values()[[matrix.rows.index(row) for row in rows]]
            part = {section: Matrix.of(rows, matrix.columns, values)}
            at = frame.ts_ms + 1000 * len(out)
            out.append(msgspec.structs.replace(frame, ts_ms=at, seq=100 * frame.seq + len(out), sections=part))
    return out


def test_a_rack_that_is_told_piece_by_piece_is_healthy_and_ill_like_any_other() -> None:
    rack = RackDetector("c", "r1")
    assert feed(rack, [part for frame in frames(polled(10, 100)) for part in shards(frame)]) == []
    ill = frames(range(1000, 1120, 10), loop={"flow_lpm": 60.0, "return_c": 58.0}, leaks={"t2/Manifold": 1.0})
    said = feed(rack, [part for frame in ill for part in shards(frame)])
    assert {(f.state, f.cause, f.subject) for f in said} == {
        ("open", "leak", tray("t2")),
        ("open", "coolant_flow", RACK),
    }
    leak = next(f for f in said if f.cause == "leak")
    assert leak.ts_ms <= T0 + 1_010_000


def test_one_reading_that_is_only_held_opens_nothing() -> None:
    """A single odd poll of one controller, however often others tell something meanwhile."""
    rack = warm(10)
    odd = frames(range(1000, 1001), loop={"flow_lpm": 60.0, "return_c": 58.0})[0]
    said = feed(rack, [odd])
    others = [only(1001 + i, "leak", ["leak_detected"], {"t1/ColdPlate": [0.0]}) for i in range(9)]
    assert said + feed(rack, others) == []


def test_a_change_over_from_one_pump_to_the_other_is_no_fault() -> None:
    def swapped(frame: RackFrame) -> RackFrame:
        cdu = frame.sections["cdu"]
        turned = Matrix.of(cdu.rows, cdu.columns, cdu.values()[::-1])
        return msgspec.structs.replace(frame, sections={**frame.sections, "cdu": turned})

    assert feed(warm(), [swapped(frame) for frame in frames(range(150, 300))]) == []


def test_a_pump_that_its_controller_calls_critical_needs_no_past() -> None:
    columns = ["pump_speed_pct", "status_code"]
    said = feed(RackDetector("c", "r1"), (only(i, "cdu", columns, {"p1": [40.0, 2.0]}) for i in range(12)))
    assert brief(said) == [("open", "pump", "pump_fan", RACK)]


@pytest.mark.parametrize("column", ["speed_pct", "speed_rpm"])
def test_a_fan_that_stands_still_is_its_trays(column: str) -> None:
    scale = 1.0 if column == "speed_pct" else 200.0
    rack = RackDetector("c", "r1")

    def fans(seconds: range, speed: float) -> list[RackFrame]:
        rows = {"t1/Fan_0": [45 * scale], "t1/Fan_1": [speed * scale], "t2/Fan_0": [0.0]}
        return [only(i, "fan", [column], rows) for i in seconds]

    assert feed(rack, fans(range(100), 45.0)) == []
    said = feed(rack, fans(range(100, 120), 2.0))
    assert brief(said) == [("open", "fan", "pump_fan", tray("t1"))]
    assert "t1/Fan_1" in said[0].evidence[0].text
    assert brief(feed(rack, fans(range(120, 160), 44.0))) == [("close", "fan", "pump_fan", tray("t1"))]


def test_a_warning_of_a_leak_is_a_weaker_word_and_critical_a_strong_one() -> None:
    columns = ["leak_detected", "sensor_failed", "status_code"]
    rack = RackDetector("c", "r1")
    (weak,) = feed(rack, [only(1, "leak", columns, {"t1/L": [1.0, 0.0, 1.0]})])
    (strong,) = feed(rack, [only(2, "leak", columns, {"t1/L": [1.0, 0.0, 2.0]})])
    assert (weak.cause, weak.subject, weak.confidence < strong.confidence) == ("leak", tray("t1"), True)
    book = IncidentBook("c")
    assert len({i.id for f in (weak, strong) for i in book.apply(f)}) == 1


def test_a_leak_detector_that_says_it_does_not_work_is_never_dry() -> None:
    columns = ["leak_detected", "sensor_failed"]
    rows = {"t1/A": [NAN, 1.0], "t1/B": [0.0, 0.0]}
    said = feed(RackDetector("c", "r1"), (only(i, "leak", columns, rows) for i in range(80)))
    assert brief(said) == [("open", "leak_sensor", "sensor_fault", RACK)]
    assert [e.text for e in said[0].evidence] == ["leak detector t1/A says that it does not work"]


@pytest.mark.parametrize(
    ("row", "columns", "values", "kind", "cause"),
    [
        ("t3/HGX_GPU_0/TEMP_1", ["margin_c", "alarm_code"], [-3.0, 2.0], "degradation", "thermal_throttle"),
        ("cdu:CDUs/1/SupplyTemp", ["temperature_c", "alarm_code"], [61.0, 2.0], "cooling", "coolant_temperature"),
        ("t3/1U/CPU1Temp", ["temperature_c", "alarm_code"], [99.0, 3.0], "hardware", "unknown"),
    ],
)
def test_a_sensor_beyond_its_own_limit(
    row: str, columns: list[str], values: list[float], kind: str, cause: str
) -> None:
    said = feed(RackDetector("c", "r1"), (only(i, "sensor", columns, {row: values}) for i in range(12)))
    assert [(f.state, f.kind, f.cause) for f in said] == [("open", kind, cause)]
    assert said[0].subject == (tray("t3") if row.startswith("t3") else RACK)
    calm = {row: [values[0], 1.0]}
    assert feed(RackDetector("c", "r1"), (only(i, "sensor", columns, calm) for i in range(12))) == []


def test_a_controller_that_does_not_answer_two_polls_is_a_finding_at_once() -> None:
    rack = RackDetector("c", "r1")
    assert feed(rack, [only(i, "bmc", ["answers"], {"t1-bmc": [1.0], "cdu": [1.0]}) for i in polled(10, 20)]) == []
    down = [only(i, "bmc", ["answers"], {"t1-bmc": [0.0], "cdu": [1.0]}) for i in (200, 220)]
    said = feed(rack, down)
    assert brief(said) == [("open", "controller", "sensor_fault", RACK)]
    assert "t1-bmc" in said[0].evidence[0].text
    up = [only(i, "bmc", ["answers"], {"t1-bmc": [1.0], "cdu": [1.0]}) for i in (260, 270)]
    assert [f.state for f in feed(rack, up)] == ["close"]


def test_a_power_supply_and_a_reservoir_that_call_themselves_critical() -> None:
    rack = RackDetector("c", "r1")
    said = feed(rack, (only(i, "shelf", ["status_code"], {"s1": [2.0], "s2": [0.0]}) for i in range(12)))
    said += feed(rack, (only(i, "cdu", ["level_pct", "status_code"], {"res": [20.0, 2.0]}) for i in range(20, 32)))
    assert brief(said) == [
        ("open", "power_supply", "power_brake", RACK),
        ("open", "cdu_health", "coolant_flow", RACK),
    ]


def test_coolant_that_becomes_less_may_be_a_leak() -> None:
    rack = RackDetector("c", "r1")
    assert feed(rack, (only(i, "cdu", ["level_pct"], {"reservoir": [64.0]}) for i in range(100))) == []
    said = feed(rack, (only(i, "cdu", ["level_pct"], {"reservoir": [50.0]}) for i in range(100, 200)))
    assert brief(said) == [("open", "cdu_level", "leak", RACK)]
    assert said[0].runner_up == "coolant_flow"


class TestHeatBalance:
    """A rack as in NVIDIA's sample: 50 L/min, 13.3 K, 46.9 kW; heat is not told, power is."""

    COLUMNS = ("supply_c", "return_c", "flow_lpm", "power_w")

    def run(self, rack: RackDetector, seconds: range, **other: float) -> list[Finding]:
        usual = {"supply_c": 32.75, "return_c": 46.05, "flow_lpm": 50.2, "power_w": 46_900.0} | other
        random = np.random.default_rng(seconds.start)
        values = [usual[name] for name in self.COLUMNS]
        return feed(
            rack,
            (
                only(i, "loop", self.COLUMNS, {"loop": [v * (1 + 0.003 * random.standard_normal()) for v in values]})
                for i in seconds
            ),
        )

    def warm(self) -> RackDetector:
        rack = RackDetector("c", "r1")
        assert self.run(rack, range(150)) == []
        return rack

    @pytest.mark.parametrize(
        ("wrong", "blamed"),
        [
            ({"flow_lpm": 75.0}, "its flow"),
            ({"flow_lpm": 30.0}, "its flow"),
            ({"return_c": 40.0}, "its temperatures"),
            ({"power_w": 30_000.0}, "the power"),
        ],
    )
    def test_one_sensor_that_contradicts_the_two_others_is_blamed(self, wrong: dict[str, float], blamed: str) -> None:
        said = self.run(self.warm(), range(150, 400), **wrong)
        assert [(f.state, f.detector, f.cause) for f in said] == [("open", "heat_balance", "sensor_fault")]
        assert blamed in said[0].evidence[0].text

    def test_half_the_flow_with_twice_the_rise_balances_and_is_a_real_fault(self) -> None:
        said = self.run(self.warm(), range(150, 400), flow_lpm=25.1, return_c=59.35)
        assert [(f.state, f.cause) for f in said] == [("open", "coolant_flow")]

    def test_a_falling_load_with_its_water_behind_it_is_no_fault(self) -> None:
        rack = self.warm()
        said = self.run(rack, range(150, 210), power_w=10_500.0)  # the water has not followed yet
        said += self.run(rack, range(210, 500), power_w=10_500.0, flow_lpm=25.0, return_c=38.7)
        assert said == []

    def test_more_heat_than_power_needs_no_past(self) -> None:
        said = self.run(RackDetector("c", "r1"), range(250), flow_lpm=80.0)
        assert [(f.state, f.cause) for f in said] == [("open", "sensor_fault")]

    def test_a_return_colder_than_the_supply_under_load(self) -> None:
        said = self.run(RackDetector("c", "r1"), range(250), return_c=29.0)
        assert [(f.state, f.cause) for f in said] == [("open", "sensor_fault")]
        assert "colder than its supply" in said[0].evidence[0].text

    def test_less_heat_than_power_is_what_the_air_takes(self) -> None:
        assert self.run(RackDetector("c", "r1"), range(400), flow_lpm=35.0) == []

    def test_a_flow_stuck_at_nothing_under_power_is_the_sensors_fault(self) -> None:
        said = self.run(self.warm(), range(150, 400), flow_lpm=0.0)
        assert [(f.state, f.detector, f.cause) for f in said] == [("open", "flow_sensor", "sensor_fault")]

    def test_no_water_for_the_power_and_hot_is_no_sensors_fault(self) -> None:
        said = self.run(RackDetector("c", "r1"), range(250), flow_lpm=15.0, return_c=70.0)
        assert [(f.state, f.cause) for f in said] == [("open", "coolant_flow")]


def test_a_full_racks_state_fits_into_one_value() -> None:
    """18 trays of two controllers with 250 sensors and 12 fans each, eight shelves of six supplies: below 512 KiB."""
    rack = RackDetector("c", "r1")
    sensors = {f"r03-t{i:02}/HGX_Chassis_{i}/HGX_GPU_0_TEMP_{j}": [40.0, 0.0] for i in range(36) for j in range(250)}
    fans = {f"r03-t{i:02}/Chassis_{i}/Fans/Fan_{j}": [40.0, 8000.0] for i in range(36) for j in range(12)}
    shelves = {f"shelf-{i}:PowerShelf_0/PowerSupplies/PS{j}": [5000.0] for i in range(8) for j in range(6)}
    feed(rack, frames(range(5)))
    feed(rack, [only(5, "sensor", ["temperature_c", "alarm_code"], sensors)])
    feed(rack, [only(6, "fan", ["speed_pct", "speed_rpm"], fans)])
    feed(rack, [only(7, "shelf", ["output_w"], shelves)])
    assert len(rack.learning()) < 256 * 1024


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_opens_nothing_and_faults_are_found_after_it(hours: int) -> None:
    rack = warm()
    jump = 3600 * hours

    def jumped(of: list[RackFrame]) -> list[RackFrame]:
        return [msgspec.structs.replace(frame, ts_ms=frame.ts_ms + 1000 * jump) for frame in of]

    assert feed(rack, jumped(frames(range(150, 200)))) == []
    said = feed(rack, jumped(frames(range(200, 240), pump_pct=0.0)))
    assert [(f.state, f.cause) for f in said] == [("open", "pump_fan")]


def test_one_racks_fault_is_one_incident_with_all_that_it_does() -> None:
    """A pump stops: the flow falls, a tray's margin goes, its GPU throttles, the controller of another tray is down."""
    book, rack = IncidentBook("c"), warm()
    for node, of in (("t1", "r1"), ("t2", "r1"), ("x1", "r2")):
        book.apply(Inventory(cluster="c", ts_ms=T0, node=node, run_id=1, seq=1, rack=of))
    ill = frames(range(150, 220), loop={"flow_lpm": 60.0, "return_c": 58.0}, pump_pct=0.0)
    hot = [only(220 + i, "sensor", ["margin_c", "alarm_code"], {"t1/GPU_0": [-2.0, 2.0]}) for i in range(20)]
    down = [only(250 + i, "bmc", ["answers"], {"t2-bmc": [0.0]}) for i in (0, 10)]
    said = feed(rack, [*ill, *hot, *down])
    throttled = [
        msgspec.structs.replace(
            said[0],
            id=f"heat-{node}",
            detector="node.thermal",
            kind="degradation",
            cause="thermal_throttle",
            subject=Subject(scope="gpu", node=node, gpu=f"GPU-{node}"),
            ts_ms=T0 + 262_000,
        )
        for node in ("t1", "x1")
    ]
    assert {f.cause for f in said} == {"pump_fan", "thermal_throttle", "sensor_fault"}
    for finding in [*said, *throttled]:
        book.apply(finding)
    incidents = {i.culprits[0]: i for i in book.open()}
    own = incidents[RACK]
    assert (own.kind, own.cause, own.culprits) == ("cooling", "pump_fan", (RACK,))
    assert set(own.findings) == {*(f.id for f in said), "heat-t1"}
    assert len(book.open()) == 2
