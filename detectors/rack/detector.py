"""Everything that is said of one rack's cooling and power: its rules, asked in order as readings come."""

from functools import partial
from typing import Literal

import msgspec

from detectors.episode import Episode, Episodes, Rule, Verdict
from detectors.rack.base import RackRule, Signs
from detectors.rack.rules import RACK_RULES
from detectors.rack.view import LevelState, RackView
from detectors.state import StateError, unpack
from schemas.causes import CAUSES
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import RackFrame

MOST_SAID = 8
"""Pieces of evidence in one finding: a rack has hundreds of rows."""


class RackVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame led to; `decisions()` changed exactly where there are findings."""

    findings: tuple[Finding, ...] = ()


class _Learning(msgspec.Struct, kw_only=True):
    version: Literal[2] = 2
    last: dict[str, tuple[int, int]]
    levels: dict[str, LevelState]
    pending: tuple[Episode, ...]


class RackDetector:
    """The detector of one rack; feed it the rack's frames in order."""

    def __init__(self, cluster: str, rack: str) -> None:
        self._rack = rack
        self._episodes = Episodes(cluster)
        self._last: dict[str, tuple[int, int]] = {}
        self._view = RackView(rack)
        self._shown: dict[str, bool] = {}

    def update(self, frame: RackFrame) -> RackVerdict:
        """Judge one frame. A repeat, or one not newer from the same agent, gives an empty verdict."""
        if (frame.run_id, frame.seq) <= self._last.get(frame.node, (-1, -1)):
            return RackVerdict()
        self._last = {**dict(list(self._last.items())[-7:]), frame.node: (frame.run_id, frame.seq)}
        view = self._view
        view.update(frame)
        said: list[Finding] = []
        for rule in RACK_RULES.values():
            signs: Signs = {}
            levels = view.section(rule.pace)
            if levels.due or rule.at_once:
                signs = rule.signs(view)
                if rule.unless and self._shown.get(rule.unless):
                    signs = {node: [] for node in signs}
                self._shown[rule.name] = any(signs.values())
            said += self._judge(rule, signs, levels.pace_ms)
        view.learn(not any(self._shown.get(rule.name) for rule in RACK_RULES.values() if rule.holds_learning))
        return RackVerdict(findings=tuple(said))

    def look(self, frame: RackFrame) -> list[Finding]:
        """What a single snapshot says by itself, without persistence and past: for files, never for a live rack."""
        self._view.update(frame)
        said: list[Finding] = []
        for rule in RACK_RULES.values():
            signs = rule.signs(self._view)
            if rule.unless and self._shown.get(rule.unless):
                continue
            self._shown[rule.name] = any(signs.values())
            for node, evidence in signs.items():
                subject = self._subject(node)
                said += self._episodes.observe(
                    Rule(rule.name, rule.kind),
                    subject,
                    bool(evidence),
                    frame.ts_ms,
                    partial(_verdict, rule, subject, evidence),
                )
        return said

    def learning(self) -> bytes:
        """What a kill may lose a minute of."""
        return msgspec.msgpack.encode(
            _Learning(
                last=self._last,
                levels={str(levels.section): levels.save() for levels in self._view.sections if levels.kept},
                pending=self._episodes.pending(),
            )
        )

    def decisions(self) -> bytes:
        """What is open: to be written through before the record that changed it is acknowledged."""
        return self._episodes.save()

    def restore(self, learning: bytes | None, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states; returns the last words, to be sent once more. Raises StateError."""
        pending: tuple[Episode, ...] = ()
        if learning is not None:
            learned = unpack(learning, _Learning)
            for levels in filter(lambda levels: levels.kept, self._view.sections):
                if levels.section not in learned.levels:
                    raise StateError(f"a saved rack without its {levels.section}")
                levels.restore(learned.levels[levels.section])
            self._last, pending = learned.last, learned.pending
        return self._episodes.resume(decisions, pending)

    def _judge(self, rule: RackRule, signs: Signs, pace_ms: float) -> list[Finding]:
        """One observation for each node, and the rack, that was judged; those that are open and were not stay open."""
        as_rule = rule.at_pace(pace_ms)
        if not any(signs.values()) and self._episodes.idle(as_rule):
            return []
        subjects = {self._subject(node): evidence for node, evidence in signs.items()}
        said: list[Finding] = []
        for subject in dict.fromkeys([*subjects, *self._episodes.open(as_rule)]):
            evidence = subjects.get(subject)
            said += self._episodes.observe(
                as_rule,
                subject,
                None if evidence is None else bool(evidence),
                self._view.ts_ms,
                partial(_verdict, rule, subject, evidence or []),
            )
        return said

    def _subject(self, node: str) -> Subject:
        if node:
            return Subject(scope="node", node=node, rack=self._rack)
        return Subject(scope="rack", rack=self._rack)


def _verdict(rule: RackRule, subject: Subject, evidence: list[Evidence]) -> Verdict:
    return Verdict(
        cause=rule.cause,
        confidence=rule.confidence,
        runner_up=rule.runner_up,
        score=float(len(evidence)),
        summary=f"{CAUSES[rule.cause].words} at {subject.node or subject.rack}",
        evidence=tuple(evidence[:MOST_SAID]),
    )
