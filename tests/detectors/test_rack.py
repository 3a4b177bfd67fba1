"""Cooling: leaks, flow, supply, pumps, and sensors that contradict the water."""

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from node_frames import LOOP, T0, rack_frame

from detectors.rack.detector import RackDetector, RackVerdict
from detectors.state import StateError
from schemas import Finding, RackFrame
from schemas.finding import Subject
from schemas.matrix import Matrix

RACK = Subject(scope="rack", rack="r1")
TRAY = Subject(scope="node", node="t2", rack="r1")


def feed(rack: RackDetector, frames: Sequence[RackFrame]) -> list[Finding]:
    return [finding for frame in frames for finding in rack.update(frame).findings]


def frames(seconds: range, **changes: object) -> list[RackFrame]:
    random = np.random.default_rng(seconds.start)
    return [rack_frame(second, random, **changes) for second in seconds]  # type: ignore[arg-type]


@cache
def _warm() -> tuple[bytes, bytes]:
    rack = RackDetector("c", "r1")
    assert feed(rack, frames(range(150))) == []
    return rack.learning(), rack.decisions()


def warm() -> RackDetector:
    rack = RackDetector("c", "r1")
    rack.restore(*_warm())
    return rack


def brief(findings: list[Finding]) -> list[tuple[str, str, Subject]]:
    return [(f.state, f.cause, f.subject) for f in findings if f.state != "heartbeat"]


def test_a_healthy_rack_says_nothing() -> None:
    assert feed(RackDetector("c", "r1"), frames(range(1200))) == []


def test_a_single_alert_of_a_leak_is_enough_and_names_the_tray() -> None:
    rack = warm()
    said = feed(rack, frames(range(150, 152), leaks={"t2/Manifold": 1.0}))
    assert brief(said) == [("open", "leak", TRAY)]
    assert said[0].kind == "cooling"
    assert "t2/Manifold" in said[0].evidence[0].text
    assert brief(feed(rack, frames(range(152, 200)))) == []
    assert brief(feed(rack, frames(range(200, 220)))) == [("close", "leak", TRAY)]


def test_a_leak_detector_of_the_rack_itself_is_about_the_rack() -> None:
    assert brief(feed(warm(), frames(range(150, 151), leaks={"floor": 1.0}))) == [("open", "leak", RACK)]


def test_two_wet_trays_are_two_findings() -> None:
    said = feed(warm(), frames(range(150, 153), leaks={"t1/ColdPlate": 1.0, "t2/Manifold": 1.0}))
    assert sorted(subject.node for _, _, subject in brief(said)) == ["t1", "t2"]


def test_a_leak_whose_detector_falls_silent_is_not_over() -> None:
    rack = warm()
    feed(rack, frames(range(150, 152), leaks={"t2/Manifold": 1.0}))
    silent = {"t2/Manifold": float("nan"), "t2/ColdPlate": float("nan")}
    said = brief(feed(rack, frames(range(152, 300), leaks=silent)))
    assert ("close", "leak", TRAY) not in said
    assert ("open", "sensor_fault", RACK) in said


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"loop": {"flow_lpm": 60.0, "return_c": 58.0}}, "coolant_flow"),
        ({"loop": {"flow_lpm": 0.0, "return_c": 70.0}}, "coolant_flow"),
        ({"loop": {"supply_c": 38.5, "return_c": 50.0}}, "coolant_temperature"),
        ({"pump_pct": 0.0}, "pump_fan"),
        ({"loop": {"flow_lpm": 60.0}, "pressure_kpa": 40.0}, "coolant_flow"),
    ],
)
def test_a_cooling_fault_is_found_within_fifteen_polls(changes: dict[str, object], cause: str) -> None:
    rack = warm()
    said = feed(rack, frames(range(150, 200), **changes))
    assert ("open", cause, RACK) in brief(said)
    assert said[0].ts_ms <= T0 + 165_000
    assert said[0].onset_ms == pytest.approx(T0 + 150_000, abs=3000)
    assert ("close", cause, RACK) in brief(feed(rack, frames(range(200, 260))))


