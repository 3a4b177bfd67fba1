"""Rules on what is read seldom, and on readings that contradict each other, through the node's detector."""

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np
import pytest
from node_frames import COLUMN, IDLE, T0, Change, node_frames

from detectors.forest.model import Forest
from detectors.node.detector import NodeDetector
from detectors.train.fleet import simulated_forest
from schemas import Event, Finding, NodeFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import names

SECONDS = 100


@cache
def model() -> Forest:
    return simulated_forest(seed=3, rows=20_000)


def feed(node: NodeDetector, frames: Sequence[NodeFrame]) -> list[Finding]:
    return [finding for frame in frames for finding in node.update(frame).findings]


def warm() -> NodeDetector:
    node = NodeDetector("c", "n1", model())
    node.restore(*_warm())
    return node


@cache
def _warm() -> tuple[bytes, bytes]:
    node = NodeDetector("c", "n1", model())
    feed(node, node_frames(range(SECONDS)))
    return node.learning(), node.decisions()


def put(gpu: int, **readings: float) -> Change:
    def change(values: np.ndarray, second: int) -> None:
        for name, value in readings.items():
            values[gpu, COLUMN[name]] = value

    return change


SLOW_COLUMNS = names("gpu")


def slow_frame(second: int, **readings: float) -> NodeFrame:
    """A working node's frame in a tick in which everything is read; GPU 1 reads `readings` besides."""
    frame = node_frames(range(second, second + 1))[0]
    values = frame.sections["gpu"].select(SLOW_COLUMNS).copy()
    for name, value in readings.items():
        values[:, SLOW_COLUMNS.index(name)] = np.nan
        values[1, SLOW_COLUMNS.index(name)] = value
    matrix = Matrix.of(frame.sections["gpu"].rows, SLOW_COLUMNS, values)
    return msgspec.structs.replace(frame, sections={"gpu": matrix})


@pytest.mark.parametrize(
    ("readings", "detector", "cause"),
    [
        ({"fabric_fault": 1.0}, "fabric", "nvlink_fault"),
        ({"sram_threshold_exceeded": 1.0}, "memory_worn", "gpu_memory_error"),
        ({"memory_unrepairable": 1.0}, "memory_worn", "gpu_memory_error"),
        ({"pcie_width_lanes": 8.0, "pcie_width_most_lanes": 16.0}, "pcie_width", "pcie_degraded"),
    ],
)
def test_what_is_read_every_ten_seconds_leads_to_a_finding(
    readings: dict[str, float], detector: str, cause: str
) -> None:
    frames = node_frames(range(SECONDS, SECONDS + 40))
    for second in range(SECONDS, SECONDS + 40, 10):
        frames[second - SECONDS] = slow_frame(second, **readings)
    said = [f for f in feed(warm(), frames) if f.state == "open"]
    assert [(f.detector, f.cause, f.subject.gpu) for f in said] == [(detector, cause, "GPU-1")]


def test_full_width_and_a_fabric_that_is_whole_are_no_finding() -> None:
    healthy = {"fabric_fault": 0.0, "pcie_width_lanes": 16.0, "pcie_width_most_lanes": 16.0, "memory_unrepairable": 0.0}
    frames = [slow_frame(SECONDS + 10 * i, **healthy) for i in range(4)]
    assert feed(warm(), frames) == []


def test_dead_activity_counters_of_a_busy_gpu_are_a_sensors_fault() -> None:
    dead = put(1, sm_active_ratio=0.0, tensor_active_ratio=0.0, dram_active_ratio=0.0, gpu_utilization_pct=100.0)
    said = feed(warm(), node_frames(range(SECONDS, SECONDS + 40), change=dead))
    assert ("counters_blind", "sensor_fault") in [(f.detector, f.cause) for f in said]


@pytest.mark.parametrize(("margin_c", "said"), [(-5.0, [("gpu_margin", "thermal_throttle", "GPU-1")]), (-2.0, [])])
def test_a_gpu_beyond_its_slowdown_margin_is_hot_and_one_at_its_limit_is_not(
    margin_c: float, said: list[tuple[str, str, str]]
) -> None:
    found = feed(warm(), node_frames(range(SECONDS, SECONDS + 12), change=put(1, thermal_margin_c=margin_c)))
    rules = [f for f in found if f.state == "open" and f.detector == "gpu_margin"]
    assert [(f.detector, f.cause, f.subject.gpu) for f in rules] == said


