"""Deviations from a GPU's own past: a job's start is normal, a fault is not, whatever comes and goes."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from node_frames import COLUMN, IDLE, WORKING, node_frames

from detectors.node import gpu_columns
from detectors.node.baseline import WARM_UP_TICKS
from detectors.node.deviation import GAP_MS, RETIRE_MS, Deviation, Deviations
from detectors.node.gpu_columns import COMPARED_AT, COUNTED, RAW_AT, SETTLE_HEAT_TICKS, SETTLE_TICKS, WAITING
from detectors.state import StateError
from schemas import NodeFrame
from schemas.matrix import Matrix

POWER, HEAT = COMPARED_AT["power_w"], COMPARED_AT["temperature_c"]


def run(deviations: Deviations, frames: Sequence[NodeFrame]) -> Deviation:
    for frame in frames:
        tick = deviations.update(frame)
        deviations.learn(np.ones(len(tick.uuids), dtype=bool))
    return tick


def largest(tick: Deviation) -> float:
    return float(np.nanmax(np.abs(tick.z), initial=0))


def test_a_gpu_at_work_is_compared_with_its_own_past() -> None:
    deviations = Deviations()
    tick = run(deviations, node_frames(range(400)))
    assert not np.isnan(tick.z[:, [POWER, HEAT]]).any()
    assert largest(tick) < 5
    hot = node_frames(range(400, 403), change=lambda values, _: values.__setitem__((2, COLUMN["temperature_c"]), 80))
    tick = run(deviations, hot)
    assert tick.z[2, HEAT] > 15
    assert abs(tick.z[1, HEAT]) < 5
    assert tick.centre[2, HEAT] == pytest.approx(60, rel=0.01)


def test_fast_metrics_settle_before_heat_does() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(10), usual=IDLE, job=""))
    warm = 10 + SETTLE_TICKS + WARM_UP_TICKS
    assert np.isnan(run(deviations, node_frames(range(10, warm))).z[:, POWER]).all()
    tick = run(deviations, node_frames(range(warm, warm + 10)))
    assert not np.isnan(tick.z[:, POWER]).any()
    assert np.isnan(tick.z[:, HEAT]).all()
    end = 11 + SETTLE_HEAT_TICKS + WARM_UP_TICKS
    assert not np.isnan(run(deviations, node_frames(range(warm + 10, end))).z[:, HEAT]).any()


def test_a_gpu_seen_for_the_first_time_is_taken_for_settled() -> None:
    deviations = Deviations()
    assert np.isnan(run(deviations, node_frames(range(WARM_UP_TICKS))).z[:, HEAT]).all()
    assert not np.isnan(run(deviations, node_frames(range(WARM_UP_TICKS, WARM_UP_TICKS + 1))).z[:, HEAT]).any()


def test_a_job_whose_name_comes_late_is_the_work_that_was_there() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(60), job=""))
    assert not np.isnan(run(deviations, node_frames(range(60, 61), job="a")).z[:, POWER]).any()
    assert np.isnan(run(deviations, node_frames(range(61, 62), job="b")).z[:, POWER]).all()


def test_a_jobs_start_and_end_are_no_anomalies() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(300), usual=IDLE, job=""))
    assert (deviations.state == gpu_columns.IDLE).all()
    worst = 0.0
    for start in (300, 700, 1100):
        for frame in node_frames(range(start, start + 200)):
            worst = max(worst, largest(run(deviations, [frame])))
        assert (deviations.state == gpu_columns.WORKING).all()
        for frame in node_frames(range(start + 200, start + 400), usual=IDLE, job=""):
            worst = max(worst, largest(run(deviations, [frame])))
    assert worst < 6


def test_a_job_that_does_not_compute_waits() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(10), usual=IDLE | {"memory_used_mib": 60000.0}))
    assert (deviations.state == WAITING).all()


def test_another_job_starts_the_baselines_of_work_anew_and_a_pause_does_not() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(300)))
    run(deviations, node_frames(range(300, 330), usual=IDLE, job=""))
    same = run(deviations, node_frames(range(330, 350)))
    assert not np.isnan(same.z[:, POWER]).any()
    other = run(deviations, node_frames(range(350, 380), job="job-2", usual=WORKING | {"power_w": 420.0}))
    assert np.isnan(other.z[:, POWER]).all()
    learned = run(deviations, node_frames(range(380, 460), job="job-2", usual=WORKING | {"power_w": 420.0}))
    assert largest(learned) < 6


def test_gpus_of_a_node_may_work_for_different_jobs() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(300), gpus=2, job=["a", "b"]))
    tick = run(deviations, node_frames(range(300, 330), gpus=2, job=["a", "c"]))
    assert not np.isnan(tick.z[0, POWER])
    assert np.isnan(tick.z[1, POWER])


def test_a_pause_of_the_agent_settles_anew() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(300)))
    after = 300 + GAP_MS // 1000 + 1
    assert np.isnan(run(deviations, node_frames(range(after, after + 5))).z[:, POWER]).all()
    assert not np.isnan(run(deviations, node_frames(range(after + 5, after + 30))).z[:, POWER]).any()


def test_a_restarted_agent_yields_no_increase_of_counters() -> None:
    deviations = Deviations()
    errors = COUNTED.index("nvlink_error_count")

    def grow(values: np.ndarray, second: int) -> None:
        values[:, COLUMN["nvlink_error_count"]] = 10 * second

    tick = run(deviations, node_frames(range(20), change=grow))
    assert (tick.grown[:, errors] == 10).all()
    tick = run(deviations, node_frames(range(20, 21), change=grow, run_id=2))
    assert np.isnan(tick.grown[:, errors]).all()


def test_a_gpu_that_leaves_the_frame_is_remembered_as_missing_for_an_hour() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(200), gpus=4))
    tick = run(deviations, node_frames(range(200, 205), gpus=3))
    assert tick.uuids == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    assert tick.here.tolist() == [True, True, True, False]
    assert tick.known[3]
    assert tick.missing_share.tolist() == [0, 0, 0, 1]
    later = 205 + RETIRE_MS // 1000
    assert run(deviations, node_frames(range(later, later + 2), gpus=3)).uuids == ("GPU-0", "GPU-1", "GPU-2")


def test_a_gpu_that_leaves_the_frame_changes_nobodys_work() -> None:
    deviations = Deviations()
    jobs = ["", "a", "a"]
    run(deviations, node_frames(range(5), gpus=3, usual=IDLE, job=jobs))
    (frame,) = node_frames(range(5, 6), gpus=3, usual=IDLE, job=jobs)
    matrix = frame.sections["gpu"]
    rest = Matrix.of(matrix.rows[1:], matrix.columns, matrix.values()[1:])
    tick = run(deviations, [msgspec.structs.replace(frame, gpus=frame.gpus[1:], sections={"gpu": rest})])
    assert dict(zip(tick.uuids, tick.state.tolist(), strict=True)) == {
        "GPU-1": WAITING, "GPU-2": WAITING, "GPU-0": gpu_columns.IDLE,
    }  # fmt: skip


def test_a_gpu_that_comes_back_finds_its_baseline() -> None:
    deviations = Deviations()
    run(deviations, node_frames(range(300), gpus=4))
    run(deviations, node_frames(range(300, 330), gpus=3))
    tick = run(deviations, node_frames(range(330, 333), gpus=4))
    assert tick.centre[3, POWER] == pytest.approx(690, rel=0.02)


def test_an_expected_metric_that_stops_is_absent_and_one_that_never_was_is_not() -> None:
    deviations = Deviations()

    def without(values: np.ndarray, second: int) -> None:
        values[:, COLUMN["dram_active_ratio"]] = np.nan
        if second >= 100:
            values[1, COLUMN["temperature_c"]] = 255.0

    tick = run(deviations, node_frames(range(102), change=without))
    assert tick.absent.sum() == 1
    assert tick.absent[1, RAW_AT["temperature_c"]]
    assert tick.out_of_range == 1


def test_a_checkpoint_continues_identically() -> None:
    frames = node_frames(range(260), gpus=3)
    deviations = Deviations()
    run(deviations, frames[:200])
    revived = Deviations()
    revived.restore(deviations.save())
    assert revived.save() == deviations.save()
    for frame in frames[200:]:
        ours, theirs = run(deviations, [frame]), run(revived, [frame])
        assert (ours.uuids, ours.jobs, ours.out_of_range) == (theirs.uuids, theirs.jobs, theirs.out_of_range)
        for name in ours.told.dtype.names or ():
            np.testing.assert_array_equal(ours.told[name], theirs.told[name], err_msg=name)


@pytest.mark.parametrize("bad", [b"", b"\xc1", msgspec.msgpack.encode({"version": 2})])
def test_a_foreign_checkpoint_is_refused(bad: bytes) -> None:
    with pytest.raises(StateError, match="cannot be continued"):
        Deviations().restore(bad)


def test_a_node_without_gpus_is_no_error() -> None:
    frame = msgspec.structs.replace(node_frames(range(1))[0], gpus=(), sections={})
    tick = run(Deviations(), [frame])
    assert tick.uuids == ()
