"""One job through its detector: one finding per culprit, whatever the evidence, and no second one after a restart."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from job_records import T0, SmallJob

from detectors.job.detector import JobDetector, JobRecord
from detectors.state import StateError
from schemas import Finding
from schemas.features import GpuFeatures

LATE_US = 30_000.0


def late(rank: int, since: int, us: float = LATE_US) -> object:
    def us_of(tick: int) -> np.ndarray:
        out = np.zeros(16)
        if tick >= since:
            out[rank] = us
        return out

    return us_of


def usual(rank: int) -> GpuFeatures:
    readings = {"sm_clock_mhz": 1900.0, "gpu_utilization_pct": 100.0, "tensor_active_ratio": 0.4}
    return GpuFeatures(uuid=f"GPU-{rank}", rank=rank, readings=readings, centres=readings)


def records(job: SmallJob, tick: int, own: np.ndarray | None = None, features: bool = True) -> list[JobRecord]:
    out: list[JobRecord] = [*job.collectives(tick)]
    if own is not None:
        out += job.steps(tick, own)
    if features:
        out += job.features(tick, usual)
    return out


def feed(detector: JobDetector, tick: int, all_: Sequence[JobRecord]) -> list[Finding]:
    return detector.update(T0 + tick * 1000, all_)


def opened(said: Sequence[Finding]) -> list[tuple[str, str, int | None]]:
    return [(f.kind, f.subject.scope, f.subject.rank) for f in said if f.state == "open"]


def straggling(ticks: int, since: int = 40, rank: int = 6, detector: JobDetector | None = None) -> list[Finding]:
    job, detector = SmallJob(), detector or JobDetector("c", "j")
    job.late_us = late(rank, since)  # type: ignore[assignment]
    return [f for tick in range(ticks) for f in feed(detector, tick, records(job, tick, job.late_us(tick)))]


def test_a_healthy_job_says_nothing() -> None:
    assert straggling(120, since=999) == []


def test_arrival_steps_and_features_are_one_finding() -> None:
    said = straggling(80)
    assert opened(said) == [("straggler", "rank", 6)]
    first, last = said[0], said[-1]
    assert (first.subject.gpu, first.subject.node, first.subject.job) == ("GPU-6", "r01-t01", "j")
    assert first.onset_ms == T0 + 40_000
    assert first.ts_ms <= T0 + 48_000
    assert (last.cause, last.victims) == ("gpu_degraded", 15)
    assert {f.id for f in said} == {first.id}
    text = " ".join(e.text for e in last.evidence)
    assert "came last to" in text
    assert "without its waits, usually" in text


def test_it_closes_when_the_rank_keeps_up_again() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    job.late_us = lambda tick: late(6, 40)(tick if tick < 80 else 0)  # type: ignore[operator]
    said = [f for tick in range(130) for f in feed(detector, tick, records(job, tick, job.late_us(tick)))]
    assert [f.state for f in said if f.state != "heartbeat"] == ["open", "close"]
    assert said[-1].state == "close"


@pytest.mark.parametrize("every", [3, 4])
def test_a_rank_late_now_and_then_is_one_verdict_on_that_rank_and_no_weak_gpu(every: int) -> None:
    """Its whole node comes late to data parallel; the steps know that it is on time between, and what it does then."""
    job, detector = SmallJob(), JobDetector("c", "j")
    stalls = late(6, 40, 300_000.0)
    job.late_us = lambda tick: stalls(tick if tick % every == 0 else 0)  # type: ignore[operator]
    said = [f for tick in range(160) for f in feed(detector, tick, records(job, tick, job.late_us(tick)))]
    assert opened(said) == [("straggler", "rank", 6)]
    assert {f.cause for f in said} == {"sporadic_stall"}
    assert all(f.state != "close" for f in said)


def test_a_rank_that_is_late_because_it_has_more_work_is_never_called_slow() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    job.late_us = late(6, 40)  # type: ignore[assignment]
    said = []
    for tick in range(80):
        work = np.full(16, 8192.0)
        work[6] *= 1.3 if tick >= 40 else 1.0
        frames = [*job.collectives(tick), *job.steps(tick, job.late_us(tick), work), *job.features(tick, usual)]
        said += feed(detector, tick, frames)
    assert opened(said) == [("imbalance", "rank", 6)]
    assert {f.cause for f in said} == {"work_imbalance"}


def test_collectives_alone_are_enough() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    job.late_us = late(6, 40)  # type: ignore[assignment]
    said = [f for tick in range(60) for f in feed(detector, tick, records(job, tick, features=False))]
    assert opened(said) == [("straggler", "rank", 6)]
    assert said[0].cause == "unknown"
    assert said[0].runner_up == "gpu_degraded"


def test_steps_alone_are_enough() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    own = late(6, 100)
    said = [f for t in range(125) for f in feed(detector, t, list(job.steps(t, own(t))))]  # type: ignore[operator]
    assert opened(said) == [("straggler", "rank", 6)]
    assert (said[0].onset_step, said[0].detected_step) == (100, 107)
    assert {f.detected_step for f in said} == {107}


def test_a_whole_node_is_one_finding() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")

    def own(tick: int) -> np.ndarray:
        out = np.zeros(16)
        if tick >= 60:
            out[8:12] = np.random.default_rng(tick).uniform(10_000, 40_000, 4)
        return out

    job.late_us = own
    said = [f for tick in range(110) for f in feed(detector, tick, records(job, tick, own(tick)))]
    last = {f.id: f for f in said}
    still_open = [f for f in last.values() if f.state != "close"]
    assert [(f.subject.scope, f.subject.node) for f in still_open] == [("node", "r01-t02")]


def test_a_slow_link_is_no_straggler() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    job.slow = lambda tick: 3.0 if tick >= 40 else 1.0
    said = [f for tick in range(70) for f in feed(detector, tick, records(job, tick))]
    assert opened(said) == [("slow_link", "job", None)]
    assert said[-1].cause == "fabric_congestion"


def test_a_hang_names_the_rank_that_did_not_enter_and_ends() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    said = []
    for tick in range(90):
        stopped = 40 <= tick < 70

        def look(rank: int, stopped: bool = stopped) -> GpuFeatures:
            readings = {"gpu_utilization_pct": 100.0, "tensor_active_ratio": 0.0 if stopped else 0.4}
            if stopped and rank == 9:
                readings["gpu_utilization_pct"] = 0.0
            return GpuFeatures(uuid=f"GPU-{rank}", rank=rank, readings=readings)

        said += feed(detector, tick, [*job.collectives(tick, stopped), *job.features(tick, look)])
    assert opened(said) == [("hang", "rank", 9)]
    assert said[0].cause == "not_entered"
    assert said[-1].state == "close"


def test_a_hang_of_nobody_in_particular_gives_way_to_one_that_names_the_rank() -> None:
    job, detector, said = SmallJob(), JobDetector("c", "j"), []
    for tick in range(80):
        stopped = tick >= 40

        def look(rank: int, stopped: bool = stopped, tick: int = tick) -> GpuFeatures:
            readings = {"gpu_utilization_pct": 100.0, "tensor_active_ratio": 0.0 if stopped else 0.4}
            marked = ("xid:109@1s",) if rank == 9 and 52 <= tick < 60 else ()
            return GpuFeatures(uuid=f"GPU-{rank}", rank=rank, readings=readings, recent=marked)

        said += feed(detector, tick, [*job.collectives(tick, stopped), *job.features(tick, look)])
    assert opened(said) == [("hang", "job", None), ("hang", "rank", 9)]
    named = next(f for f in said if f.subject.rank == 9)
    assert (named.cause, named.ts_ms) == ("gpu_stuck", T0 + 52_000)
    ended = [f for f in said if f.state == "close"]
    assert [(f.subject.scope, f.ts_ms) for f in ended] == [("job", T0 + 52_000)]  # and the rank's stays to the end


def test_four_late_steps_in_a_row_are_no_reason_yet_to_call_a_gpu_weak() -> None:
    job, detector, said = SmallJob(), JobDetector("c", "j"), []
    us_of = late(9, 130, 25_000.0)
    for tick in range(150):
        said += feed(detector, tick, job.steps(tick, us_of(tick)))  # type: ignore[operator]
    assert opened(said) == [("straggler", "rank", 9)]
    assert said[0].ts_ms >= T0 + 136_000  # eight steps, as for any steady one


def test_a_standstill_is_counted_from_the_last_step_and_not_from_when_its_absent_ranks_were_given_up() -> None:
    job, detector, said = SmallJob(), JobDetector("c", "j"), []
    for tick in range(60):
        stopped = tick > 40
        steps = [] if stopped else job.steps(tick, np.zeros(16))[: 3 if tick == 40 else 4]
        said += feed(detector, tick, [*job.collectives(tick, stopped, (3,) if tick >= 40 else ()), *steps])
    assert opened(said) == [("hang", "node", None)]
    assert said[0].onset_ms == T0 + 40_000
    assert said[0].ts_ms <= T0 + 51_000  # ten steps of a second


def test_stalls_in_bursts_are_the_ranks_and_not_its_nodes_in_turn() -> None:
    job, detector, said = SmallJob(), JobDetector("c", "j"), []
    for tick in range(220):
        own = np.zeros(16)
        own[9] = 60_000.0 if tick >= 120 and tick % 6 < 2 else 0.0
        said += feed(detector, tick, job.steps(tick, own))
    assert opened(said) == [("straggler", "rank", 9)]
    assert said[-1].state != "close"


@pytest.mark.parametrize(("told", "blamed"), [(True, False), (False, True)])
def test_a_node_that_is_late_as_far_as_its_work_is_more_is_not_blamed(told: bool, blamed: bool) -> None:
    """Sequences of unlike length: the node of the longest comes last, one of them by chance more often."""
    job, detector, said = SmallJob(), JobDetector("c", "j"), []

    def more(tick: int) -> np.ndarray:
        rng = np.random.default_rng(tick)
        part = np.where(np.arange(4) == (2 if rng.random() < 0.7 else rng.integers(4)), rng.uniform(0.03, 0.06), 0.0)
        return np.repeat(part, 4) * (tick >= 50)

    job.late_us = lambda tick: 1e6 * more(tick)
    for tick in range(110):
        steps = job.steps(tick, np.zeros(16), 8192 * (1 + more(tick)) if told else 8192.0)
        said += feed(detector, tick, [*job.collectives(tick), *steps])
    assert any(f.kind == "straggler" for f in said) == blamed


def test_repeats_of_frames_teach_and_say_nothing() -> None:
    job, detector, twice = SmallJob(), JobDetector("c", "j"), JobDetector("c", "j")
    job.late_us = late(6, 40)  # type: ignore[assignment]
    for tick in range(70):
        all_ = records(job, tick, job.late_us(tick))
        assert feed(detector, tick, all_) == feed(twice, tick, [*all_, *all_])


@pytest.mark.parametrize("kill_at", [39, 41, 47, 52, 60])
@pytest.mark.parametrize("keeps_learning", [True, False])
def test_a_restart_never_opens_a_second_finding(kill_at: int, keeps_learning: bool) -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    job.late_us = late(6, 40)  # type: ignore[assignment]
    said: list[Finding] = []
    learning, decisions = detector.learning(), detector.decisions()
    for tick in range(110):
        if tick == 30:
            learning = detector.learning()
        found = feed(detector, tick, records(job, tick, job.late_us(tick)))
        if found:
            decisions = detector.decisions()
        said += found
        if tick == kill_at:
            detector = JobDetector("c", "j")
            again = detector.restore(learning if keeps_learning else {}, decisions)
            assert {f.id for f in again} <= {f.id for f in said}
    assert len({f.id for f in said}) <= 1
    if keeps_learning:
        assert opened(said) == [("straggler", "rank", 6)]
        revisions = [f.revision for f in said]
        assert revisions == sorted(set(revisions))


def test_learning_comes_in_pieces_and_a_broken_one_is_refused() -> None:
    detector = JobDetector("c", "j")
    straggling(40, detector=detector)
    pieces = detector.learning()
    assert set(pieces) == {"", "streams/0"}
    assert max(map(len, pieces.values())) < 512 * 1024
    with pytest.raises(StateError):
        JobDetector("c", "j").restore({"": b"\x93nonsense"}, None)
    with pytest.raises(StateError):
        JobDetector("c", "j").restore({}, msgspec.msgpack.encode({"version": 99}))


def test_records_that_make_no_sense_hurt_nothing() -> None:
    job, detector = SmallJob(), JobDetector("c", "j")
    for tick in range(5):
        broken = [
            msgspec.structs.replace(f, communicators=f.communicators[:1], ts_ms=T0 + tick * 1000)
            for f in job.collectives(tick)
        ]
        assert feed(detector, tick, broken) == []
    assert feed(detector, 6, []) == []
