"""A host beside its own past: ill hosts are found, busy ones, changes of work and short stalls are not."""

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from node_frames import IDLE, T0, node_frames

from detectors.forest.model import Forest
from detectors.node.detector import NodeDetector
from detectors.train.fleet import simulated_forest
from schemas import Finding, NodeFrame
from schemas.finding import Subject
from schemas.matrix import Matrix

USUAL = {
    "cpu_pressure_pct": 2.0, "cpu_steal_pct": 0.0, "memory_pressure_pct": 0.0, "memory_full_pressure_pct": 0.0,
    "io_pressure_pct": 1.0, "io_full_pressure_pct": 0.5, "memory_available_mib": 800_000.0,
    "memory_total_mib": 1_000_000.0, "cpu_utilization_pct": 30.0, "load_1m": 40.0, "node_power_w": 7000.0,
}  # fmt: skip
POWER = {"node_power_w": 7000.0}
Change = Callable[[int], dict[str, float]]


@cache
def model() -> Forest:
    return simulated_forest(seed=3, rows=20_000)


def detector() -> NodeDetector:
    return NodeDetector("c", "n1", model())


def host_frames(seconds: range, change: Change = lambda second: {}, usual: dict[str, float] = USUAL) -> list[NodeFrame]:
    """A node of which only the host is seen; noise of 2 %."""
    random = np.random.default_rng(1)
    noise = random.normal(1, 0.02, (seconds.stop, len(usual)))
    frames = []
    for second in seconds:
        row = dict(zip(usual, np.array(list(usual.values())) * noise[second], strict=True)) | change(second)
        host = Matrix.of(["n1"], list(row), [list(row.values())])
        frames.append(
            NodeFrame(cluster="c", ts_ms=T0 + second * 1000, node="n1", run_id=1, seq=second, sections={"host": host})
        )
    return frames


def opened(node: NodeDetector, frames: Sequence[NodeFrame]) -> list[Finding]:
    return [f for frame in frames for f in node.update(frame).findings if f.state == "open"]


@pytest.mark.parametrize(
    ("ill", "cause"),
    [
        ({"memory_pressure_pct": 40.0}, "host_memory"),
        ({"io_full_pressure_pct": 60.0}, "host_io"),
        ({"cpu_steal_pct": 35.0}, "host_cpu"),
        ({"cpu_pressure_pct": 70.0}, "host_cpu"),
        ({"memory_available_mib": 20_000.0}, "host_memory"),
    ],
)
def test_a_host_that_falls_ill_is_found_in_a_minute_and_well_again_after_half_of_one(
    ill: dict[str, float], cause: str
) -> None:
    node = detector()
    assert opened(node, host_frames(range(300))) == []
    (said,) = opened(node, host_frames(range(300, 370), lambda second: ill))
    assert (said.cause, said.kind, said.subject) == (cause, "degradation", Subject(scope="node", node="n1"))
    assert T0 + 340_000 < said.ts_ms < T0 + 360_000
    assert said.evidence[0].metric in ill
    states = [f.state for frame in host_frames(range(370, 420)) for f in node.update(frame).findings]
    assert states[-1] == "close"


def test_a_checkpoint_is_no_illness() -> None:
    writes = {"io_pressure_pct": 80.0, "io_full_pressure_pct": 70.0, "memory_pressure_pct": 20.0}
    node = detector()
    assert opened(node, host_frames(range(900), lambda second: writes if second % 300 > 270 else {})) == []


def test_what_is_unusual_the_good_way_or_only_busy_opens_nothing() -> None:
    better = {"cpu_pressure_pct": 0.0, "io_pressure_pct": 0.0, "memory_available_mib": 990_000.0}
    busy = {"cpu_utilization_pct": 100.0, "load_1m": 2000.0}
    for change in (better, busy, {"cpu_pressure_pct": 8.0}):
        node = detector()
        assert opened(node, host_frames(range(300))) == []
        assert opened(node, host_frames(range(300, 500), lambda second, change=change: change)) == []  # type: ignore[misc]


def test_a_host_that_was_always_under_pressure_is_as_usual() -> None:
    assert opened(detector(), host_frames(range(600), usual=USUAL | {"io_pressure_pct": 60.0})) == []


def test_power_that_falls_at_work_is_found_and_the_start_and_end_of_work_are_not() -> None:
    def power(second: int) -> dict[str, float]:
        share = 0.36 if second < 200 or second >= 900 else 1.0
        return {"node_power_w": 7000.0 * share * (1 + 0.02 * np.sin(second * 1.7))}

    assert opened(detector(), host_frames(range(1200), power, POWER)) == []
    node = detector()
    assert opened(node, host_frames(range(700), power, POWER)) == []
    lower = host_frames(range(700, 800), lambda second: {"node_power_w": power(second)["node_power_w"] * 0.7}, POWER)
    (said,) = opened(node, lower)
    assert said.cause == "unknown"
    assert "node_power_w" in said.evidence[0].text


def test_another_job_is_other_work() -> None:
    def with_host(frames: list[NodeFrame], watts: float) -> list[NodeFrame]:
        hosts = host_frames(range(frames[0].seq, frames[-1].seq + 1), usual={"node_power_w": watts})
        return [
            msgspec.structs.replace(frame, sections=frame.sections | host.sections)
            for frame, host in zip(frames, hosts, strict=True)
        ]

    node = detector()
    assert opened(node, with_host(node_frames(range(200), job="a"), 7000.0)) == []
    assert opened(node, with_host(node_frames(range(200, 260), usual=IDLE, job=""), 2500.0)) == []
    assert opened(node, with_host(node_frames(range(260, 500), job="b"), 5000.0)) == []


def test_a_kill_in_the_middle_of_a_minute_changes_nothing() -> None:
    ill = host_frames(range(300, 380), lambda second: {"memory_pressure_pct": 40.0})
    whole, first = detector(), detector()
    for frame in host_frames(range(300)) + ill[:30]:
        whole.update(frame)
        first.update(frame)
    second = detector()
    second.restore(first.learning(), first.decisions())
    rest = [[f.id for f in node.update(frame).findings] for node in (whole, second) for frame in ill[30:]]
    assert rest[:50] == rest[50:]
    assert any(rest)


def test_slow_heat_of_the_cpus_is_found_by_the_margin_that_is_left() -> None:
    def margin(second: int) -> dict[str, float]:
        return {"temperature_margin_c": 40.0 - (35.0 if second >= 1800 else 0.0)} if second % 10 == 0 else {}

    node = detector()
    (said,) = opened(node, host_frames(range(2000), margin, USUAL | {"temperature_margin_c": float("nan")}))
    assert (said.detector, said.cause) == ("host.heat", "host_cpu")
