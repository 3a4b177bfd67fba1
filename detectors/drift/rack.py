"""Which parts of a rack's cooling must do more and more: fans, pumps, valves.

The mean speed of the fans of each node, the speed of each pump that runs, the opening of each valve; taken once a
minute of event time, judged once an hour.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from detectors.condition import Columns, Ranges
from detectors.drift.ladder import HOUR_MS, MINUTE_MS, RUNGS, Ladder, LadderState
from detectors.drift.limits import FAN_EFFORT, PUMP_EFFORT, VALVE_OPENING, Limit
from detectors.drift.watch import HEARTBEAT_MS, Watched, close_others, drifts, heartbeats, observed, rule
from detectors.episode import Episode, Episodes
from detectors.rack.pumps import PUMP_STOPPED_PCT
from detectors.state import unpack
from schemas.finding import Finding, Subject
from schemas.frame import RackFrame
from schemas.metrics import Section

STEPPED_BACK_MIN = 24 * 60
"""A frame a day older than the newest: the clock had been wrong until then. What is sent again is younger."""

EFFORTS: dict[Section, Limit] = {"fan": FAN_EFFORT, "cdu": PUMP_EFFORT, "loop": VALVE_OPENING}
RULES = tuple(rule(limit) for limit in EFFORTS.values())

_LIMITS: dict[str, Limit] = {str(section): limit for section, limit in EFFORTS.items()}
_WORDS = {"fan": "the fans of", "cdu": "pump", "loop": "loop"}


class _Learning(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    last: dict[str, int]
    ladder: LadderState
    pending: tuple[Episode, ...]


class RackDrift:
    """The slow trends of one rack. Rows of its ladder are "section name"."""

    def __init__(self, cluster: str, rack: str) -> None:
        self._rack = rack
        self._episodes = Episodes(cluster, HEARTBEAT_MS)
        self._columns = {section: Columns([limit.metric]) for section, limit in EFFORTS.items()}
        self._ranges = {section: Ranges(section, [limit.metric]) for section, limit in EFFORTS.items()}
        self._ladder = Ladder(1)
        self._last: dict[str, int] = {}

    def update(self, frame: RackFrame) -> tuple[Finding, ...]:
        """Take one frame; each section once a minute."""
        minute = frame.ts_ms // MINUTE_MS
        if minute < self._last.get("", -1) - STEPPED_BACK_MIN:
            self._ladder.rewind(frame.ts_ms)
            self._last = {}
        due = [name for name in EFFORTS if name in frame.sections and minute > self._last.get(name, -1)]
        beats = minute > self._last.get("", -1)
        self._last[""] = max(minute, self._last.get("", -1))
        if not due and not beats:
            return ()
        ended = self._ladder.advance(frame.ts_ms)
        rows: dict[str, float] = {}
        for name in due:
            told = dict(self._effort(frame, name))
            if told:
                self._last[name] = minute
                rows |= told
        if rows:
            self._ladder.add(frame.ts_ms, list(rows), np.array(list(rows.values()), dtype=np.float32)[:, None])
        said = self._judge(frame.ts_ms, ended) if ended else []
        return (*said, *heartbeats(self._episodes, RULES, frame.ts_ms))

    def learning(self) -> bytes:
        return msgspec.msgpack.encode(
            _Learning(last=self._last, ladder=self._ladder.save(), pending=self._episodes.pending())
        )

    def decisions(self) -> bytes:
        return self._episodes.save()

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states, as `detectors.rack.detector.RackDetector.restore`."""
        pending: tuple[Episode, ...] = ()
        if learning is not None:
            old = unpack(learning, _Learning)
            self._ladder.restore(old.ladder)
            self._last, pending = old.last, old.pending
        return self._episodes.resume(decisions, pending)

    def _effort(self, frame: RackFrame, section: Section) -> Iterator[tuple[str, float]]:
        matrix = frame.sections[section]
        raw, _ = self._ranges[section].apply(self._columns[section].select(matrix))
        told = [(row, float(v)) for row, v in zip(matrix.rows, raw[:, 0], strict=True) if v == v]
        if section == "fan":
            nodes: dict[str, list[float]] = {}
            for row, value in told:
                nodes.setdefault(row.partition("/")[0] if "/" in row else self._rack, []).append(value)
            yield from ((f"fan {node}", sum(values) / len(values)) for node, values in nodes.items())
            return
        # A pump on standby, or a valve that is shut, says nothing of effort.
        yield from ((f"{section} {row}", value) for row, value in told if value > PUMP_STOPPED_PCT)

    def _judge(self, ts_ms: int, rungs: tuple[int, ...]) -> list[Finding]:
        ladder = self._ladder
        limits = [_LIMITS[row.partition(" ")[0]] for row in ladder.rows]
        here = [ts_ms - (ladder.seen_ms(row) or 0) <= HOUR_MS for row in ladder.rows]
        risks = {
            (row, limit.name)
            for row, limit in zip(ladder.rows, limits, strict=True)
            if self._episodes.is_open(rule(limit), self._watched(row).subject)
        }
        found = drifts(ladder, rungs, lambda r, c: limits[r] if here[r] else None, {}, risks)
        judged = {(row, 0): limit for row, limit, is_here in zip(ladder.rows, limits, here, strict=True) if is_here}
        said = observed(found, judged, len(rungs) == len(RUNGS), self._watched, ts_ms, self._episodes)
        return said + close_others(self._episodes, RULES, {self._watched(row).subject for row, _ in judged}, ts_ms)

    def _watched(self, row: str) -> Watched:
        section, _, name = row.partition(" ")
        who = f"{_WORDS[section]} {name}"
        if section == "fan" and name != self._rack:
            return Watched(who, Subject(scope="node", node=name, rack=self._rack))
        return Watched(who, Subject(scope="rack", rack=self._rack))
