"""The two-sided rule on step times: culprit, victims, noise, nodes, jobs, work; never a look ahead."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_records import T0, SmallJob

from detectors.job.steps import StepDetector, StepState

Own = Callable[[int], np.ndarray]


def run(own: Own, steps: int = 150, seed: int = 1, work: Callable[[int], object] = lambda _: np.nan) -> list[StepState]:
    return list(states(StepDetector(), own, steps, seed, work))


def states(detector: StepDetector, own: Own, steps: int, seed: int, work: Callable[[int], object]) -> list[StepState]:
    job, out = SmallJob(seed=seed), []
    for tick in range(steps):
        for frame in job.steps(tick, own(tick), work(tick)):  # type: ignore[arg-type]
            detector.add(T0 + tick * 1000, frame)
        out += detector.judge(T0 + tick * 1000)
    return out


def one(rank: int, us: float, since: int = 100) -> Own:
    def own(tick: int) -> np.ndarray:
        out = np.zeros(16)
        if tick >= since:
            out[rank] = us
        return out

    return own


@pytest.mark.parametrize("us", [3_000, 30_000, 300_000])
def test_a_culprit_is_named_at_the_eighth_step(us: float) -> None:
    found = run(one(5, us))
    assert next(s.step for s in found if s.steady) == 107
    assert {rank for s in found for rank in s.steady} == {5}


def test_the_culprits_story_has_two_sides() -> None:
    detector = StepDetector()
    states(detector, one(5, 30_000), 120, 1, lambda _: np.nan)
    culprit = detector.culprit(5)
    assert culprit.onset_step == 100
    assert culprit.self_us - culprit.self_past_us == pytest.approx(30_000, rel=0.05)
    assert culprit.excess_us == pytest.approx(30_000, rel=0.05)
    assert culprit.step_us / culprit.step_past_us == pytest.approx(108 / 78, rel=0.03)
    assert culprit.data_share == 0.0
    assert not culprit.sporadic


def test_a_victim_is_never_named_though_its_compute_is_longest() -> None:
    found = run(one(0, 200_000))
    assert all(s.steady <= {0} for s in found)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_a_healthy_job_has_no_culprit(seed: int) -> None:
    assert not any(s.steady or s.heavy or s.shift for s in run(lambda _: np.zeros(16), 120, seed))


def test_a_rank_late_every_second_step_is_a_beat_not_a_culprit() -> None:
    assert not any(s.steady for s in run(lambda tick: one(3, 50_000, 0)(tick % 2 - 1), 200))


def test_all_ranks_of_one_node_slower_together_are_the_node() -> None:
    def own(tick: int) -> np.ndarray:
        out = np.zeros(16)
        if tick >= 100:
            out[4:8] = np.random.default_rng(tick).uniform(0, 40_000, 4)
        return out

    found = run(own, 200)
    shifts = [s.shift for s in found if s.shift is not None]
    assert shifts
    assert shifts[-1].node == "r01-t01"
    first = next(s for s in found if s.steady)
    assert len(first.suspected & {4, 5, 6, 7}) >= 3  # most of the node: `JobDetector` says the node, not the rank
    assert not first.suspected - {4, 5, 6, 7}


def test_a_job_that_is_slower_as_a_whole_has_no_culprit() -> None:
    def own(tick: int) -> np.ndarray:
        return np.full(16, 30_000.0 if tick >= 100 else 0.0)

    found = run(own, 200)
    shift = next(s.shift for s in found if s.shift is not None)
    assert (shift.node, shift.moved) == (None, 16)
    assert not any(s.steady for s in found)


def test_more_work_on_one_rank_is_an_imbalance() -> None:
    works = np.full(16, 1024.0)

    def work(tick: int) -> np.ndarray:
        return np.where((np.arange(16) == 7) & (tick >= 100), 1536.0, works)

    found = run(lambda tick: np.full(16, 30_000.0 if tick >= 100 else 0.0), 130, work=work)
    assert next(s.step for s in found if s.heavy) == 107
    assert {rank for s in found for rank in s.heavy} == {7}


def test_a_rank_that_stalls_now_and_then_accounts_for_the_slower_job() -> None:
    detector = StepDetector()
    found = states(detector, lambda tick: one(9, 60_000)(tick if tick % 3 == 0 else 0), 200, 1, lambda _: np.nan)
    shift = next(s.shift for s in reversed(found) if s.shift is not None)
    assert not any(s.steady for s in found)
    assert detector.accountable(shift) == 9
    assert detector.culprit(9).sporadic


def test_what_comes_later_changes_nothing_said_before() -> None:
    short, long = run(one(5, 30_000), 120), run(one(5, 30_000), 160)
    assert [(s.step, s.steady) for s in short] == [(s.step, s.steady) for s in long[:120]]


def test_a_rank_that_is_missing_delays_the_step_to_its_deadline() -> None:
    job, detector = SmallJob(5, 4), StepDetector()
    frames = job.steps(0, np.zeros(20))
    for frame in frames:
        detector.add(T0, frame)
    assert len(list(detector.judge(T0))) == 1
    for frame in job.steps(1, np.zeros(20))[:4]:
        detector.add(T0 + 1000, frame)
    for frame in job.steps(2, np.zeros(20)):
        detector.add(T0 + 2000, frame)
    assert list(detector.judge(T0 + 2000)) == []  # in order: step 2 waits for step 1
    assert [state.step for state in detector.judge(T0 + 4000)] == [1, 2]  # 16 of 20 are enough
    for frame in job.steps(3, np.zeros(20))[:3]:
        detector.add(T0 + 5000, frame)
    assert list(detector.judge(T0 + 8000)) == []  # 12 of 20 are not
    assert detector.unjudged == 1


def test_a_rank_that_is_gone_for_good_is_not_waited_for() -> None:
    job, detector = SmallJob(5, 4), StepDetector()
    delays = []
    for tick in range(40):
        for frame in job.steps(tick, np.zeros(20))[: 5 if tick < 10 else 4]:
            detector.add(T0 + tick * 1000, frame)
        delays += [tick - state.step for state in detector.judge(T0 + tick * 1000)]
    assert max(delays) == 3
    assert delays[-1] == 0


def test_columns_that_are_missing_are_no_zeros() -> None:
    import msgspec

    job, detector = SmallJob(), StepDetector()
    nan = float("nan")
    found: list[StepState] = []
    for tick in range(130):
        for frame in job.steps(tick, one(5, 30_000)(tick)):
            bare = tuple(
                msgspec.structs.replace(s, compute_us=nan, comm_us=nan, wait_us=nan, data_us=s.step_us - s.compute_us)
                for s in frame.steps
            )
            detector.add(T0 + tick * 1000, msgspec.structs.replace(frame, steps=bare))
        found += detector.judge(T0 + tick * 1000)
    assert next(s.step for s in found if s.steady) == 107
    assert {rank for s in found for rank in s.steady} == {5}


def test_of_a_pair_of_ranks_the_slow_one_is_named() -> None:
    job, detector, found = SmallJob(1, 2), StepDetector(), []
    for tick in range(130):
        for frame in job.steps(tick, np.array([0.0, 8_000.0 if tick >= 100 else 0.0])):
            detector.add(T0 + tick * 1000, frame)
        found += detector.judge(T0 + tick * 1000)
    assert next(s.step for s in found if s.steady) == 107
    assert {rank for s in found for rank in s.steady} == {1}


def test_stalls_now_and_then_of_one_rank_are_counted() -> None:
    detector = StepDetector()
    found = list(states(detector, lambda tick: one(9, 60_000)(tick if tick % 12 == 0 else 0), 260, 1, lambda _: np.nan))
    first = next(s.step for s in found if s.stalling)
    assert {rank for s in found for rank in s.stalling} == {9}
    assert not any(s.steady for s in found)
    assert 132 <= first <= 170  # the fourth or fifth stall
    assert detector.culprit(9).sporadic
    assert detector.culprit(9).onset_step > 100


def test_stalls_that_have_stopped_are_over_and_are_told_by_a_stall_as_long_as_they_are_not() -> None:
    detector, job, said = StepDetector(), SmallJob(), []
    for tick in range(340):
        own = one(9, 60_000)(tick if tick % 12 == 0 and tick <= 228 else 0)
        for frame in job.steps(tick, own):
            detector.add(T0 + tick * 1000, frame)
        for state in detector.judge(T0 + tick * 1000):
            if state.stalling:
                said.append(state.step)
                assert detector.culprit(9).sporadic
                assert detector.culprit(9).excess_us > 500
    assert said == list(range(said[0], said[-1] + 1))
    assert 228 + 50 <= said[-1] <= 228 + 60


def test_steps_tell_of_a_rank_that_others_blame_what_it_did_since() -> None:
    detector = StepDetector()
    stalls = one(9, 60_000)
    list(states(detector, lambda tick: stalls(tick if tick % 3 == 0 else 0), 116, 1, lambda _: np.nan))
    found = detector.account(9, T0 + 102_000)
    assert found is not None
    assert found.sporadic
    assert found.excess_us == pytest.approx(60_000 / 3, rel=0.25)
    assert found.step_us > 1.1 * found.step_past_us  # the mean: the usual step is as before
    assert detector.account(3, T0 + 102_000) is None
    assert detector.account(9, T0 + 999_000) is None


def test_the_first_steps_of_a_lasting_slowness_are_no_stalls_now_and_then() -> None:
    """Four in a row are counted as stalls before eight are steady; they are told as what they are."""
    detector = StepDetector()
    found = list(states(detector, one(9, 25_000, since=130), 135, 1, lambda _: np.nan))
    assert found[-1].stalling == {9}
    assert not found[-1].steady
    assert not detector.culprit(9).sporadic
    assert detector.culprit(9).excess_us == pytest.approx(25_000, rel=0.1)


def test_stalls_that_wander_are_nobodys() -> None:
    def own(tick: int) -> np.ndarray:
        return one(int(np.random.default_rng(tick).integers(16)), 60_000)(tick if tick % 12 == 0 else 0)

    assert not any(s.stalling or s.steady for s in run(own, 300))


def test_a_noisy_host_that_beats_at_changing_ranks_is_blamed_on_nobody() -> None:
    def own(tick: int) -> np.ndarray:
        out = np.zeros(16)
        slip = tick % 200 / 200  # what one rank loses in even steps, another does in odd ones, more and more
        out[3] = 120_000 * (1 - slip) if tick % 2 else 0
        out[11] = 120_000 * slip if tick % 2 == 0 else 0
        return out

    assert not any(s.steady or s.stalling or s.shift for s in run(own, 420))


def test_a_slow_ramp_is_seen_before_it_becomes_usual() -> None:
    found = run(lambda tick: one(5, 60.0 * max(tick - 100, 0))(tick), 260)
    assert next(s.step for s in found if s.steady) < 180
    assert {rank for s in found for rank in s.steady} == {5}


def test_a_busy_node_shows_in_the_floor_long_before_its_steps_do() -> None:
    def own(tick: int) -> np.ndarray:
        rng = np.random.default_rng(tick)
        out = np.where(np.arange(16) == rng.integers(16), 100_000.0 * (tick % 2), 0.0)
        if tick >= 120:
            out[8:12] += rng.uniform(15_000, 25_000, 4)
        return out

    found = run(own, 220)
    assert next(s.shift for s in reversed(found) if s.shift is not None).node == "r01-t02"
    assert not any(s.steady for s in found)


def test_a_rank_that_lacks_a_time_that_others_have_is_not_blamed_for_it() -> None:
    import msgspec

    job, detector, found = SmallJob(), StepDetector(), []
    for tick in range(140):
        for frame in job.steps(tick, np.zeros(16)):
            steps = tuple(
                msgspec.structs.replace(s, compute_us=float("nan")) if s.rank == 6 and tick >= 100 else s
                for s in frame.steps
            )
            detector.add(T0 + tick * 1000, msgspec.structs.replace(frame, steps=steps))
        found += detector.judge(T0 + tick * 1000)
    assert not any(s.steady or s.shift for s in found)


def test_work_that_all_ranks_have_more_of_is_nobodys_imbalance() -> None:
    found = run(
        lambda tick: np.full(16, 30_000.0 if tick >= 100 else 0.0),
        180,
        work=lambda tick: 1536.0 if tick >= 100 else 1024.0,
    )
    assert not any(s.heavy or s.steady for s in found)
    assert any(s.shift for s in found)


@pytest.mark.parametrize("compute_us", [1e-300, 0.0, 20_000.0])
def test_a_rank_that_reports_less_compute_in_steps_as_long_as_before_holds_nobody_up(compute_us: float) -> None:
    import msgspec

    job, detector, found = SmallJob(), StepDetector(), []
    for tick in range(180):
        for frame in job.steps(tick, np.zeros(16)):
            steps = tuple(
                msgspec.structs.replace(s, compute_us=compute_us) if s.rank == 6 and tick >= 100 else s
                for s in frame.steps
            )
            detector.add(T0 + tick * 1000, msgspec.structs.replace(frame, steps=steps))
        found += detector.judge(T0 + tick * 1000)
    assert len(found) == 180
    assert not any(s.steady or s.shift or s.stalling for s in found)
