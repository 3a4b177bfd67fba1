"""Ports that run below what they can, or have errors; healthy ones say nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.episode import Episodes
from detectors.node.fabric_rules import port_findings
from schemas.finding import Finding
from schemas.frame import NodeFrame
from schemas.matrix import Matrix

COLUMNS = (
    "up", "speed_bytes_per_s", "speed_most_bytes_per_s", "width_lanes", "width_most_lanes", "symbol_errors_per_s",
    "integrity_errors_per_s", "recoveries_per_s", "receive_errors_per_s", "ecn_marked_per_s",
)  # fmt: skip
HEALTHY = {
    "up": 1.0, "speed_bytes_per_s": 50e9, "speed_most_bytes_per_s": 50e9, "width_lanes": 4.0, "width_most_lanes": 4.0,
    "symbol_errors_per_s": 0.0, "integrity_errors_per_s": 0.0, "recoveries_per_s": 0.0, "receive_errors_per_s": 2.0,
    "ecn_marked_per_s": 40_000.0,
}  # fmt: skip
T0 = 1_764_504_000_000


def run(seconds: int, step_s: int = 1, **changes: float) -> list[Finding]:
    episodes, said = Episodes("c"), list[Finding]()
    for second in range(0, seconds, step_s):
        rows = [list((HEALTHY | changes).values()), list(HEALTHY.values())]
        matrix = Matrix.of(("mlx5_0/1", "mlx5_1/1"), COLUMNS, np.array(rows))
        frame = NodeFrame(
            cluster="c", ts_ms=T0 + 1000 * second, node="n1", run_id=1, seq=second, sections={"fabric": matrix}
        )
        said += port_findings(frame, episodes)
    return said


def opened(said: list[Finding]) -> list[tuple[str, str]]:
    return [(f.detector, f.subject.link) for f in said if f.state == "open"]


def test_healthy_ports_say_nothing() -> None:
    assert run(120) == []


def test_a_port_below_its_likes_is_told_with_both_speeds() -> None:
    said = run(60, speed_bytes_per_s=25e9)
    assert opened(said) == [("port.speed", "mlx5_0/1")]
    assert said[0].cause == "fabric_link"
    assert "200 Gb/s over 4 lanes; it and its likes can do 400 Gb/s" in said[0].summary


def test_a_narrower_port_is_told_and_one_that_trains_for_a_moment_is_not() -> None:
    assert opened(run(60, width_lanes=2.0)) == [("port.speed", "mlx5_0/1")]
    assert run(5, speed_bytes_per_s=12e9) == []


def test_link_errors_are_told_when_they_go_on() -> None:
    assert opened(run(120, step_s=10, symbol_errors_per_s=3.0)) == [("port.errors", "mlx5_0/1")]
    assert run(20, step_s=10, symbol_errors_per_s=3.0) == []


def test_what_is_missing_is_not_judged() -> None:
    assert run(120, speed_bytes_per_s=np.nan, symbol_errors_per_s=np.nan) == run(120, speed_most_bytes_per_s=np.nan)
    assert port_findings(NodeFrame(cluster="c", ts_ms=T0, node="n1", run_id=1, seq=1), Episodes("c")) == []


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), st.floats(width=32), max_size=8))
def test_any_readings_whatever_are_survived(changes: dict[str, float]) -> None:
    run(20, **changes)