def test_a_stopped_pump_explains_the_low_flow() -> None:
    said = feed(warm(), frames(range(150, 200), loop={"flow_lpm": 60.0, "return_c": 58.0}, pump_pct=0.0))
    assert brief(said) == [("open", "pump_fan", RACK)]


def test_a_supply_too_warm_for_anybody_needs_no_past() -> None:
    said = feed(RackDetector("c", "r1"), frames(range(12), loop={"supply_c": 48.0, "return_c": 60.0}))
    assert brief(said) == [("open", "coolant_temperature", RACK)]


def test_too_little_flow_for_the_heat_needs_no_past() -> None:
    said = feed(RackDetector("c", "r1"), frames(range(12), loop={"flow_lpm": 40.0}))
    assert brief(said) == [("open", "coolant_flow", RACK)]


def test_a_valve_that_follows_a_falling_load_is_no_fault() -> None:
    """Half the flow at half the heat leaves the rise as it was."""
    idle = {"loop": {"flow_lpm": 50.0, "heat_w": 40_000.0}, "output_w": 5_000.0}
    assert feed(warm(), frames(range(150, 300), **idle)) == []


def test_a_flow_that_reads_nothing_while_the_water_stays_as_it_was_is_the_sensors_fault() -> None:
    """Seen in NVIDIA's rack sample: flow stuck at 0.0 while the pump runs."""
    said = feed(warm(), frames(range(150, 240), loop={"flow_lpm": 0.0, "heat_w": float("nan")}))
    assert brief(said) == [("open", "sensor_fault", RACK)]


def test_a_standby_pump_is_no_stopped_pump() -> None:
    assert feed(warm(), frames(range(150, 200))) == []


@pytest.mark.parametrize("section", ["loop", "cdu", "leak", "shelf"])
def test_a_section_that_is_missing_is_no_cooling_fault(section: str) -> None:
    def without(frame: RackFrame) -> RackFrame:
        return msgspec.structs.replace(frame, sections={k: v for k, v in frame.sections.items() if k != section})

    said = feed(warm(), [without(frame) for frame in frames(range(150, 250))])
    assert {cause for _, cause, _ in brief(said)} <= {"sensor_fault"}


def test_repeats_are_ignored_and_another_agent_may_take_over() -> None:
    rack = warm()
    (frame,) = frames(range(150, 151), leaks={"t2/Manifold": 1.0})
    assert len(rack.update(frame).findings) == 1
    assert rack.update(frame) == RackVerdict()
    other = msgspec.structs.replace(frame, node="n9", seq=3)
    assert rack.update(other) == RackVerdict()
    assert rack.update(other) == RackVerdict()
    assert feed(rack, frames(range(151, 163), leaks={"t2/Manifold": 1.0}))[-1].state == "heartbeat"


def test_a_kill_with_only_decisions_left_opens_nothing_a_second_time() -> None:
    rack = warm()
    said = feed(rack, frames(range(150, 170), leaks={"t2/Manifold": 1.0}))
    revived = RackDetector("c", "r1")
    assert list(revived.restore(None, rack.decisions())) == [said[-1]]
    later = feed(revived, frames(range(170, 200), leaks={"t2/Manifold": 1.0}))
    assert {f.state for f in later} == {"heartbeat"}
    assert {f.id for f in later} == {said[0].id}


@pytest.mark.parametrize("bad", [b"", b"\xc1", b"\x80"])
def test_foreign_states_are_refused(bad: bytes) -> None:
    with pytest.raises(StateError):
        RackDetector("c", "r1").restore(bad, None)


@pytest.mark.parametrize("value", [float("nan"), -500.0, 9e18, float("inf")])
def test_nonsense_readings_are_survived(value: float) -> None:
    def spoil(frame: RackFrame) -> RackFrame:
        sections = {
            name: Matrix.of(m.rows, m.columns, np.full((len(m.rows), len(m.columns)), value))
            for name, m in frame.sections.items()
        }
        return msgspec.structs.replace(frame, sections=sections)

    said = feed(warm(), [spoil(frame) for frame in frames(range(150, 180))])
    assert brief(said) == []


def test_the_plain_loop_is_what_the_thresholds_were_taken_from() -> None:
    kw = LOOP["heat_w"] / 1000
    assert 1.0 < LOOP["flow_lpm"] / kw < 1.5
