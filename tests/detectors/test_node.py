"""The node's detector: what each event and reading leads to, and what leads to nothing."""

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_frames import COLUMN, COLUMNS, IDLE, T0, WORKING, Change, node_frames

from detectors.event_rules import QUIET_MS, XID_CAUSES
from detectors.forest.model import Forest
from detectors.node.alarm import ALARM
from detectors.node.detector import NodeDetector, NodeVerdict
from detectors.node.records import PUBLISHED
from detectors.state import StateError
from detectors.train.fleet import simulated_forest
from schemas import Event, Finding, NodeFrame
from schemas.causes import CAUSES
from schemas.codec import decode, encode
from schemas.finding import Subject
from schemas.matrix import Matrix


@cache
def model() -> Forest:
    return simulated_forest(seed=3, rows=20_000)


def detector() -> NodeDetector:
    return NodeDetector("c", "n1", model())


def feed(node: NodeDetector, frames: Sequence[NodeFrame]) -> list[Finding]:
    return [finding for frame in frames for finding in node.update(frame).findings]


def warm(gpus: int = 4, seconds: int = 260) -> NodeDetector:
    node = detector()
    node.restore(*_warm(gpus, seconds))
    return node


@cache
def _warm(gpus: int, seconds: int) -> tuple[bytes, bytes]:
    node = detector()
    assert feed(node, node_frames(range(seconds), gpus=gpus)) == []
    return node.learning(), node.decisions()


def put(gpu: int, **readings: float) -> Change:
    def change(values: np.ndarray, second: int) -> None:
        for name, value in readings.items():
            values[gpu, COLUMN[name]] = value

    return change


