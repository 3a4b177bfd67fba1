"""A noisy host: whose lateness costs the job something, and who is late by the same time in every step."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from job_records import T0, SmallJob

from detectors.job.steps import StepDetector, StepState

Own = Callable[[int], np.ndarray]
ONSET = 120


def beat(tick: int) -> np.ndarray:
    """A noisy host: in every second step another rank is late by 100 ms and more."""
    rng = np.random.default_rng(tick)
    return np.where(np.arange(16) == rng.integers(8, 16), rng.uniform(100_000, 160_000) * (tick % 2), 0.0)


def run(own: Own, steps: int = 200, account: Callable[[int], float] = lambda _: 0.0) -> list[StepState]:
    """Steps of `own` times; `account` is the compute time that rank 3 leaves out of its own account."""
    job, detector, out = SmallJob(), StepDetector(), []
    for tick in range(steps):
        for frame in job.steps(tick, own(tick)):
            told = tuple(
                msgspec.structs.replace(s, compute_us=s.compute_us - account(tick)) if s.rank == 3 else s
                for s in frame.steps
            )
            detector.add(T0 + tick * 1000, msgspec.structs.replace(frame, steps=told))
        out += detector.judge(T0 + tick * 1000)
    return out


def late(us: Callable[[int], float], noise: Own = beat) -> Own:
    def own(tick: int) -> np.ndarray:
        out = noise(tick)
        out[3] += us(tick) if tick >= ONSET else 0.0
        return out

    return own


@pytest.mark.parametrize("us", [8_000, 15_000, 40_000])
def test_a_steady_delay_is_named_though_others_are_late_by_far_more(us: float) -> None:
    found = run(late(lambda _: us))
    assert 0 < next(s.step for s in found if s.steady) - ONSET <= 30
    assert {rank for s in found for rank in s.steady} == {3}


def test_a_noisy_host_alone_has_no_steady_delay() -> None:
    assert not any(s.steady or s.stalling for s in run(beat, 300))


def test_what_one_rank_is_late_by_and_wanders_is_the_hosts_unrest() -> None:
    assert not any(s.steady for s in run(late(lambda tick: np.random.default_rng(tick).uniform(8_000, 25_000))))


def test_a_rank_that_leaves_time_out_of_its_account_on_a_noisy_host_holds_nobody_up() -> None:
    assert not any(s.steady for s in run(beat, account=lambda tick: 15_000.0 if tick >= ONSET else 0.0))


def test_a_slack_that_a_rank_now_uses_holds_nobody_up() -> None:
    def own(tick: int) -> np.ndarray:
        out = np.full(16, 40_000.0)
        out[3] = 38_000.0 if tick >= ONSET else 0.0
        return out

    assert not any(s.steady or s.stalling for s in run(own))


def test_a_rank_that_was_always_last_and_changes_its_account_is_as_late_as_before() -> None:
    def own(tick: int) -> np.ndarray:
        return np.where(np.arange(16) == 3, 12_000.0, 0.0)

    assert not any(s.steady or s.stalling for s in run(own, account=lambda tick: 15_000.0 * (tick >= ONSET)))


def test_a_culprit_is_named_on_a_host_that_was_restless_and_is_calm_under_the_fault() -> None:
    """Its peers wait less than they used to, and all of it for the culprit."""

    def unrest(tick: int) -> np.ndarray:
        rng = np.random.default_rng(tick)
        return np.where(np.arange(16) == rng.integers(16), rng.uniform(60_000, 160_000), 0.0)

    varies = late(lambda tick: np.random.default_rng(tick).uniform(40_000, 60_000), lambda t: unrest(t) * (t < ONSET))
    found = run(varies, 150)
    assert next(s.step for s in found if s.steady) - ONSET <= 12
    assert {rank for s in found for rank in s.steady} == {3}


def test_a_steady_delay_ends_with_its_cause() -> None:
    found = run(late(lambda tick: 15_000.0 * (tick < 180)), 240)
    assert any(s.steady for s in found if s.step < 180)
    assert not any(s.steady for s in found if s.step >= 195)
