"""Every detector of a node or rack through the checks that all must pass."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from node_frames import COLUMN, node_frames, rack_frame
from slow_frames import MARGIN, ROWS, slow_node, slow_rack

from detectors.checks import CHECKS, Case, Saved
from detectors.drift.gpu import GpuDrift
from detectors.drift.rack import RackDrift
from detectors.node.detector import NodeDetector
from detectors.rack.detector import RackDetector
from detectors.train.fleet import simulated_forest
from schemas import NodeFrame, RackFrame
from schemas.matrix import Matrix
from schemas.record import Record


class NodeProbe:
    def __init__(self) -> None:
        self.detector = NodeDetector("c", "n1", _model())

    def feed(self, item: NodeFrame) -> Sequence[Record]:
        verdict = self.detector.update(item)
        return [*verdict.features, *verdict.findings, *([verdict.baselines] if verdict.baselines else [])]

    def save(self) -> Saved:
        return (self.detector.learning(), self.detector.decisions())

    def restore(self, saved: Saved) -> Sequence[Record]:
        return self.detector.restore(*saved)


class RackProbe:
    def __init__(self) -> None:
        self.detector = RackDetector("c", "r1")

    def feed(self, item: RackFrame) -> Sequence[Record]:
        return self.detector.update(item).findings

    def save(self) -> Saved:
        return (self.detector.learning(), self.detector.decisions())

    def restore(self, saved: Saved) -> Sequence[Record]:
        return self.detector.restore(*saved)


class DriftProbe:
    """The slow trends of a node's GPUs, or of a rack."""

    def __init__(self, make: Callable[[], GpuDrift | RackDrift]) -> None:
        self.detector = make()

    def feed(self, item: Any) -> Sequence[Record]:
        return self.detector.update(item)

    def save(self) -> Saved:
        return (self.detector.learning(), self.detector.decisions())

    def restore(self, saved: Saved) -> Sequence[Record]:
        return self.detector.restore(*saved)


@cache
def _model() -> Any:
    return simulated_forest(seed=3, rows=20_000)


def _blank(frame: Any) -> Any:
    sections = {
        name: Matrix.of(m.rows, m.columns, np.full((len(m.rows), len(m.columns)), np.nan))
        for name, m in frame.sections.items()
    }
    return msgspec.structs.replace(frame, sections=sections)


def _shuffle(frame: Any, random: np.random.Generator) -> Any:
    sections = {}
    for name, matrix in frame.sections.items():
        rows, columns = random.permutation(len(matrix.rows)), random.permutation(len(matrix.columns))
        sections[name] = Matrix.of(
            [matrix.rows[i] for i in rows],
            [matrix.columns[i] for i in columns],
            matrix.values()[rows][:, columns],
        )
    frame = msgspec.structs.replace(frame, sections=sections)
    if isinstance(frame, NodeFrame):
        order = random.permutation(len(frame.gpus))
        frame = msgspec.structs.replace(frame, gpus=tuple(frame.gpus[i] for i in order))
    return frame


def _node_trouble(values: np.ndarray, second: int) -> None:
    """A slow clock, then thermal throttling, then a GPU that says nothing."""
    if 220 <= second < 240:
        values[1, COLUMN["sm_clock_mhz"]], values[1, COLUMN["power_w"]] = 1300.0, 450.0
    if 245 <= second < 260:
        values[2, COLUMN["clocks_event_reasons"]] = 0x64
    if 265 <= second < 280:
        values[3] = np.nan
    values[0, COLUMN["ecc_sbe_count"]] = second // 50


def _rack_trouble(second: int) -> RackFrame:
    random = np.random.default_rng(second)
    if 120 <= second < 140:
        return rack_frame(second, random, {"flow_lpm": 50.0, "return_c": 62.0})
    if 180 <= second < 185:
        return rack_frame(second, random, leaks={"t2/Manifold": 1.0})
    return rack_frame(second, random)


def _still(values: np.ndarray, day: float) -> None:
    values[:, MARGIN] = 25


def _wearing(values: np.ndarray, day: float) -> None:
    """Rows of two GPUs are remapped again and again."""
    values[2:, ROWS] = int(day > 0.5) + int(day > 1) + int(day > 1.6)


CASES: dict[str, Callable[[], Case]] = {
    "node": lambda: Case(
        NodeProbe,
        node_frames(range(300), seed=None),
        node_frames(range(320), change=_node_trouble),
        _blank,
        _shuffle,
        limit_bytes=24_000,
    ),
    "rack": lambda: Case(
        RackProbe,
        [rack_frame(i) for i in range(200)],
        [_rack_trouble(i) for i in range(260)],
        _blank,
        _shuffle,
        limit_bytes=12_000,
    ),
    "gpu drift": lambda: Case(
        lambda: DriftProbe(lambda: GpuDrift("c", "n1")),
        list(slow_node(1.5, _still)),
        list(slow_node(2.2, _wearing)),
        _blank,
        _shuffle,
        limit_bytes=8_000,
    ),
    "rack drift": lambda: Case(
        lambda: DriftProbe(lambda: RackDrift("c", "r1")),
        list(slow_rack(1.5, lambda day: 40.0, lambda day: 44.0)),
        list(slow_rack(2.5, lambda day: 40 + 22 * day, lambda day: 44 + 22 * day)),
        _blank,
        _shuffle,
        limit_bytes=4_000,
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_conforms(name: str, check: str) -> None:
    CHECKS[check](CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_the_lively_input_leads_to_findings(name: str) -> None:
    """Otherwise the checks above would say little."""
    case = CASES[name]()
    probe = case.make()
    said = [record for item in case.lively for record in probe.feed(item) if record.topic == "findings"]
    assert len({record.id for record in said}) >= 2  # type: ignore[attr-defined]
