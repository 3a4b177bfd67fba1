"""NVLinks, link by link: what is a fault, what is not, and what survives a restart."""

from collections.abc import Mapping

import numpy as np
from node_frames import T0

from detectors.episode import Episodes
from detectors.node.nvlink_rules import COLUMNS, LinkWatch
from schemas import NodeFrame
from schemas.finding import Finding
from schemas.matrix import Matrix

HEALTHY = dict.fromkeys(COLUMNS, 0.0) | {"state": 1.0, "effective_ber_log10": -253.8, "symbol_ber_log10": -253.8}
NOT_READ = dict.fromkeys(
    ("effective_ber_log10", "symbol_ber_log10", "symbol_error_count", *(n for n in COLUMNS if n.startswith("fec_"))),
    float("nan"),
)
"""Between two minutes."""


class Rig:
    """A node with four links of two GPUs, read every ten seconds."""

    def __init__(self) -> None:
        self.watch, self.episodes = LinkWatch("n1"), Episodes("c")
        self.rows = [f"GPU-{gpu}/{link}" for gpu in range(2) for link in range(2)]
        self.totals = {row: dict(HEALTHY) for row in self.rows}
        self.second = 0
        self.counted: dict[str, float] = {}

    def read(self, changes: Mapping[str, Mapping[str, float]] | None = None, times: int = 1) -> list[Finding]:
        """`times` readings with `changes` added up (counters) or set (the rest) in each."""
        said: list[Finding] = []
        for _ in range(times):
            for row, values in (changes or {}).items():
                for name, value in values.items():
                    grown = self.totals[row][name] + value if name.endswith("_count") else value
                    self.totals[row][name] = grown
            values = [[self.totals[row][name] for name in COLUMNS] for row in self.rows]
            said += self.frame({"nvlink": Matrix.of(self.rows, COLUMNS, values)})
            for _ in range(9):
                said += self.frame({})
        return said

    def frame(self, sections: dict[str, Matrix], run_id: int = 1) -> list[Finding]:
        self.second += 1
        frame = NodeFrame(
            cluster="c", ts_ms=T0 + self.second * 1000, node="n1", run_id=run_id, seq=self.second, sections=sections
        )
        return self.watch.update(frame, self.episodes)


def opened(said: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.detector, finding.subject.link) for finding in said if finding.state == "open"]


def test_healthy_links_say_nothing() -> None:
    rig = Rig()
    assert rig.read({"GPU-0/1": {"replay_count": 3}}, times=30) == []


def test_a_link_that_goes_down_is_named_and_its_return_closes_it() -> None:
    rig = Rig()
    rig.read(times=3)
    said = rig.read({"GPU-1/0": {"state": 0.0}}, times=3)
    assert opened(said) == [("link_down", "GPU-1/0")]
    assert said[0].subject.gpu == "GPU-1"
    assert said[0].cause == "nvlink_fault"
    said = rig.read({"GPU-1/0": {"state": 1.0}}, times=4)
    assert [finding.state for finding in said if finding.state != "change"][-1] == "close"


def test_a_link_that_never_was_up_is_not_missed_and_a_sleeping_one_is_not_down() -> None:
    rig = Rig()
    assert rig.read({"GPU-0/0": {"state": 0.0}, "GPU-0/1": {"state": 2.0}}, times=10) == []


def test_one_recovery_is_no_fault_and_two_are() -> None:
    rig = Rig()
    rig.read(times=2)
    assert rig.read({"GPU-0/1": {"recovered_count": 1.0}}) == []
    assert rig.read(times=20) == []
    assert opened(rig.read({"GPU-0/1": {"recovered_count": 1.0}})) == [("link_recovery", "GPU-0/1")]


def test_a_failed_recovery_is_told_at_once_with_the_number() -> None:
    rig = Rig()
    rig.read()
    said = rig.read({"GPU-0/1": {"recovery_failed_count": 2.0}})
    assert opened(said) == [("link_recovery_failed", "GPU-0/1")]
    assert said[0].evidence[0].text == "link GPU-0/1: recovery_failed_count 2, 2 more"


