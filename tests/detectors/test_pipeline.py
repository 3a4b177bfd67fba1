"""Pipeline traces: bad workers, uneven sequences, uneven stages, and what is none of these."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_steps import Times, pipeline_steps

from detectors.pipeline.detector import PipelineDetector
from detectors.pipeline.grid import GARBAGE, PipelineOps, grid
from detectors.pipeline.replay import pipeline_time
from detectors.pipeline.slowness import lower_median
from detectors.pipeline.work import coherence
from schemas.finding import Finding


def opened(steps: Iterator[tuple[int, PipelineOps]]) -> list[Finding]:
    detector = PipelineDetector("c", "j")
    said = [f for step, ops in steps for f in detector.update(1000 * (step + 1), step, ops)]
    return [f for f in said if f.state == "open"]


def slow(*who: tuple[int, int], by: float, since: int = 0) -> Times:
    return lambda step, d, s, kind, k: by if (d, s) in who and step >= since else 1.0


def sequences(spread: float, seed: int = 3) -> Times:
    """Every microbatch of a replica has its own length, the same on all stages."""
    lengths = np.exp(np.random.default_rng(seed).normal(0, spread, (64, 64, 64)))
    return lambda step, d, s, kind, k: float(lengths[step, d, k])


def both(*factors: Times) -> Times:
    return lambda *at: float(np.prod([factor(*at) for factor in factors]))


@pytest.mark.parametrize(("dp", "pp"), [(2, 1), (2, 2), (4, 4), (3, 8), (16, 2)])
def test_a_healthy_job_is_left_alone_whatever_its_size(dp: int, pp: int) -> None:
    assert opened(pipeline_steps(dp=dp, pp=pp)) == []


@pytest.mark.parametrize(("dp", "pp"), [(2, 1), (2, 2), (4, 4), (3, 8), (16, 2)])
def test_a_slow_worker_is_named_alone(dp: int, pp: int) -> None:
    (finding,) = opened(pipeline_steps(slow((dp - 1, pp - 1), by=1.3), dp=dp, pp=pp))
    assert (finding.kind, finding.subject.group) == ("straggler", f"dp {dp - 1} stage {pp - 1}")
    assert finding.subject.rank == (pp - 1) * dp + dp - 1
    assert finding.victims == dp * pp - 1


def test_the_onset_is_the_first_slow_step_and_it_is_told_within_five() -> None:
    (finding,) = opened(pipeline_steps(slow((1, 2), by=1.5, since=7), steps=16))
    assert finding.onset_step == 7
    assert finding.detected_step is not None
    assert finding.detected_step <= 11


def test_several_slow_workers_are_each_named() -> None:
    found = opened(pipeline_steps(slow((0, 1), (2, 1), (3, 3), by=1.4)))
    assert {f.subject.group for f in found} == {"dp 0 stage 1", "dp 2 stage 1", "dp 3 stage 3"}


def test_a_worker_that_costs_the_job_nothing_is_not_blamed() -> None:
    """The last stage has twice the work of the others: a first stage slower by a third waits for it all the same."""
    heavy: Times = lambda step, d, s, kind, k: 2.0 if s == 3 else 1.0  # noqa: E731 - a factor like the others
    found = opened(pipeline_steps(both(heavy, slow((1, 0), by=1.3)), microbatches=32))
    assert [f.cause for f in found] == ["stage_imbalance"]


def test_uneven_sequences_blame_nobody() -> None:
    (finding,) = opened(pipeline_steps(sequences(0.4)))
    assert (finding.kind, finding.cause, finding.subject.scope) == ("imbalance", "sequence_imbalance", "job")


def test_a_slow_worker_stands_out_of_uneven_sequences() -> None:
    found = opened(pipeline_steps(both(sequences(0.2), slow((2, 1), by=2.0))))
    assert {f.subject.group for f in found if f.kind == "straggler"} == {"dp 2 stage 1"}


def test_a_heavier_last_stage_is_told_as_such() -> None:
    (finding,) = opened(pipeline_steps(lambda step, d, s, kind, k: 1.4 if s == 3 else 1.0))
    assert (finding.kind, finding.cause) == ("imbalance", "stage_imbalance")
    assert (finding.subject.scope, finding.subject.group) == ("stage", "3")
    assert "the last one" in finding.summary


def test_a_replica_with_more_work_is_no_straggler() -> None:
    (finding,) = opened(pipeline_steps(slow(*((1, s) for s in range(4)), by=1.3)))
    assert (finding.kind, finding.cause, finding.subject.group) == ("imbalance", "work_imbalance", "dp 1")


def test_stalls_that_no_neighbour_shares_do_not_come_from_the_data() -> None:
    rng = np.random.default_rng(5)
    stalls = np.where(rng.random((64, 4, 4, 2, 8)) < 0.04, 6.0, 1.0)
    (finding,) = opened(pipeline_steps(lambda *at: float(stalls[at])))
    assert (finding.kind, finding.cause) == ("degradation", "sporadic_stall")


def test_recorded_garbage_collection_is_named() -> None:
    def collecting() -> Iterator[tuple[int, PipelineOps]]:
        for step, ops in pipeline_steps():
            pause = (step % 4, 1, 4 + step % 4, GARBAGE, 0.0, 1.0)
            yield step, PipelineOps(*(np.append(column, one) for column, one in zip(ops, pause, strict=True)))

    (finding,) = opened(collecting())
    assert finding.cause == "python_stall"


def test_a_single_replica_is_compared_with_its_own_past() -> None:
    (finding,) = opened(pipeline_steps(slow((0, 1), by=1.5, since=14), dp=1, steps=24))
    assert (finding.kind, finding.subject.group) == ("straggler", "dp 0 stage 1")


def test_ranks_that_work_as_one_are_one_worker() -> None:
    (finding,) = opened(pipeline_steps(slow((1, 1), by=1.5), ranks=4))
    assert finding.subject.rank == (1 * 4 + 1) * 4


def test_a_fault_that_ends_is_closed() -> None:
    detector = PipelineDetector("c", "j")
    bad = slow((1, 1), by=1.5)
    steps = pipeline_steps(lambda step, *rest: bad(step, *rest) if step < 10 else 1.0, steps=24)
    said = [f for step, ops in steps for f in detector.update(1000 * (step + 1), step, ops)]
    assert [f.state for f in said if f.state in ("open", "close")] == ["open", "close"]


def test_workers_that_are_missing_in_a_step_do_not_disturb_it() -> None:
    def torn() -> Iterator[tuple[int, PipelineOps]]:
        for step, ops in pipeline_steps(slow((1, 2), by=1.4)):
            kept = ~((ops.dp == 3) & (ops.stage == step % 4)) & ~((ops.dp == 2) & (ops.kind == 1) & (step == 5))
            yield step, PipelineOps(*(column[kept] for column in ops))

    assert {f.subject.group for f in opened(torn())} == {"dp 1 stage 2"}


def test_the_replay_of_a_healthy_pipeline_is_its_known_time() -> None:
    """1F1B of S equal stages and M microbatches: (M + S - 1) times forward and backward of one."""
    _, ops = next(pipeline_steps(noise=0.0, microbatches=8))
    cells = grid(ops, 0.05)
    assert cells is not None
    assert cells.time(cells.durations) == pytest.approx((8 + 4 - 1) * 0.3)


def test_orders_that_contradict_each_other_have_no_time() -> None:
    durations = np.ones((1, 2, 2, 1))
    order = np.array([[[1, 0], [0, 1]]])
    assert np.isnan(pipeline_time(durations, order))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(4)), st.floats(1e-6, 1e6))
def test_neither_names_nor_units_matter(seed: int, names: list[int], unit: float) -> None:
    plain = opened(pipeline_steps(slow((1, 2), by=1.5), seed=seed, steps=6))
    renamed = (
        (step, ops._replace(dp=np.array(names)[ops.dp], duration=ops.duration * unit, start=ops.start * unit))
        for step, ops in pipeline_steps(slow((1, 2), by=1.5), seed=seed, steps=6)
    )
    assert [f.subject.rank for f in opened(renamed)] == [f.subject.rank for f in plain] == [2 * 4 + 1]


def test_the_lower_median_prefers_the_faster_of_two() -> None:
    assert lower_median(np.array([[2.0, np.nan], [1.0, 5.0]]), 0).tolist() == [1.0, 5.0]


def test_coherence_of_noise_is_none() -> None:
    assert coherence(np.exp(np.random.default_rng(1).normal(0, 0.3, (8, 4, 2, 16)))) < 0.2
