"""The simulated RAS service: read by the real parser, it proves what nothing else can."""

from typing import Any

from watched_fleet import ONSET_S, START_MS, small

from collectors.nccl.ras import parse
from detectors.hang.ras import RasDetector, Snapshot
from schemas.finding import Finding
from simulator.fleet import SimulatedFleet


def asked(*after_s: int, **settings: Any) -> list[tuple[Snapshot, list[Finding]]]:
    """The answers at seconds after the onset, and what each of them proves."""
    fleet, detector = SimulatedFleet(small(**settings), start_ms=START_MS), RasDetector("c")
    out = []
    for second in range(1, ONSET_S + max(after_s) + 1):
        fleet.advance()
        if second - ONSET_S in after_s:
            (snapshot,) = parse(fleet.ras()).snapshots
            out.append((snapshot, detector.update(snapshot, fleet.tick_ms)))
    return out


def test_a_job_that_moves_is_no_standstill_and_all_its_ranks_answer() -> None:
    answers = asked(0, 15)
    assert [found for _, found in answers] == [[], []]
    (first, _), (second, _) = answers
    assert first.ts_ms == START_MS + ONSET_S * 1000
    assert sorted(c.size for c in first.communicators) == [4] * 8 + [16]
    assert not any(c.absent for c in first.communicators)
    launched = [
        next(c for c in s.communicators if c.size == 16).members[3].counts["AllReduce"] for s in (first, second)
    ]
    assert launched[0] < launched[1]


def test_the_rank_that_launched_nothing_more_is_named_by_the_second_answer() -> None:
    (_, first), (_, second) = asked(12, 27, fault="not_entered", target="6", severity=2.0)
    assert first == []
    assert [(f.cause, f.subject.rank, f.victims) for f in second] == [("not_entered", 6, 15)]


def test_who_has_ended_is_missing_and_after_a_minute_dead() -> None:
    (first, said), (second, _) = asked(12, 61, fault="process_gone", target="6")
    assert [(f.cause, f.subject.rank) for f in said] == [("process_gone", 6)]
    assert [[a.dead for c in s.communicators for a in c.absent] for s in (first, second)] == [[False] * 3, [True] * 3]


def test_a_kernel_that_never_ends_leaves_all_counts_equal() -> None:
    assert [found for _, found in asked(12, 27, fault="gpu_stuck", target="6")] == [[], []]