def test_errors_that_go_on_are_told_and_a_burst_is_not() -> None:
    rig = Rig()
    rig.read(times=2)
    assert rig.read({"GPU-1/1": {"crc_error_count": 900.0}}, times=2) == []
    assert opened(rig.read({"GPU-1/1": {"crc_error_count": 1.0}})) == [("link_errors", "GPU-1/1")]


def test_a_bad_bit_error_rate_is_told_although_it_is_read_once_a_minute() -> None:
    rig = Rig()
    for _ in range(2):
        said = rig.read({"GPU-0/0": {"effective_ber_log10": -9.5}})
        said += rig.read({"GPU-0/0": {"effective_ber_log10": float("nan")}}, times=5)
    assert opened(said) == [("link_ber", "GPU-0/0")]


def minutes(rig: Rig, changes: Mapping[str, Mapping[str, float]], times: int) -> list[Finding]:
    """So many minutes, with the slow columns read once in each."""
    said = []
    for _ in range(times):
        for row in rig.rows:
            if np.isnan(rig.totals[row]["symbol_ber_log10"]):
                rig.totals[row] |= {name: HEALTHY[name] for name in NOT_READ}
                rig.totals[row]["symbol_error_count"] = rig.counted.get(row, 0.0)
        said += rig.read(changes)
        rig.counted = {row: rig.totals[row]["symbol_error_count"] for row in rig.rows}
        for row in rig.rows:
            rig.totals[row] |= NOT_READ
        said += rig.read(times=5)
    return said


def test_symbols_that_go_on_being_lost_are_told_and_one_bad_minute_is_not() -> None:
    rig = Rig()
    minutes(rig, {}, 2)
    bad = {"symbol_ber_log10": -15.0}
    assert minutes(rig, {"GPU-0/0": bad | {"symbol_error_count": 9.0}}, 1) == []
    assert minutes(rig, {"GPU-0/0": bad}, 12) == []  # the rate is over the link's life and stays
    said = minutes(rig, {"GPU-0/0": bad | {"symbol_error_count": 9.0}}, 5)
    assert opened(said) == [("link_symbol_ber", "GPU-0/0")]
    assert said[0].evidence[0].text == "link GPU-0/0: symbol_ber_log10 -15, symbol_error_count 54, 9 more"


def test_a_link_that_corrects_far_more_than_the_others_is_told_and_one_like_the_others_is_not() -> None:
    rig = Rig()
    alike = {row: {"fec_5_per_s": 300.0} for row in rig.rows}
    assert minutes(rig, alike, 6) == []
    said = minutes(rig, alike | {"GPU-1/0": {"fec_5_per_s": 20_000.0, "fec_9_per_s": 20_000.0}}, 5)
    assert opened(said) == [("link_fec", "GPU-1/0")]


def test_a_few_hard_codewords_are_nothing_and_neither_is_a_link_without_company() -> None:
    rig = Rig()
    assert minutes(rig, {"GPU-1/0": {"fec_5_per_s": 0.9}}, 10) == []
    alone = Rig()
    alone.rows = alone.rows[:2]
    assert minutes(alone, {"GPU-0/0": {"fec_5_per_s": 1e6}}, 10) == []


def test_counters_that_fall_after_a_reset_are_no_errors() -> None:
    rig = Rig()
    rig.read({"GPU-0/0": {"crc_error_count": 500.0, "recovery_failed_count": 4.0}})
    rig.read(times=100)
    rig.totals["GPU-0/0"] = dict(HEALTHY)
    assert rig.read(times=5) == []


def test_an_open_finding_keeps_its_heartbeat_between_readings() -> None:
    rig = Rig()
    rig.read(times=2)
    said = rig.read({"GPU-1/0": {"state": 0.0}}, times=6)
    gaps = np.diff([finding.ts_ms for finding in said])
    assert len(gaps) > 2
    assert gaps.max() <= 20_000


def test_links_continue_after_a_restart_and_their_order_is_nothing() -> None:
    rig = Rig()
    rig.read({"GPU-0/1": {"crc_error_count": 5.0}}, times=2)
    again = Rig()
    again.watch.restore(rig.watch.save())
    again.totals, again.second = rig.totals, rig.second
    again.rows = list(reversed(rig.rows))
    again.watch._run_id = 1
    said = again.read({"GPU-0/1": {"crc_error_count": 5.0}}, times=3)
    assert opened(said) == [("link_errors", "GPU-0/1")]
