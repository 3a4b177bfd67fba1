"""The first RAS snapshot that proves a standstill, and none before."""

import pytest

from detectors.hang.ras import Absent, Communicator, Member, RasDetector, Snapshot
from schemas.finding import Finding

T0 = 1_796_035_800_000


def world(counts: dict[int, int], id_: str = "0xw", size: int = 8, base: int = 0, **more: object) -> Communicator:
    """A communicator by launched all-reduces per rank (processes base + rank); who is not there, is gone."""
    members = tuple(
        Member(rank, ("n", base + rank), {"AllReduce": count}, **more)  # type: ignore[arg-type]
        for rank, count in sorted(counts.items())
    )
    dead = bool(more.get("dead"))
    return Communicator(
        id_, size, members, tuple(Absent(r, ("n", base + r), dead) for r in range(size) if r not in counts)
    )


def run(*snapshots: list[Communicator], gap_s: int = 15) -> list[list[Finding]]:
    detector = RasDetector("c")
    out = []
    for number, communicators in enumerate(snapshots):
        ts_ms = T0 + number * gap_s * 1000
        out.append(detector.update(Snapshot(ts_ms, tuple(communicators)), ts_ms))
    return out


def all_(count: int, size: int = 8, **other: int) -> dict[int, int]:
    return dict.fromkeys(range(size), count) | {int(rank[1:]): n for rank, n in other.items()}


def test_a_difference_in_passing_is_nothing() -> None:
    said = run([world(all_(5))], [world(all_(7, r2=6))], [world(all_(9, r4=8))], [world(all_(11))])
    assert said == [[], [], [], []]


@pytest.mark.parametrize(("size", "late"), [(8, 2), (2, 1), (64, 17)])
def test_the_first_frozen_difference_names_the_rank(size: int, late: int) -> None:
    counts = all_(7, size) | {late: 6}
    said = run([world(all_(5, size), size=size)], [world(counts, size=size)], [world(counts, size=size)])
    assert said[:2] == [[], []]
    (finding,) = said[2]
    assert (finding.cause, finding.subject.rank, finding.victims) == ("not_entered", late, size - 1)
    assert (finding.onset_ms, finding.ts_ms) == (T0 + 15_000, T0 + 30_000)


def test_two_polls_close_together_prove_nothing() -> None:
    counts = all_(7, r2=6)
    assert run([world(counts)], [world(counts)], [world(counts)], gap_s=4) == [[], [], []]
    assert [bool(found) for found in run(*[[world(counts)]] * 5, gap_s=4)] == [False, False, False, True, False]


def test_equal_frozen_counts_say_nothing_and_are_noted() -> None:
    detector = RasDetector("c")
    for number in range(3):
        assert detector.update(Snapshot(T0, (world(all_(7)),)), T0 + number * 15_000) == []
    assert list(detector.standing().values()) == [30_000]


def test_movement_anywhere_in_the_job_is_no_standstill() -> None:
    other = [world(all_(n, 4), "0xo", 4) for n in (1, 2, 3)]
    assert run(*([world(all_(7, r2=6)), o] for o in other)) == [[], [], []]


def test_the_waiting_chain_ends_at_the_rank_of_the_smaller_group() -> None:
    """Ranks 0 to 3 are behind in the whole world, but three of them only wait for rank 2 in their own group."""
    wide = world({r: 6 if r < 4 else 7 for r in range(8)})
    narrow = world({0: 9, 1: 9, 2: 8, 3: 9}, "0xtp", 4)
    (finding,) = run([wide, narrow], [wide, narrow])[1]
    assert (finding.subject.rank, finding.victims) == (2, 7)


def test_the_few_that_are_ahead_are_not_the_culprits() -> None:
    counts = all_(640, 32, r12=641, r13=641)
    (finding,) = run([world(counts, size=32)], [world(counts, size=32)])[1]
    assert (finding.subject.scope, finding.subject.rank) == ("group", None)
    assert finding.confidence < 0.8


def test_beginning_and_ending_communicators_differ_by_nature() -> None:
    counts = all_(7, r2=6)
    assert run([world(counts, running=False)], [world(counts, running=False)]) == [[], []]


def test_unresponsive_then_dead_is_one_verdict_that_grows() -> None:
    frozen = world(all_(7, r2=6))
    gone = {rank: 7 for rank in range(8) if rank != 2}
    dead = Communicator("0xw", 8, world(gone).members, (Absent(2, ("n", 2), True),))
    said = run([frozen], [frozen], [world(gone)], [dead])
    ids = {finding.id for found in said for finding in found}
    assert len(ids) == 1
    assert [f.cause for found in said for f in found] == ["not_entered", "not_entered", "process_gone"]
    assert [f.state for found in said for f in found] == ["open", "heartbeat", "change"]


def test_one_snapshot_with_a_missing_rank_is_enough() -> None:
    ((finding,),) = run([world({0: 4}, size=2)])
    assert (finding.cause, finding.subject.rank, finding.subject.node) == ("process_gone", 1, "n")


def test_a_job_that_goes_on_closes_the_verdict() -> None:
    counts = all_(7, r2=6)
    said = run([world(counts)], [world(counts)], [world(all_(8))])
    assert [f.state for f in said[2]] == ["close"]


def test_two_jobs_with_one_hash_stay_apart() -> None:
    hung = world(all_(7, r2=6))
    well = [world(all_(n, 4), "0xw", 4, base=1000) for n in (1, 2, 3)]
    said = run(*([hung, w] for w in well))
    assert [f.subject.rank for found in said for f in found if f.state == "open"] == [2]


def test_an_error_of_its_own_names_the_rank_but_a_remote_one_does_not() -> None:
    def with_error(error: int) -> list[Communicator]:
        c = world(all_(3, 4), size=4)
        bad = Member(1, ("n", 1), {"AllReduce": 3}, False, error)
        return [Communicator(c.id, 4, (c.members[0], bad, *c.members[2:]))]

    ((finding,),) = run(with_error(2))
    assert (finding.subject.rank, finding.cause) == (1, "unknown")
    assert run(with_error(6)) == [[]]
    assert run(with_error(7)) == [[]]
