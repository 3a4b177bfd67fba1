"""Standstill: hang, pause, end, and who the others wait for."""

import pytest
from job_records import T0, SmallJob

from detectors.job.progress import ProgressDetector, Standstill
from schemas.features import GpuFeatures


def busy(rank: int, use: float = 100.0, tensor: float = 0.5, recent: tuple[str, ...] = ()) -> GpuFeatures:
    readings = {"gpu_utilization_pct": use, "tensor_active_ratio": tensor}
    return GpuFeatures(uuid=f"GPU-{rank}", rank=rank, readings=readings, recent=recent)


def stop(
    gpus: dict[int, GpuFeatures],
    ticks: int = 40,
    silent: tuple[int, ...] = (),
    running: int = 30,
    ended: frozenset[int] = frozenset(),
) -> tuple[int | None, Standstill | None]:
    """A job runs and stops; the seconds until a standstill is called, and it."""
    job, detector = SmallJob(), ProgressDetector()
    for tick in range(running):
        for frame in job.collectives(tick):
            detector.add(frame)
        assert detector.judge(T0 + tick * 1000, {}) is None
    for tick in range(running, running + ticks):
        for frame in job.collectives(tick, stopped=True, silent=silent):
            detector.add(frame)
        found = detector.judge(T0 + tick * 1000, gpus, ended)
        if found is not None:
            return tick - running + 1, found
    return None, None


def test_the_rank_that_does_not_spin_has_not_entered() -> None:
    gpus = {r: busy(r, tensor=0.0) for r in range(16)} | {6: busy(6, use=0.0, tensor=0.0)}
    seconds, found = stop(gpus)
    assert found is not None
    assert (found.how, found.ranks, found.node, found.waiting) == ("not_entered", (6,), "r01-t01", 15)
    assert seconds is not None
    assert 5 <= seconds <= 10


def test_an_xid_marks_the_stuck_one() -> None:
    gpus = {r: busy(r, tensor=0.0) for r in range(16)} | {6: busy(6, tensor=0.0, recent=("xid:109@4s",))}
    _, found = stop(gpus)
    assert found is not None
    assert (found.how, found.ranks) == ("stuck", (6,))


def test_a_node_that_fell_silent_is_gone() -> None:
    _, found = stop({}, silent=(2,))
    assert found is not None
    assert (found.how, found.ranks, found.node) == ("gone", (8, 9, 10, 11), "r01-t02")


def test_a_process_that_ended_is_gone() -> None:
    _, found = stop({}, ended=frozenset({3}))
    assert found is not None
    assert (found.how, found.ranks) == ("gone", (3,))


def test_everybody_waiting_inside_is_a_hang_of_unknown_origin() -> None:
    _, found = stop({r: busy(r, tensor=0.0) for r in range(16)})
    assert found is not None
    assert (found.how, found.ranks) == ("unknown", ())


def test_an_evaluation_that_computes_without_collectives_is_no_hang() -> None:
    assert stop({r: busy(r, tensor=0.4) for r in range(16)}, ticks=100) == (None, None)


def test_an_idle_job_is_no_hang_however_long() -> None:
    assert stop({r: busy(r, use=0.0, tensor=0.0) for r in range(16)}, ticks=400) == (None, None)


def test_the_end_of_a_job_is_no_hang() -> None:
    assert stop({}, silent=(0, 1, 2, 3), ticks=400) == (None, None)


def test_without_any_other_sign_it_takes_minutes_to_say_so() -> None:
    seconds, found = stop({}, ticks=400)
    assert found is not None
    assert (found.how, found.sure) == ("unknown", 0.4)
    assert seconds is not None
    assert seconds >= 120


def test_a_group_behind_its_siblings_holds_the_one_who_did_not_come() -> None:
    job, detector = SmallJob(), ProgressDetector()
    for tick in range(30):
        for frame in job.collectives(tick):
            detector.add(frame)
    for tick in range(30, 50):
        for n, frame in enumerate(job.collectives(tick, stopped=tick > 30)):
            if n == 1 and tick == 30:
                job.sent[1] -= 1  # this node's tensor group did not finish the step
                continue
            detector.add(frame)
    found = detector.judge(T0 + 50_000, {})
    assert found is not None
    assert set(found.ranks) == {4, 5, 6, 7}


@pytest.mark.parametrize(("period_s", "least"), [(1, 5), (4, 40)])
def test_the_deadline_follows_the_jobs_own_rhythm(period_s: int, least: int) -> None:
    job, detector = SmallJob(), ProgressDetector()
    for tick in range(0, 120, period_s):
        for frame in job.collectives(tick):
            detector.add(frame)
    assert detector.deadline_ms() >= least * 1000 / 2
    assert detector.judge(T0 + (119 + 4) * 1000, {}) is None
