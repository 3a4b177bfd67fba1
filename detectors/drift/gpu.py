"""Which GPUs of a node drift towards a failure: slow trends of each, and events that come back.

A GPU is known by its UUID, which the driver reads from the GPU itself (inventory says its serial number): its past
stays with it when the node is renamed, when it is seated anew, and when it moves to a node that the same process
watches. Elsewhere its trends begin anew; what it counts for life, as row remaps, it brings along.

Readings are taken once a minute of event time (of NVLinks the worst that came since), and judged once an hour.
"""

from functools import partial
from typing import Literal

import msgspec
import numpy as np

from detectors.condition import Columns, Ranges, blank
from detectors.drift.gpu_read import (
    BER_AT,
    BESIDE_AT,
    COLUMNS,
    CORRECTED_AT,
    COUNTED_PER_HOUR,
    FEC_AT,
    MARGIN_AT,
    PENDING,
    READ,
    REMAPPED,
    REMAPS_AT,
    REPLAYS_AT,
    LinkMinute,
    Past,
    Totals,
    margins,
)
from detectors.drift.ladder import HOUR_MS, MINUTE_MS, RUNGS, Ladder, LadderState
from detectors.drift.limits import GPU_LIMITS, Limit
from detectors.drift.repeats import REMAPS, WAITING, XIDS, Repeats
from detectors.drift.watch import HEARTBEAT_MS, Watched, close_others, drifts, heartbeats, observed, rule
from detectors.episode import Episode, Episodes, Verdict
from detectors.node.roster import is_instance
from detectors.state import unpack
from schemas.event import Event
from schemas.finding import Finding, Subject
from schemas.frame import NodeFrame

STEPPED_BACK_MIN = 60
"""A frame that is newer by its number and an hour older by its time: the clock had been wrong until then."""

RULES = (*(rule(limit) for limit in GPU_LIMITS), REMAPS, XIDS, WAITING)

MOVED_MS = 600_000
"""A GPU that another node's agent saw within ten minutes is still there: two GPUs of one name are two."""

PHYSICAL = "GPU-"
"""How the UUID of a GPU begins; another name (an address) says nothing beyond its node."""


