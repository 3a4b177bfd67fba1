"""Fans that stop and ranks that wait: told when it lasts."""

import numpy as np
import pytest

from detectors.episode import Episodes
from detectors.node.host_rules import host_findings
from schemas.finding import Finding
from schemas.frame import NodeFrame
from schemas.matrix import Matrix

T0 = 1_764_504_000_000


def run(column: str, counts: list[float], step_s: int) -> list[Finding]:
    episodes, said = Episodes("c"), list[Finding]()
    for i, count in enumerate(counts):
        matrix = Matrix.of(("n1",), ("load_1m", column), np.array([[400.0, count]]))
        frame = NodeFrame(
            cluster="c", ts_ms=T0 + 1000 * step_s * i, node="n1", run_id=1, seq=i, sections={"host": matrix}
        )
        said += host_findings(frame, episodes)
    return said


def brief(said: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.state, f.cause, f.subject.node) for f in said if f.state in ("open", "close")]


def test_a_fan_that_stopped_is_told_until_it_turns_again() -> None:
    said = run("fans_stopped_count", [0, 0, 1, 1, 1, 1, 0, 0, 0], 10)
    assert brief(said) == [("open", "pump_fan", "n1"), ("close", "pump_fan", "n1")]
    assert brief(run("fans_stopped_count", [0, 0, 1, 1, 0, 0], 10)) == []


def test_ranks_that_wait_for_a_minute_are_told_and_those_that_wait_now_and_then_are_not() -> None:
    assert brief(run("rank_blocked_count", [2.0] * 70, 1)) == [("open", "host_io", "n1")]
    assert run("rank_blocked_count", [1.0 if i % 10 < 7 else 0.0 for i in range(300)], 1) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_a_clock_that_is_a_quarter_of_a_second_off_is_told_until_it_is_right_again(sign: int) -> None:
    said = run("clock_offset_s", [sign * s for s in (0.002, 0.1, 0.4, 0.38, 0.36, 0.34, 0.2, 0.1, 0.0)], 10)
    assert brief(said) == [("open", "clock_wrong", "n1"), ("close", "clock_wrong", "n1")]
    assert said[0].evidence[0].text == "this node's time service finds its clock off by 0.36 s"
    assert run("clock_offset_s", [sign * 0.2] * 30, 10) == []


def test_what_is_missing_is_not_judged() -> None:
    assert run("fans_stopped_count", [np.nan] * 20, 10) == []
    assert run("something_else", [5.0] * 100, 1) == []