def test_a_gpu_that_idles_has_no_dead_counters() -> None:
    said = feed(NodeDetector("c", "n1", model()), node_frames(range(90), usual=IDLE))
    assert [f for f in said if f.detector == "counters_blind"] == []


def test_mig_instances_that_are_taken_away_are_no_lost_gpus() -> None:
    def parted(frame: NodeFrame, parts: list[str]) -> NodeFrame:
        gpu = frame.sections["gpu"]
        rows = [*gpu.rows, *parts]
        values = np.concatenate([gpu.values(), np.repeat(gpu.values()[:1], len(parts), axis=0)])
        gpus = (*frame.gpus, *(Gpu(uuid=uuid, parent="GPU-0") for uuid in parts))
        return msgspec.structs.replace(frame, gpus=gpus, sections={"gpu": Matrix.of(rows, gpu.columns, values)})

    detector = NodeDetector("c", "n1", model())
    feed(detector, [parted(frame, ["MIG-1", "GPU-0/gi7"]) for frame in node_frames(range(120))])
    said = feed(detector, [parted(frame, ["MIG-3"]) for frame in node_frames(range(120, 160))])
    assert [f for f in said if f.detector == "vanished"] == []


def test_a_source_that_has_nothing_new_does_not_make_gpus_vanish() -> None:
    detector = warm()
    frames = node_frames(range(SECONDS, SECONDS + 30))
    quiet = [
        msgspec.structs.replace(f, sections={}, missing={"not_new": 4}) if i % 5 else f for i, f in enumerate(frames)
    ]
    assert [f for f in feed(detector, quiet) if f.detector == "vanished"] == []


def test_a_link_finding_is_the_nodes_and_survives_its_restart() -> None:
    def linked(second: int, state: float) -> NodeFrame:
        frame = node_frames(range(second, second + 1))[0]
        links = Matrix.of(["GPU-1/3"], ["state"], [[state]])
        return msgspec.structs.replace(frame, sections=frame.sections | {"nvlink": links})

    first = warm()
    feed(first, [linked(SECONDS, 1.0)])
    second = NodeDetector("c", "n1", model())
    second.restore(first.learning(), first.decisions())
    said = feed(second, [linked(SECONDS + 10, 0.0), linked(SECONDS + 20, 0.0)])
    assert [(f.detector, f.subject.link) for f in said if f.state == "open"] == [("link_down", "GPU-1/3")]


def event(kind: str, **fields: object) -> Event:
    usual = {"cluster": "c", "ts_ms": T0 + SECONDS * 1000, "node": "n1", "run_id": 1, "seq": 7, "gpu": "GPU-1"}
    return msgspec.convert(usual | {"kind": kind} | fields, Event)


def test_a_reset_ends_what_was_wrong_with_the_gpu() -> None:
    node = warm()
    (opened,) = node.note(event("xid", code=95, severity="critical"))
    (closed,) = node.note(event("gpu_reset", seq=8, ts_ms=T0 + (SECONDS + 30) * 1000))
    assert (opened.state, closed.state, closed.id) == ("open", "close", opened.id)


def test_instances_that_were_cut_anew_are_learned_anew() -> None:
    def parted(frame: NodeFrame) -> NodeFrame:
        gpu = frame.sections["gpu"]
        matrix = Matrix.of([*gpu.rows, "MIG-1"], gpu.columns, np.concatenate([gpu.values(), gpu.values()[:1]]))
        gpus = (*frame.gpus, Gpu(uuid="MIG-1", parent="GPU-0", job="job-1"))
        return msgspec.structs.replace(frame, gpus=gpus, sections={"gpu": matrix})

    node = NodeDetector("c", "n1", model())
    feed(node, [parted(frame) for frame in node_frames(range(SECONDS))])
    assert strongest_of(node, parted, "MIG-1")
    node.note(event("mig_changed", gpu="GPU-0", detail={"before": "MIG-1,MIG-2", "now": "MIG-1"}))
    assert not strongest_of(node, parted, "MIG-1", SECONDS + 1)
    assert strongest_of(node, parted, "GPU-0", SECONDS + 2)


def strongest_of(
    node: NodeDetector, parted: Callable[[NodeFrame], NodeFrame], uuid: str, second: int = SECONDS
) -> tuple[str, ...]:
    """What a GPU deviates by, "" where there is no past to deviate from."""
    (frame,) = node_frames(range(second, second + 1))
    told = node.update(parted(frame)).features
    return next(gpu.strongest for features in told for gpu in features.gpus if gpu.uuid == uuid)