class _Learning(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    number: tuple[int, int]
    minute: int
    ladder: LadderState
    totals: dict[str, Past]
    repeats: dict[str, Repeats]
    pci: dict[str, str]
    pending: tuple[Episode, ...]


class GpuDrift:
    """The slow trends of one node's GPUs. `known` is shared by the nodes of a process: who saw each GPU last."""

    def __init__(self, cluster: str, node: str, known: "dict[str, GpuDrift] | None" = None) -> None:
        self._node = node
        self._known = {} if known is None else known
        self._episodes = Episodes(cluster, HEARTBEAT_MS)
        self._columns, self._ranges = Columns(READ), Ranges("gpu", READ)
        self._ladder = Ladder(COLUMNS, COUNTED_PER_HOUR)
        self._links, self._totals = LinkMinute(), Totals()
        self._repeats: dict[str, Repeats] = {}
        self._pci: dict[str, str] = {}
        self._minute, self._number = -1, (-1, -1)

    def update(self, frame: NodeFrame) -> tuple[Finding, ...]:
        """Take one frame; mostly nothing is to be said."""
        minute, number = frame.ts_ms // MINUTE_MS, (frame.run_id, frame.seq)
        if number <= self._number:
            return ()
        self._number = number
        if (links := frame.sections.get("nvlink")) is not None:
            self._links.add(links)
        if minute <= self._minute - STEPPED_BACK_MIN:
            self._ladder.rewind(frame.ts_ms)
        elif minute <= self._minute:
            return ()
        self._minute = minute
        ended = self._ladder.advance(frame.ts_ms)
        self._read(frame)
        said = self._judge(frame.ts_ms, ended) if ended else []
        return (*said, *heartbeats(self._episodes, RULES, frame.ts_ms))

    def note(self, event: Event) -> None:
        """Remember an XID; whether it came too often is judged with the hour."""
        if gpu := event.gpu or self._pci.get(event.pci, ""):
            self._repeats.setdefault(gpu, Repeats()).xid(event)

    def learning(self) -> bytes:
        return msgspec.msgpack.encode(
            _Learning(
                number=self._number,
                minute=self._minute,
                ladder=self._ladder.save(),
                totals=self._totals.save(),
                repeats={gpu: repeats for gpu, repeats in self._repeats.items() if repeats != Repeats()},
                pci=self._pci,
                pending=self._episodes.pending(),
            )
        )

    def decisions(self) -> bytes:
        return self._episodes.save()

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states, as `detectors.node.detector.NodeDetector.restore`."""
        pending: tuple[Episode, ...] = ()
        if learning is not None:
            old = unpack(learning, _Learning)
            self._ladder.restore(old.ladder)
            self._totals.restore(old.totals)
            self._number, self._minute, self._repeats = old.number, old.minute, old.repeats
            self._pci, pending = old.pci, old.pending
            for gpu in self._ladder.rows:
                other = self._known.get(gpu)
                if other is None or (other.seen_ms(gpu) or 0) <= (self.seen_ms(gpu) or 0):
                    self._known[gpu] = self
        return self._episodes.resume(decisions, pending)

    def seen_ms(self, gpu: str) -> int | None:
        """When this node last had the GPU."""
        return self._ladder.seen_ms(gpu)

    def _read(self, frame: NodeFrame) -> None:
        """Take the minute's numbers in."""
        self._pci = {gpu.pci: gpu.parent or gpu.uuid for gpu in frame.gpus if gpu.pci} or self._pci
        worst, matrix = self._links.take(), frame.sections.get("gpu")
        if matrix is None:
            return
        raw, _ = self._ranges.apply(self._columns.select(matrix))
        gpus = matrix.rows
        if any(map(is_instance, gpus)):
            rows = [i for i, name in enumerate(gpus) if not is_instance(name)]
            raw, gpus = raw[rows], tuple(gpus[i] for i in rows)
        for gpu in gpus:
            self._welcome(gpu, frame.ts_ms)
        values = blank(len(gpus), COLUMNS)
        values[:, [MARGIN_AT, BESIDE_AT]] = margins(raw)
        rates, before = self._totals.rates(frame.ts_ms, gpus, raw)
        values[:, [REPLAYS_AT, CORRECTED_AT]] = rates[:, :REMAPS_AT]
        if worst:
            values[:, [BER_AT, FEC_AT]] = [worst.get(gpu, (np.nan, np.nan)) for gpu in gpus]
        self._ladder.add(frame.ts_ms, gpus, values)
        for i in np.flatnonzero(rates[:, REMAPS_AT] > 0).tolist():
            was, now = float(before[i, REMAPS_AT]), float(raw[i, REMAPPED])
            self._repeats.setdefault(gpus[i], Repeats()).remapped(frame.ts_ms, was, now)
        for gpu, pending in zip(gpus, raw[:, PENDING].tolist(), strict=True):
            if pending > 0 or (pending == 0 and gpu in self._repeats):
                self._repeats.setdefault(gpu, Repeats()).waits(frame.ts_ms, pending > 0)

    def _welcome(self, gpu: str, ts_ms: int) -> None:
        """A GPU that came from another node brings its past along."""
        owner = self._known.get(gpu)
        if owner is self or not gpu.startswith(PHYSICAL):
            return
        theirs = None if owner is None else owner.seen_ms(gpu)
        if owner is not None and theirs is not None:
            if ts_ms - theirs <= MOVED_MS:
                return
            if theirs > (self.seen_ms(gpu) or 0):
                self._adopt(gpu, owner, ts_ms)
        self._known[gpu] = self

    def _adopt(self, gpu: str, owner: "GpuDrift", ts_ms: int) -> None:
        self._ladder.adopt(owner._ladder.give(gpu), ts_ms)
        if (past := owner._totals.give(gpu)) is not None:
            self._totals.adopt(gpu, past)
        if gpu in owner._repeats:
            self._repeats[gpu] = owner._repeats.pop(gpu)

    def _judge(self, ts_ms: int, rungs: tuple[int, ...]) -> list[Finding]:
        """Once an hour, of the GPUs that were here in it; what was said of one that is gone is over."""
        ladder = self._ladder
        here = [ts_ms - (ladder.seen_ms(gpu) or 0) <= HOUR_MS for gpu in ladder.rows]
        gpus = [gpu for gpu, is_here in zip(ladder.rows, here, strict=True) if is_here]
        risks = {(s.gpu, limit.name) for limit in GPU_LIMITS for s in self._episodes.open(rule(limit))}

        def which(row: int, column: int) -> Limit | None:
            return GPU_LIMITS[column] if here[row] and column < BESIDE_AT else None

        found = drifts(ladder, rungs, which, {MARGIN_AT: BESIDE_AT}, risks)
        judged = {(gpu, c): limit for gpu in gpus for c, limit in enumerate(GPU_LIMITS)}
        said = observed(found, judged, len(rungs) == len(RUNGS), self._watched, ts_ms, self._episodes)
        for gpu in gpus:
            who, subject = self._watched(gpu)
            repeats = self._repeats.get(gpu)
            for what, verdict in (repeats or Repeats()).verdicts(ts_ms, who).items():
                if verdict is not None or not self._episodes.idle(what):
                    words = None if verdict is None else partial(_same, verdict)
                    said += self._episodes.observe(what, subject, verdict is not None, ts_ms, words)
        self._repeats = {gpu: kept for gpu, kept in self._repeats.items() if gpu in ladder.rows}
        return said + close_others(self._episodes, RULES, {self._watched(gpu).subject for gpu in gpus}, ts_ms)

    def _watched(self, gpu: str) -> Watched:
        return Watched(f"GPU {gpu}", Subject(scope="gpu", node=self._node, gpu=gpu))


def _same(verdict: Verdict) -> Verdict:
    return verdict