def brief(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    return [(f.state, f.kind, f.cause, f.subject.gpu) for f in findings if f.state != "heartbeat"]


def event(second: int, kind: str = "xid", severity: str = "critical", seq: int = 1, **fields: object) -> Event:
    return msgspec.convert(
        {"cluster": "c", "ts_ms": T0 + second * 1000, "node": "n1", "run_id": 1, "seq": seq, "kind": kind,
         "severity": severity, **fields},
        Event,
    )  # fmt: skip


# Features


def test_every_gpu_gets_features_with_or_without_a_job() -> None:
    node = detector()
    for frame in node_frames(range(260), job=["a", "a", "b", ""]):
        verdict = node.update(frame)
    assert [(f.job, [g.uuid for g in f.gpus], f.key) for f in verdict.features] == [
        ("a", ["GPU-0", "GPU-1"], "a"),
        ("b", ["GPU-2"], "b"),
        ("", ["GPU-3"], "n1"),
    ]
    features = verdict.features[0]
    assert (features.ts_ms, features.run_id, features.seq, features.rack) == (frame.ts_ms, 1, 259, "r1")
    assert features.host == {"cpu_utilization_pct": 20.0}
    assert features.model == model().name
    gpu = features.gpu(1)
    assert (gpu.rank, gpu.pci) == (1, "0000:02:00.0")
    assert 0.2 < gpu.score < 0.7
    assert gpu.p_value is not None
    assert gpu.p_value > 1e-3
    assert set(gpu.z) <= set(PUBLISHED)
    assert gpu.readings["power_w"] == pytest.approx(690, rel=0.05)
    assert gpu.readings["clocks_event_reasons"] == 4.0
    assert gpu.centres["temperature_c"] == pytest.approx(60, rel=0.01)
    assert len(gpu.strongest) == 3
    assert decode(encode(features)) == features


def test_before_the_warm_up_there_is_no_p_value() -> None:
    gpu = detector().update(node_frames(range(1))[0]).features[0].gpu(0)
    assert gpu.p_value is None
    assert gpu.z == {}
    assert gpu.score != gpu.score


def test_repeats_and_older_frames_give_an_empty_verdict() -> None:
    node = detector()
    frames = node_frames(range(5))
    feed(node, frames)
    assert node.update(frames[4]) == NodeVerdict()
    assert node.update(frames[2]) == NodeVerdict()
    assert node.update(node_frames(range(5, 6), run_id=0)[0]) == NodeVerdict()
    assert node.update(node_frames(range(1), run_id=2)[0]).features


def test_baselines_come_once_a_minute_and_not_with_all_nodes_at_once() -> None:
    seconds = []
    for name in ("n1", "n2", "n3", "n4"):
        node = NodeDetector("c", name, model())
        seconds.append(
            [frame.ts_ms // 1000 for frame in node_frames(range(200), gpus=1) if node.update(frame).baselines]
        )
    for ours in seconds:
        assert np.diff(ours).tolist() == [60] * (len(ours) - 1)
        assert len(ours) in (3, 4)
    assert len({ours[0] for ours in seconds}) > 1


def test_baselines_carry_centres_and_spreads_by_name() -> None:
    node = detector()
    verdicts = [node.update(frame) for frame in node_frames(range(300))]
    baselines = [verdict.baselines for verdict in verdicts if verdict.baselines][-1]
    assert baselines.centre.rows == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    np.testing.assert_allclose(baselines.centre.column("power_w"), 690, rtol=0.02)
    assert (baselines.spread.column("power_w") > 0).all()


# What is normal


@pytest.mark.parametrize("seed", range(2))
def test_a_healthy_node_says_nothing(seed: int) -> None:
    assert feed(detector(), node_frames(range(600), gpus=2, seed=seed)) == []


def test_the_software_power_cap_is_no_fault() -> None:
    assert feed(warm(), node_frames(range(260, 400), change=put(1, clocks_event_reasons=4, power_cap_share=1.0))) == []


def test_jobs_that_come_and_go_are_no_fault() -> None:
    node = detector()
    said = feed(node, node_frames(range(250), usual=IDLE, job=""))
    said += feed(node, node_frames(range(250, 500), job="a"))
    said += feed(node, node_frames(range(500, 520), usual=IDLE, job=""))
    said += feed(
        node, node_frames(range(520, 800), job="b", usual=WORKING | {"power_w": 430.0, "sm_active_ratio": 0.4})
    )
    assert said == []


def test_all_gpus_of_the_job_together_are_not_the_nodes_fault() -> None:
    """They wait for somebody else: no culprit here."""
    waits = WORKING | {"power_w": 430.0, "tensor_active_ratio": 0.1, "sm_active_ratio": 0.2, "dram_active_ratio": 0.1}
    node = warm()
    assert feed(node, node_frames(range(260, 400), usual=waits)) == []
    features = node.update(node_frames(range(400, 401), usual=waits)[0]).features[0]
    assert all(gpu.p_value is not None and gpu.p_value < 1e-4 for gpu in features.gpus)


def test_victims_beside_a_culprit_are_not_blamed() -> None:
    """Three of four GPUs wait for the fourth, which works as ever."""
    waits = WORKING | {"power_w": 430.0, "tensor_active_ratio": 0.1, "sm_active_ratio": 0.2}

    def one_works(values: np.ndarray, second: int) -> None:
        for name in ("power_w", "tensor_active_ratio", "sm_active_ratio"):
            values[0, COLUMN[name]] = WORKING[name]

    assert feed(warm(), node_frames(range(260, 400), usual=waits, change=one_works)) == []


def test_healthy_gpus_beside_as_many_throttled_ones_are_not_blamed() -> None:
    """All wait for the two hot ones: the median of the four lies between, and is nobody's deviation."""
    waits = WORKING | {"nvlink_rx_bytes_per_s": 1.7e11, "nvlink_tx_bytes_per_s": 1.7e11, "power_average_w": 600.0}

    def two_are_hot(values: np.ndarray, second: int) -> None:
        for gpu in (2, 3):
            values[gpu, COLUMN["software_thermal_share"]] = 0.9
            values[gpu, COLUMN["clocks_event_reasons"]] = 0x24
            values[gpu, COLUMN["sm_clock_mhz"]] = 1500.0

    said = feed(warm(), node_frames(range(260, 340), usual=waits, change=two_are_hot))
    assert {f.subject.gpu for f in said} == {"GPU-2", "GPU-3"}
    assert {f.cause for f in said} == {"thermal_throttle"}


# Rules on readings


def test_sustained_thermal_throttling_is_found_with_its_evidence() -> None:
    hot = put(2, clocks_event_reasons=0x64, software_thermal_share=0.8, temperature_c=88, sm_clock_mhz=1500)
    node = warm()
    said = feed(node, node_frames(range(260, 300), change=hot))
    assert brief(said)[0] == ("open", "degradation", "thermal_throttle", "GPU-2")
    opened = said[0]
    assert opened.onset_ms == T0 + 260_000
    assert opened.ts_ms <= T0 + 270_000
    assert any("SM clock 1500 MHz, usually 1" in evidence.text for evidence in opened.evidence)
    closed = [f for f in feed(node, node_frames(range(300, 345))) if f.detector == "thermal" and f.state == "close"]
    assert [f.id for f in closed] == [opened.id]


def test_a_brush_with_a_limit_is_no_fault() -> None:
    def now_and_then(values: np.ndarray, second: int) -> None:
        if second % 3 == 0:
            values[2, COLUMN["clocks_event_reasons"]] = 0x24

    assert feed(warm(), node_frames(range(260, 360), change=now_and_then)) == []


@pytest.mark.parametrize(
    ("readings", "kind", "cause"),
    [
        ({"clocks_event_reasons": 0x84}, "degradation", "power_brake"),
        ({"power_brake_share": 0.9}, "degradation", "power_brake"),
        ({"hardware_thermal_share": 0.5}, "degradation", "thermal_throttle"),
        ({"remap_failed": 1.0}, "hardware", "gpu_memory_error"),
        ({"ecc_dbe_count": 1.0}, "hardware", "gpu_memory_error"),
        ({"remapped_uncorrectable_count": 2.0}, "hardware", "gpu_memory_error"),
        ({"recovery_action": 1.0}, "hardware", "unknown"),
        ({"temperature_c": 255.0, "memory_temperature_c": 255.0}, "hardware", "sensor_fault"),
    ],
)
def test_a_reading_leads_to_a_finding_about_that_gpu_only(readings: dict[str, float], kind: str, cause: str) -> None:
    said = brief(feed(warm(), node_frames(range(260, 300), change=put(1, **readings))))
    assert said[0] == ("open", kind, cause, "GPU-1")
    assert {gpu for *_, gpu in said} == {"GPU-1"}


@pytest.mark.parametrize(
    ("counter", "cause"), [("nvlink_error_count", "nvlink_fault"), ("pcie_replay_count", "pcie_degraded")]
)
def test_errors_that_go_on_are_found_and_a_single_burst_is_not(counter: str, cause: str) -> None:
    def once(values: np.ndarray, second: int) -> None:
        values[3, COLUMN[counter]] = 2.0 if second >= 270 else 0.0

    def again(values: np.ndarray, second: int) -> None:
        values[3, COLUMN[counter]] = 2.0 + 3 * (second - 300)

    node = warm()
    assert feed(node, node_frames(range(260, 300), change=once)) == []
    assert brief(feed(node, node_frames(range(300, 330), change=again)))[0] == ("open", "hardware", cause, "GPU-3")


def test_drain_of_peer_traffic_only_is_no_finding() -> None:
    assert feed(warm(), node_frames(range(260, 300), change=put(1, recovery_action=3.0))) == []


# The forest


def test_a_gpu_unlike_its_past_and_its_neighbours_is_found_within_fifteen_seconds() -> None:
    node = warm()
    said = feed(
        node, node_frames(range(260, 300), change=put(1, sm_clock_mhz=1400, power_w=480, tensor_active_ratio=0.3))
    )
    assert brief(said) == [("open", "degradation", "unknown", "GPU-1")]
    assert said[0].ts_ms <= T0 + 275_000
    assert said[0].detector == ALARM.detector
    assert any("usually" in evidence.text for evidence in said[0].evidence)
    assert brief(feed(node, node_frames(range(300, 340)))) == [("close", "degradation", "unknown", "GPU-1")]


def test_the_evidence_says_each_metrics_part_of_the_score() -> None:
    said = feed(warm(), node_frames(range(260, 300), change=put(1, sm_clock_mhz=1400, tensor_active_ratio=0.3)))
    parts = [int(e.text.rpartition(", ")[2].partition("%")[0]) for e in said[0].evidence]
    assert parts == sorted(parts, reverse=True)
    assert 50 < sum(parts) <= 101


def test_a_budget_of_hardly_any_finding_gives_none() -> None:
    node = NodeDetector("c", "n1", model(), findings=1e-8)
    node.restore(*_warm(4, 260))
    slow = put(1, sm_clock_mhz=1400, power_w=480, tensor_active_ratio=0.3)
    assert feed(node, node_frames(range(260, 300), change=slow)) == []


def test_an_alarm_names_the_cause_where_the_deviations_show_one() -> None:
    hot = put(1, sm_clock_mhz=1400, power_w=480, temperature_c=92, memory_temperature_c=99)
    said = brief(feed(warm(), node_frames(range(260, 300), change=hot)))
    assert ("open", "degradation", "thermal_throttle", "GPU-1") in said


def test_an_idle_gpu_without_a_job_is_judged_by_itself() -> None:
    node = detector()
    assert feed(node, node_frames(range(260), usual=IDLE, job="")) == []
    said = feed(node, node_frames(range(260, 300), usual=IDLE, job="", change=put(0, power_w=180, temperature_c=55)))
    assert brief(said) == [("open", "degradation", "unknown", "GPU-0")]


def test_baselines_stand_still_during_an_alarm() -> None:
    node = warm()
    slow = put(1, sm_clock_mhz=1400, power_w=480)
    for frame in node_frames(range(260, 660), change=slow):
        verdict = node.update(frame)
    gpu = verdict.features[0].gpu(1)
    assert gpu.centres["sm_clock_mhz"] == pytest.approx(1900, rel=0.01)
    assert gpu.z["sm_clock_mhz"] < -10


# GPUs that vanish


@pytest.mark.parametrize(("missing", "cause"), [({}, "sensor_fault"), ({"lost": len(COLUMNS)}, "gpu_lost")])
def test_a_gpu_whose_readings_stop_is_found_in_three_seconds(missing: dict[str, int], cause: str) -> None:
    def gone(values: np.ndarray, second: int) -> None:
        values[2] = np.nan

    node = warm()
    frames = [msgspec.structs.replace(f, missing=missing) for f in node_frames(range(260, 275), change=gone)]
    said = feed(node, frames)
    assert brief(said)[0] == ("open", "hardware", cause, "GPU-2")
    assert said[0].ts_ms == T0 + 262_000
    assert ("close", "hardware", cause, "GPU-2") in brief(feed(node, node_frames(range(275, 290))))


def test_a_gpu_that_left_the_frame_is_found_too() -> None:
    said = brief(feed(warm(), node_frames(range(260, 270), gpus=3)))
    assert said == [("open", "hardware", "sensor_fault", "GPU-3")]


def test_all_gpus_gone_at_once_is_one_finding_about_the_node() -> None:
    def gone(values: np.ndarray, second: int) -> None:
        values[:] = np.nan

    said = feed(warm(), node_frames(range(260, 280), change=gone))
    assert brief(said) == [("open", "hardware", "sensor_fault", "")]
    assert said[0].subject == Subject(scope="node", node="n1")


# Events


@pytest.mark.parametrize(
    ("code", "cause"),
    [(48, "gpu_memory_error"), (64, "gpu_memory_error"), (74, "nvlink_fault"), (79, "gpu_lost"),
     (95, "gpu_memory_error"), (109, "gpu_stuck"), (119, "gpu_lost"), (149, "nvlink_fault"), (9999, "unknown")],
)  # fmt: skip
def test_a_critical_xid_is_a_hardware_finding_at_once(code: int, cause: str) -> None:
    node = warm(seconds=2)
    said = node.note(event(1, code=code, pci="0000:02:00.0", text=f"NVRM: Xid: {code}"))
    assert brief(said) == [("open", "hardware", cause, "GPU-1")]
    assert said[0].onset_ms == T0 + 1000
    assert said[0].evidence[0].text == f"NVRM: Xid: {code}"


def test_every_cause_of_the_table_is_one_of_the_vocabulary() -> None:
    assert set(XID_CAUSES.values()) <= set(CAUSES)


@pytest.mark.parametrize("severity", ["info", "warning"])
def test_an_xid_that_is_an_applications_doing_blames_no_hardware(severity: str) -> None:
    node = warm(seconds=2)
    assert node.note(event(1, code=31, severity=severity, gpu="GPU-1")) == ()
    gpu = node.update(node_frames(range(5, 6))[0]).features[0].gpus[1]
    assert gpu.recent == ("xid:31@4s",)


def test_recent_events_fade() -> None:
    node = warm(seconds=2)
    for i in range(20):
        node.note(event(i, code=31, severity="info", gpu="GPU-1", seq=i))
    gpu = node.update(node_frames(range(30, 31))[0]).features[0].gpus[1]
    assert len(gpu.recent) == 8
    assert node.update(node_frames(range(400, 401))[0]).features[0].gpus[1].recent == ()


def test_a_flood_of_one_xid_is_one_finding_that_counts() -> None:
    node = warm(seconds=2)
    said = [f for i in range(500) for f in node.note(event(2, code=95, gpu="GPU-1", seq=i))]
    assert brief(said) == [("open", "hardware", "gpu_memory_error", "GPU-1")]
    later = feed(node, node_frames(range(3, 15)))
    assert {f.state for f in later} == {"heartbeat"}
    assert later[-1].score == 500.0


@pytest.mark.parametrize("folded", ["9" * 30, "9" * 5000, "-1", "1e5", "²", ""])
def test_a_flood_that_counts_what_cannot_be_is_one_event(folded: str) -> None:
    """Else one record of that kind would keep the state of its node from ever being stored again."""
    node = detector()
    for i in range(3):
        node.note(event(i, code=48, gpu="GPU-1", seq=i, detail={"folded": folded}))
    assert node.decisions()


def test_a_repeated_event_is_not_counted_twice() -> None:
    node = warm(seconds=2)
    one = event(1, code=95, gpu="GPU-1", boot_id="b", kmsg_seq=7)
    again = event(1, code=95, gpu="GPU-1", boot_id="b", kmsg_seq=7, seq=99)
    assert len(node.note(one)) == 1
    assert node.note(again) == ()
    assert feed(node, node_frames(range(3, 15)))[-1].score == 1.0


def test_an_event_that_was_over_long_ago_opens_nothing() -> None:
    node = detector()
    hour = QUIET_MS // 1000
    feed(node, node_frames(range(hour + 10, hour + 12)))
    assert node.note(event(0, code=79, gpu="GPU-1")) == ()


def test_a_finding_from_an_event_closes_after_an_hour_of_quiet() -> None:
    node = warm(seconds=2)
    node.note(event(2, code=48, gpu="GPU-1"))
    hour = QUIET_MS // 1000
    assert brief(feed(node, node_frames(range(3, 10)))) == []
    assert brief(feed(node, node_frames(range(hour, hour + 5)))) == [("close", "hardware", "gpu_memory_error", "GPU-1")]


def test_a_lost_gpu_is_one_finding_until_it_answers_again() -> None:
    node = warm()

    def gone(values: np.ndarray, second: int) -> None:
        values[2] = np.nan

    said = [*node.note(event(260, code=79, pci="0000:03:00.0")), *node.note(event(260, "gpu_lost", gpu="GPU-2", seq=2))]
    said += feed(node, node_frames(range(260, 340), change=gone))
    assert brief(said) == [("open", "hardware", "gpu_lost", "GPU-2")]
    assert brief(feed(node, node_frames(range(340, 355)))) == [("close", "hardware", "gpu_lost", "GPU-2")]


def test_a_gpu_that_was_reset_is_well_until_it_is_said_anew() -> None:
    node = warm(seconds=2)
    first = node.note(event(2, code=48, gpu="GPU-1"))
    closed = node.note(event(3, "gpu_back", "info", gpu="GPU-1", seq=2))
    assert brief(closed) == [("close", "hardware", "gpu_memory_error", "GPU-1")]
    second = node.note(event(4, code=48, gpu="GPU-1", seq=3))
    assert second[0].id != first[0].id


@pytest.mark.parametrize(
    ("fields", "subject", "kind", "cause"),
    [
        ({"kind": "link_down", "detail": {"link": "mlx5_0/1"}}, Subject(scope="link", node="n1", link="mlx5_0/1"),
         "hardware", "fabric_link"),
        ({"kind": "sxid", "code": 20034}, Subject(scope="node", node="n1"), "hardware", "nvlink_fault"),
        ({"kind": "leak"}, Subject(scope="node", node="n1"), "cooling", "leak"),
        ({"kind": "sxid", "code": 20034, "detail": {"switch": "3", "link": "30"}},
         Subject(scope="link", node="n1", link="nvswitch3/30"), "hardware", "nvlink_fault"),
        ({"kind": "pcie_aer", "pci": "0000:aa:00.0"}, Subject(scope="link", node="n1", link="0000:aa:00.0"),
         "hardware", "pcie_degraded"),
    ],
)  # fmt: skip
def test_events_without_a_gpu_are_about_their_link_or_node(
    fields: dict[str, object], subject: Subject, kind: str, cause: str
) -> None:
    (said,) = warm(seconds=2).note(event(1, **fields))  # type: ignore[arg-type]
    assert (said.subject, said.kind, said.cause) == (subject, kind, cause)


def link_event(second: int, kind: str) -> Event:
    severity = "critical" if kind == "link_down" else "info"
    return event(second, kind, severity, detail={"link": "mlx5_0/1"}, seq=second)


def test_a_link_that_comes_back_is_well_and_one_that_flaps_is_not() -> None:
    node = warm(seconds=2)
    assert brief(node.note(link_event(2, "link_down")))[0][0] == "open"
    assert brief(node.note(link_event(4, "link_up")))[0][0] == "close"
    node.note(link_event(10, "link_down"))
    node.note(link_event(12, "link_up"))
    (third,) = node.note(link_event(20, "link_down"))
    assert third.confidence >= 0.9
    assert node.note(link_event(22, "link_up")) == ()
    assert brief(feed(node, node_frames(range(620, 640))))[-1][0] == "close"


def test_what_the_driver_asks_for_opens_nothing_beside_the_error_it_speaks_of() -> None:
    node = warm(seconds=2)
    (said,) = node.note(event(2, code=149, gpu="GPU-1", detail={"action": "RESET_GPU", "then": "CONTACT_SUPPORT"}))
    assert any("XID 149 asks to reset the GPU" in item.text for item in said.evidence)
    assert node.note(event(3, code=154, gpu="GPU-1", seq=2)) == ()
    assert brief(node.note(event(3, code=154, gpu="GPU-0", seq=3))) == [("open", "hardware", "unknown", "GPU-0")]


# Kills


def test_a_kill_with_only_decisions_left_opens_nothing_a_second_time() -> None:
    hot = put(2, clocks_event_reasons=0x64)
    node = warm()
    said = [*node.note(event(259, code=48, gpu="GPU-1")), *feed(node, node_frames(range(260, 290), change=hot))]
    revived = detector()
    again = revived.restore(None, node.decisions())
    newest = {f.id: f for f in said}
    assert {f.id: f for f in again} == newest
    later = feed(revived, node_frames(range(290, 360), change=hot))
    assert {f.id for f in later} <= set(newest)
    assert "open" not in {f.state for f in later}
    assert revived.note(event(259, code=48, gpu="GPU-1")) == ()


def test_a_kill_between_saving_decisions_and_sending_loses_no_finding() -> None:
    node = warm()
    hot = put(2, clocks_event_reasons=0x64)
    for frame in node_frames(range(260, 290), change=hot):
        findings = node.update(frame).findings
        if findings:
            break
    revived = detector()
    assert set(revived.restore(node.learning(), node.decisions())) == set(findings)
    assert revived.update(frame) == NodeVerdict()


@pytest.mark.parametrize("bad", [b"", b"\xc1", b"\x80"])
def test_foreign_states_are_refused(bad: bytes) -> None:
    with pytest.raises(StateError):
        detector().restore(bad, None)
    with pytest.raises(StateError):
        detector().restore(None, bad)


def test_states_are_small() -> None:
    node = warm(gpus=8)
    for i in range(100):
        node.note(event(i, code=48, gpu=f"GPU-{i % 8}", seq=i, text="x" * 120))
    assert len(node.learning()) < 48_000
    assert len(node.decisions()) < 16_000


WILD = np.array([np.nan, 0, -1, 1, 100, 255, 4294967295, 9.2e18, np.inf, -np.inf], dtype=np.float32)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_readings_whatever_are_survived(seed: int) -> None:
    """Garbage in every column, GPUs that come and go, pauses: no exception, and all that is said can be encoded."""
    random = np.random.default_rng(seed)
    node, second = detector(), 0
    for _ in range(30):
        second += int(random.choice([1, 1, 1, 50, 5000]))
        count = int(random.integers(0, 4))
        frame = node_frames(range(second, second + 1), gpus=max(count, 1))[0]
        matrix = Matrix.of(frame.sections["gpu"].rows, COLUMNS, random.choice(WILD, (max(count, 1), len(COLUMNS))))
        gone = {"gpus": (), "sections": {}} if count == 0 else {"sections": {"gpu": matrix}}
        verdict = node.update(msgspec.structs.replace(frame, **gone))
        for record in (*verdict.features, *verdict.findings, *([verdict.baselines] if verdict.baselines else [])):
            assert decode(encode(record)).identity == record.identity
    again = detector()
    again.restore(node.learning(), node.decisions())
