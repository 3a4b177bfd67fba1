"""A detector and its trends as one: what each says, and one state of both."""

import numpy as np
import pytest
from node_frames import node_frames, rack_frame
from slow_frames import ROWS, slow_node

from detectors.drift.gpu import GpuDrift
from detectors.drift.rack import RackDrift
from detectors.drift.with_drift import NodeWithDrift, RackWithDrift
from detectors.node.detector import NodeDetector
from detectors.rack.detector import RackDetector
from detectors.state import StateError
from detectors.train.fleet import simulated_forest
from schemas.codec import encode

FOREST = simulated_forest(seed=3, rows=20_000)


def both() -> NodeWithDrift:
    return NodeWithDrift(NodeDetector("c", "n1", FOREST), GpuDrift("c", "n1"))


def remapping(values: np.ndarray, day: float) -> None:
    values[3, ROWS] = (day > 1) + (day > 2) + (day > 2.5)


def test_the_verdict_is_the_nodes_with_the_risks_behind_it() -> None:
    alone, one = NodeDetector("c", "n1", FOREST), both()
    risks = set()
    for frame in slow_node(3, remapping):
        own, verdict = alone.update(frame), one.update(frame)
        assert list(map(encode, verdict.features)) == list(map(encode, own.features))
        assert verdict.findings[: len(own.findings)] == own.findings
        risks |= {finding.detector for finding in verdict.findings[len(own.findings) :]}
    assert risks == {"risk.row_remaps"}
    assert not one.update(frame).findings


def test_a_risk_that_is_open_freezes_no_baseline_and_survives_a_restart() -> None:
    one, frames = both(), list(slow_node(3.5, remapping))
    said = [finding for frame in frames for finding in one.update(frame).findings]
    again = both()
    repeated = again.restore(one.learning(), one.decisions())
    assert {finding.detector for finding in repeated} >= {"risk.row_remaps"}
    assert set(repeated) <= set(said)
    assert again.own.learning() == one.own.learning()
    assert again.drift.learning() == one.drift.learning()


def test_a_state_from_before_there_were_trends_goes_on() -> None:
    old = NodeDetector("c", "n1", FOREST)
    for frame in node_frames(range(70)):
        old.update(frame)
    one = both()
    one.restore(old.learning(), old.decisions())
    assert one.own.learning() == old.learning()
    assert one.drift.seen_ms("GPU-0") is None


def test_a_state_that_is_neither_is_refused_and_unreadable_trends_begin_anew() -> None:
    with pytest.raises(StateError):
        both().restore(b"\x80", None)
    one, other = both(), both()
    for frame in node_frames(range(70)):
        one.update(frame)
    other.drift.learning = lambda: b"\x80"  # type: ignore[method-assign]
    other.own = one.own
    again = both()
    again.restore(other.learning(), one.decisions())
    assert again.own.learning() == one.own.learning()


def test_a_rack_and_its_cooling() -> None:
    one = RackWithDrift(RackDetector("c", "r1"), RackDrift("c", "r1"))
    for second in range(130):
        assert one.update(rack_frame(second)).findings == ()
    again = RackWithDrift(RackDetector("c", "r1"), RackDrift("c", "r1"))
    assert again.restore(one.learning(), one.decisions()) == ()
    assert (again.learning(), again.decisions()) == (one.learning(), one.decisions())
