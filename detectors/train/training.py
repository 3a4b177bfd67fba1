"""A forest from what a fleet did, and what it would have said of a part of it that it was not trained on.

Both parts go node by node through the detector that judges live, so baselines, settling and freezing are what they are
there: `Past.take` gathers healthy rows, `Trial.take` goes on with the same nodes and counts the forest's alarms.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from detectors.forest.model import Forest, Training, train
from detectors.forest.scoring import JUDGED_METRICS
from detectors.node.alarm import ALARM, FINDINGS
from detectors.node.detector import NodeDetector, NodeVerdict
from detectors.node.deviation import Deviation
from detectors.node.gpu_columns import SCORED_NAMES
from detectors.node.records import Scores
from detectors.train.healthy import Troubles
from schemas.frame import NodeFrame

ROWS = 300_000
"""Healthy rows that are kept to train on, drawn evenly from all there are: 60 MB. The tail of p-values is fitted to the
outermost hundredth of nine tenths of them, 2,700 rows."""

SHARES = (0.1, 0.01, 0.001)
"""Of healthy rows so many should have p-values at or below so much, or fewer."""


class _Node(NodeDetector):
    """The live detector of a node, which shows what it saw."""

    def __init__(self, cluster: str, node: str, model: Forest, findings: float) -> None:
        super().__init__(cluster, node, model, findings)
        self._seen: tuple[Deviation, Scores] | None = None

    def show(self, frame: NodeFrame) -> tuple[NodeVerdict, tuple[Deviation, Scores] | None]:
        """The verdict on a frame, and the deviations and scores it came from; None for a frame that was passed over."""
        self._seen = None
        return self.update(frame), self._seen

    def _score(self, tick: Deviation) -> Scores:
        self._seen = tick, super()._score(tick)
        return self._seen[1]


class Past:
    """Healthy rows of a fleet: feed each node's frames in order. `share` is the part of them that is kept.

    `model` is the forest whose p-values say when a baseline stands still, as they would live. `findings` is the budget
    of alarms.
    """

    def __init__(
        self,
        model: Forest,
        troubles: Troubles,
        random: np.random.Generator,
        share: float = 1.0,
        findings: float = FINDINGS,
    ) -> None:
        self._model, self._findings = model, findings
        self._troubles, self._random, self._share = troubles, random, share
        self._nodes: dict[tuple[str, str], _Node] = {}
        self._z = [np.zeros((0, len(SCORED_NAMES)), dtype=np.float32)]
        self._residual, self._missing = list(self._z), [np.zeros(0, dtype=np.float32)]
        self.gpus: set[tuple[str, str]] = set()
        self.ticks = self.left_out = self.not_judged = self.healthy = self.kept = 0
        """Ticks of GPUs: all, in trouble, healthy but not judged yet, healthy and judged, kept of those."""

    def take(self, frame: NodeFrame) -> None:
        """One frame, newer than those of its node before it; another is passed over."""
        node = self._nodes.get((frame.cluster, frame.node))
        if node is None:
            node = _Node(frame.cluster, frame.node, self._model, self._findings)
            self._nodes[frame.cluster, frame.node] = node
        _, seen = node.show(frame)
        if seen is None:
            return
        tick, _ = seen
        healthy = self._troubles.healthy(frame.ts_ms, frame.node, frame.rack, tick.jobs)
        judged = tick.judged >= JUDGED_METRICS
        wanted = judged & healthy
        self.gpus.update((frame.node, uuid) for uuid in tick.uuids)
        self.ticks += len(healthy)
        self.left_out += int((~healthy).sum())
        self.not_judged += int((healthy & ~judged).sum())
        self.healthy += int(wanted.sum())
        if self._share < 1:
            wanted &= self._random.random(len(wanted)) < self._share
        if wanted.any():
            self.kept += int(wanted.sum())
            self._z.append(tick.scored[wanted])
            self._residual.append(tick.residual[wanted])
            self._missing.append(tick.missing_share[wanted])

    def train(self, training: Training, name: str) -> Forest:
        """A forest on the rows kept; raises ModelError where they are too few."""
        z, residual, missing = (np.concatenate(rows) for rows in (self._z, self._residual, self._missing))
        return train(z, residual, missing, training, self._random, name)

    def trial(self, model: Forest) -> "Trial":
        """Go on with the same nodes, judged by `model`."""
        nodes: dict[tuple[str, str], _Node] = {}
        for (cluster, name), old in self._nodes.items():
            nodes[cluster, name] = node = _Node(cluster, name, model, self._findings)
            node.restore(old.learning(), None)
        return Trial(model, nodes, self._troubles, self._findings)


class Alarm(NamedTuple):
    """A finding of the forest on a GPU that nothing is known of."""

    node: str
    gpu: str
    ts_ms: int
    summary: str


class Trial:
    """What a model says of healthy ticks: whose alarms there would have been, and how its p-values are spread."""

    def __init__(
        self, model: Forest, nodes: Mapping[tuple[str, str], _Node], troubles: Troubles, findings: float
    ) -> None:
        self.model, self._findings = model, findings
        self._nodes, self._troubles = dict(nodes), troubles
        self._below = np.zeros(len(SHARES), dtype=np.int64)
        self.alarms: list[Alarm] = []
        self.judged = 0
        """Ticks of healthy GPUs that had a p-value."""

    def take(self, frame: NodeFrame) -> None:
        """One frame, as for `Past.take`."""
        key = (frame.cluster, frame.node)
        if key not in self._nodes:
            self._nodes[key] = _Node(*key, self.model, self._findings)
        verdict, seen = self._nodes[key].show(frame)
        if seen is None:
            return
        tick, scores = seen
        healthy = self._troubles.healthy(frame.ts_ms, frame.node, frame.rack, tick.jobs)
        p = scores.p[healthy & ~np.isnan(scores.p)]
        self.judged += len(p)
        self._below += [(p <= share).sum() for share in SHARES]
        well = {uuid for uuid, is_healthy in zip(tick.uuids, healthy.tolist(), strict=True) if is_healthy}
        self.alarms += [
            Alarm(frame.node, finding.subject.gpu, finding.onset_ms, finding.summary)
            for finding in verdict.findings
            if finding.state == "open" and finding.detector == ALARM.detector and finding.subject.gpu in well
        ]

    @property
    def shares(self) -> dict[float, float]:
        """Of the healthy ticks, how many had p-values at or below each of SHARES; nothing where there were none."""
        return (
            {share: int(n) / self.judged for share, n in zip(SHARES, self._below, strict=True)} if self.judged else {}
        )
