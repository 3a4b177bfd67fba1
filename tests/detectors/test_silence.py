"""Silence of nodes and partitions, and wrong clocks, against the other nodes' ticks."""

from collections.abc import Callable

import pytest

from detectors.silence import SilenceDetector
from detectors.watermark import Watermark
from schemas.finding import Finding

T0 = 1_700_000_000_000
NODES = [f"n{i}" for i in range(8)]


class Partition:
    """A watermark and its silence detector, fed second by second."""

    def __init__(self) -> None:
        self.watermark = Watermark()
        self.detector = SilenceDetector("c", "node-frames/3")
        self.said: list[Finding] = []
        self._judged_ms = 0

    def run(
        self,
        seconds: range,
        speaks: Callable[[str, int], bool] = lambda node, second: True,
        offset_s: Callable[[str, int], int] = lambda node, second: 0,
        lag_s: float = 0.2,
        nodes: list[str] = NODES,
    ) -> list[Finding]:
        before = len(self.said)
        for second in seconds:
            for node in nodes:
                if speaks(node, second):
                    self.watermark.observe(node, T0 + (second + offset_s(node, second)) * 1000)
            self.judge(lag_s)
        return self.said[before:]

    def judge(self, lag_s: float) -> None:
        """As a worker does: once for each new tick of the front."""
        front_ms = self.watermark.front_ms() or 0
        if front_ms > self._judged_ms:
            self._judged_ms = front_ms
            self.said += self.detector.judge(self.watermark, lag_s)


def brief(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.state, f.cause, f.subject.node) for f in findings if f.state != "heartbeat"]


def test_all_well_says_nothing() -> None:
    assert Partition().run(range(120)) == []


def test_a_silent_node_is_found_within_six_seconds_and_closes_when_heard_again() -> None:
    partition = Partition()
    said = partition.run(range(60), lambda node, second: node != "n3" or not 20 <= second < 40)
    assert brief(said) == [("open", "node_lost", "n3"), ("close", "node_lost", "n3")]
    assert said[0].ts_ms <= T0 + 26_000
    assert said[0].onset_ms == T0 + 19_000


def test_one_stray_record_does_not_resolve_it() -> None:
    said = Partition().run(range(60), lambda node, second: node != "n3" or second < 20 or second == 40)
    assert brief(said) == [("open", "node_lost", "n3")]


def test_a_lagging_worker_judges_nobody() -> None:
    said = Partition().run(range(60), lambda node, second: node != "n3" or second < 20, lag_s=30.0)
    assert said == []


def test_what_is_open_stays_open_while_the_worker_lags() -> None:
    partition = Partition()
    partition.run(range(40), lambda node, second: node != "n3" or second < 20)
    lagging = partition.run(range(40, 90), lambda node, second: node != "n3", lag_s=30.0)
    assert {f.state for f in lagging} == {"heartbeat"}
    caught_up = partition.run(range(90, 95), lambda node, second: node != "n3")
    assert {f.state for f in caught_up} <= {"heartbeat"}


@pytest.mark.parametrize("survivors", [1, 2, 3])
def test_more_than_half_silent_is_one_finding_about_the_pipeline(survivors: int) -> None:
    partition = Partition()
    said = partition.run(range(90), lambda node, second: second < 20 or node in NODES[:survivors])
    assert brief(said) == [("open", "pipeline", "")]
    assert said[0].subject.group == "node-frames/3"
    back = partition.run(range(90, 115))
    assert brief(back) == [("close", "pipeline", "")]


def test_the_watermark_goes_on_without_the_silent_ones() -> None:
    partition = Partition()
    partition.run(range(60), lambda node, second: second < 20 or node in NODES[:3])
    assert partition.watermark.value_ms == T0 + 57_000


def test_a_wrong_clock_is_one_finding_and_no_silence_of_anyone() -> None:
    said = Partition().run(range(90), offset_s=lambda node, second: 7200 if node == "n5" and second > 30 else 0)
    assert brief(said) == [("open", "clock_wrong", "n5")]
    assert Partition().run(range(90), offset_s=lambda node, second: -7200 if node == "n5" else 0)[0].cause == (
        "clock_wrong"
    )


def test_a_node_that_drains_its_spool_is_neither_silent_nor_wrong() -> None:
    partition = Partition()
    partition.run(range(20))
    partition.run(range(20, 30), lambda node, second: node != "n2")
    tick = T0 + 20_000
    for second in range(30, 60):
        for node in NODES:
            if node != "n2":
                partition.watermark.observe(node, T0 + second * 1000)
        for _ in range(2):
            partition.watermark.observe("n2", tick)
            tick = min(tick + 1000, T0 + second * 1000)
        partition.judge(0.1)
    assert brief(partition.said) == [("open", "node_lost", "n2"), ("close", "node_lost", "n2")]
    assert partition.said[-1].ts_ms <= T0 + 41_000


def test_of_two_nodes_the_silent_one_is_found() -> None:
    said = Partition().run(range(40), lambda node, second: node == "n0" or second < 20, nodes=NODES[:2])
    assert brief(said) == [("open", "node_lost", "n1")]


def test_a_fleet_that_paused_and_lost_a_part_recovers() -> None:
    partition = Partition()
    partition.run(range(20))
    partition.run(range(4000, 4060), lambda node, second: node not in ("n6", "n7"))
    assert brief(partition.said) == [("open", "node_lost", "n6"), ("open", "node_lost", "n7")]


@pytest.mark.parametrize(("nodes", "back", "seconds"), [(2, 1, 650), (8, 3, 60)])
def test_a_fleet_that_paused_and_lost_most_recovers(nodes: int, back: int, seconds: int) -> None:
    partition = Partition()
    partition.run(range(20), nodes=NODES[:nodes])
    partition.run(range(4000, 4000 + seconds), lambda node, second: node in NODES[:back], nodes=NODES[:nodes])
    assert not any(partition.watermark.nodes[node].wrong for node in NODES[:back])
    assert all(partition.watermark.nodes[node].muted for node in NODES[back:nodes])
    assert partition.watermark.value_ms == T0 + (4000 + seconds - 1) * 1000 - 2000


def test_a_restart_opens_nothing_a_second_time() -> None:
    partition = Partition()
    speaks = lambda node, second: node != "n3" or second < 20  # noqa: E731
    partition.run(range(35), speaks)
    revived = Partition()
    revived.watermark.restore(partition.watermark.state())
    again = revived.detector.restore(partition.detector.decisions())
    assert [f.identity for f in again] == [partition.said[-1].identity]
    assert brief(revived.run(range(35, 80), speaks)) == []
    assert SilenceDetector("c", "p").restore(None) == ()
