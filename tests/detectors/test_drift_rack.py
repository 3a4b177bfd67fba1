"""Cooling that must do more and more. All series are simulated."""

import pytest
from slow_frames import DAY_MS, START_MS, slow_rack

from detectors.drift.rack import RackDrift
from schemas import Finding


def said(drift: RackDrift, frames: object) -> list[Finding]:
    return [finding for frame in frames for finding in drift.update(frame)]  # type: ignore[attr-defined]


def test_fans_that_turn_faster_every_day_are_a_risk_of_their_node() -> None:
    """From 40 % by 5 points a day: 100 % on day 12."""
    found = said(RackDrift("c", "r1"), slow_rack(8, lambda day: 40 + 5 * day, lambda day: 44.0))
    assert {(f.detector, f.cause, f.subject.scope, f.subject.node, f.subject.rack) for f in found} == {
        ("risk.fan_effort", "pump_fan", "node", "t1", "r1")
    }
    day = (found[0].ts_ms - START_MS) / DAY_MS
    assert 4 < day < 7.5
    assert found[0].evidence[0].value == pytest.approx(40 + 5 * day, abs=4)
    assert "fan speed of the fans of t1 rose from" in found[0].summary


def test_a_pump_that_works_harder_is_a_risk_of_its_rack_and_one_on_standby_is_none() -> None:
    found = said(RackDrift("c", "r1"), slow_rack(8, lambda day: 40.0, lambda day: 44 + 5 * day))
    assert {(f.detector, f.subject.scope, f.subject.rack) for f in found} == {("risk.pump_effort", "rack", "r1")}
    assert "pump Pump1" in found[0].summary


def test_steady_cooling_and_pumps_that_change_over_say_nothing() -> None:
    frames = slow_rack(14, lambda day: 40.0, lambda day: 44.0 if day % 14 < 7 else 0.0)
    assert said(RackDrift("c", "r1"), frames) == []


def test_restored_it_goes_on_the_same() -> None:
    frames = list(slow_rack(3.5, lambda day: 40 + 15 * day, lambda day: 44.0))
    whole = said(RackDrift("c", "r1"), frames)
    first, second = RackDrift("c", "r1"), RackDrift("c", "r1")
    begun = said(first, frames[:200])
    assert set(second.restore(first.learning(), first.decisions())) <= set(begun)
    assert [*begun, *said(second, frames[200:])] == whole
    assert whole
    assert len(first.learning()) < 1400
