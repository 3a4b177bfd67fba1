"""The lines of an incident: short head, no noise where nothing is known, a check before anything is taken out."""

import msgspec
import pytest

from lockstep.analyze.report import RunVerdict, _summary
from lockstep.words import incident_text
from schemas import Incident
from schemas.finding import Evidence, Subject

RANK = Incident(
    cluster="c", ts_ms=1, id="i", revision=1, change="update", state="confirmed", kind="straggler", scope="rank",
    cause="gpu_degraded", confidence=0.52, runner_up="gpu_contention", severity="critical", job="steps",
    culprits=(Subject(scope="rank", job="steps", rank=7),), victims=15, slowdown=1.5, onset_ms=1000, detected_ms=2000,
    onset_step=3, detected_step=9,
    summary="rank 7 (GPU unknown) holds up 15 ranks by 3 ms a step, job 1.50 times slower: GPU computes slower than "
    "its own past at equal clocks and load in job steps, since 00:00:01 UTC (step 3)",
    evidence=(Evidence(text="word " * 60),),
    action="Drain the node, run a GEMM check on this GPU, replace it if it stays slow.",
)  # fmt: skip
DEAD = Incident(
    cluster="c", ts_ms=1, id="i", revision=1, change="update", state="confirmed", kind="hardware", scope="gpu",
    cause="gpu_lost", confidence=0.9, severity="critical", onset_ms=1000, detected_ms=2000,
    culprits=(Subject(scope="gpu", node="n1", gpu="GPU-00000000-0000-4000-8000-000000000001"),),
    summary="GPU fell off the bus: XID 79 (GPU has fallen off the bus), since 00:00:01 UTC",
    action="Drain and power-cycle the node, then inspect the GPU.",
)  # fmt: skip


def test_the_head_is_short_and_repeats_nothing_of_the_lines_below() -> None:
    head = incident_text(RANK, width=200).splitlines()[0]
    assert head == "CRITICAL straggler: rank 7 holds up 15 ranks by 3 ms a step, job 1.50 times slower"
    assert incident_text(DEAD, width=200).splitlines()[0] == (
        "CRITICAL hardware, a GPU on n1: XID 79 (GPU has fallen off the bus)"
    )


def test_an_untimed_run_tells_steps_and_no_moments() -> None:
    text = incident_text(RANK, timed=False, width=100)
    assert "UTC" not in text
    assert "since      step 3, detected step 9" in text
    assert "since" not in incident_text(DEAD, timed=False, width=100)
    assert _summary(RunVerdict(None, "j", False, []), DEAD).endswith("(GPU has fallen off the bus)")
    assert _summary(RunVerdict(None, "j", False, []), RANK).endswith("since step 3")


def test_an_unsure_verdict_asks_for_a_check_and_a_sure_one_acts() -> None:
    assert "do         Check first: run a GEMM check" in incident_text(RANK, width=200)
    sure = msgspec.structs.replace(RANK, confidence=0.6)
    assert "do         Drain the node" in incident_text(sure, width=200)


def test_without_a_cause_the_share_says_what_is_sure() -> None:
    unknown = msgspec.structs.replace(RANK, cause="unknown", confidence=0.85, runner_up="host_cpu")
    why = "why        unknown: the cause is not known (85% sure of who, perhaps host_cpu)\n"
    assert why in incident_text(unknown, width=200)
    nobody = msgspec.structs.replace(unknown, culprits=(), runner_up=None)
    assert "(85% sure that something is wrong)\n" in incident_text(nobody, width=200)


def test_no_impact_line_where_nobody_is_known_to_wait() -> None:
    assert "impact" not in incident_text(DEAD, width=100)
    one = msgspec.structs.replace(RANK, victims=1, slowdown=None)
    assert "impact     1 rank waits\n" in incident_text(one, width=100)


def test_one_thing_has_one_name() -> None:
    worker = msgspec.structs.replace(RANK, summary="worker 7 takes 2.10 times as long for a batch")
    assert "who        worker 7\n" in incident_text(worker, width=100)
    assert "GPU unknown" not in incident_text(RANK, width=100)


@pytest.mark.parametrize("width", [40, 72, 100])
def test_lines_are_no_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, incident_text(RANK, width=width).splitlines())) <= width
