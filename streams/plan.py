"""What a worker runs: every agent with its topics and the detectors it opens."""

from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from detectors.drift.gpu import GpuDrift
from detectors.drift.rack import RackDrift
from detectors.drift.with_drift import NodeWithDrift, RackWithDrift
from detectors.forest.model import Forest, ModelError
from detectors.incident.book import IncidentBook
from detectors.job.detector import JobDetector
from detectors.node.alarm import FINDINGS
from detectors.node.detector import NodeDetector, NodeVerdict
from detectors.rack.detector import RackDetector
from runtime.errors import UserError
from schemas import NodeFrame
from streams import incident, job, node, rack
from streams.lane import Key
from streams.models import Models
from streams.worker import Plan

MODEL = "fleet.forest"
"""The forest that ships with the detectors."""


class _Node(NodeDetector):
    """A node whose ticks are scored by the forest of each."""

    def __init__(self, key: Key, models: Models, findings: float) -> None:
        super().__init__(key.cluster, key.name, models.own, findings)
        self._models = models

    def update(self, frame: NodeFrame) -> NodeVerdict:
        self.use(self._models.at(frame.cluster, frame.ts_ms))
        return super().update(frame)


def detection(models: Forest | Models, findings: float = FINDINGS) -> Plan:
    """All of detection, every GPU scored by one forest, or by that of the tick; `findings` per 10,000 GPU-days is the
    budget of its alarms."""
    of_tick = models if isinstance(models, Models) else Models(models)

    gpus: dict[str, dict[str, GpuDrift]] = {}

    def of_node(key: Key) -> NodeWithDrift:
        known = gpus.setdefault(key.cluster, {})
        return NodeWithDrift(_Node(key, of_tick, findings), GpuDrift(key.cluster, key.name, known))

    def of_job(key: Key) -> JobDetector:
        return JobDetector(key.cluster, key.name)

    def of_rack(key: Key) -> RackWithDrift:
        return RackWithDrift(RackDetector(key.cluster, key.name), RackDrift(key.cluster, key.name))

    return {
        "node": (node.TOPICS, partial(node.NodePartition, make=of_node)),
        "job": (job.TOPICS, partial(job.JobPartition, make=of_job)),
        "rack": (rack.TOPICS, partial(rack.RackPartition, make=of_rack)),
        "incident": (incident.TOPICS, partial(incident.IncidentPartition, make=IncidentBook)),
    }


def load_model(path: str) -> Forest:
    """The forest in the file at `path`, or the one that ships where `path` is empty; UserError where it is none.

    It has scored once: what numba compiles at the first call is compiled before the worker joins its group.
    """
    try:
        forest = Forest.from_bytes(Path(path).read_bytes() if path else files("detectors").joinpath(MODEL).read_bytes())
        row = np.zeros((1, len(forest.schema)), dtype=np.float32)
        forest.p_value(row, forest.score(row))
        return forest
    except (OSError, ModelError) as error:
        said = f"{type(error).__name__ if isinstance(error, OSError) else error}"
        raise UserError(f"forest model {path or MODEL}: {said}; give another by --model-path") from None
