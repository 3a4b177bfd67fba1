"""Batch times without waiting peers: own past against the others' common motion."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.job.batch_times import LEAST, READY, BatchTimeDetector
from schemas.finding import Finding

ROUNDS, ONSET = 160, 100

Factor = Callable[[int, int], float]


def opened(
    factor: Factor = lambda *_: 1.0, workers: int = 8, noise: float = 0.02, seed: int = 1, unit: float = 1.0
) -> list[Finding]:
    """What is said of workers that differ by up to a third for good; `factor` by round and worker."""
    rng = np.random.default_rng(seed)
    static = np.linspace(1.0, 1.35, workers)
    detector = BatchTimeDetector("c", "j")
    said = []
    for n in range(ROUNDS):
        times = {str(w): float(unit * static[w] * np.exp(rng.normal(0, noise)) * factor(n, w)) for w in range(workers)}
        said += detector.update(1000 * n, n, times)
    return [f for f in said if f.state == "open"]


def test_workers_that_differ_for_good_are_no_stragglers() -> None:
    assert opened() == []


@pytest.mark.parametrize("workers", [2, 3, 8, 40])
def test_a_worker_that_slows_is_named_alone_with_its_onset(workers: int) -> None:
    (finding,) = opened(lambda n, w: 1.5 if n >= ONSET and w == workers - 1 else 1.0, workers)
    assert (finding.kind, finding.subject.rank) == ("straggler", workers - 1)
    assert (finding.onset_step, finding.detected_step) == (ONSET, ONSET + LEAST - 1)


def test_bursts_are_seen() -> None:
    found = opened(lambda n, w: 2.0 if n >= ONSET and w == 3 and n % 4 < 3 else 1.0)
    assert [f.subject.rank for f in found] == [3]


def test_single_slow_batches_are_not() -> None:
    assert opened(lambda n, w: 3.0 if w == n % 8 and n % 5 == 0 else 1.0) == []


def test_several_stragglers_are_each_named() -> None:
    found = opened(lambda n, w: 1.4 if n >= ONSET and w in (1, 4, 6) else 1.0)
    assert {f.subject.rank for f in found} == {1, 4, 6}


def test_a_slower_job_is_nobodys_fault() -> None:
    (finding,) = opened(lambda n, w: 1.4 if n >= ONSET else 1.0)
    assert (finding.kind, finding.subject.scope) == ("degradation", "job")


def test_who_does_not_speed_up_with_the_others_has_not_slowed() -> None:
    assert opened(lambda n, w: 0.7 if n >= ONSET and w != 2 else 1.0) == []


def test_a_slow_drift_of_some_percent_is_ordinary() -> None:
    assert opened(lambda n, w: 1 + 0.08 * n / ROUNDS if w == 5 else 1.0) == []


def test_a_straggler_in_a_job_that_slows_as_a_whole_is_named_too() -> None:
    found = opened(lambda n, w: (1.3 if n >= ONSET else 1.0) * (1.6 if n >= ONSET + 20 and w == 2 else 1.0))
    assert {(f.subject.scope, f.subject.rank) for f in found} == {("job", None), ("rank", 2)}


def test_nothing_is_said_before_there_is_a_past() -> None:
    assert opened(lambda n, w: 2.0 if w == 1 and n < READY else 1.0) == []


def test_one_worker_alone_is_never_a_straggler() -> None:
    assert opened(lambda n, w: 1.5 if n >= ONSET else 1.0, workers=1) == []


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.floats(1e-6, 1e9))
def test_the_unit_does_not_matter(seed: int, unit: float) -> None:
    found = opened(lambda n, w: 1.5 if n >= ONSET and w == 3 else 1.0, seed=seed, unit=unit)
    assert [f.subject.rank for f in found] == [3]
