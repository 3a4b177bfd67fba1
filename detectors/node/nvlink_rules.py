"""What the NVLinks of a node say, link by link: down, recovering again and again, full of errors, bad bit error rates,
far more to correct than its neighbours.

Read every ten seconds, bit error rates every minute. A link that is down from the start may be meant so (fewer links
are wired than the GPU has): only one that has been up is missed.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from detectors.condition import Columns, Increases, Ranges
from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.node.link_base import AT_ONCE, COLUMNS, FEC, SLOW_GAP_MS, TWICE, LinkRule, Links, Mask, grown, read
from detectors.node.link_ber import BER, SYMBOL_BER
from detectors.node.link_fec import FEC_MARGIN
from detectors.state import floats, to_bytes, unpack
from schemas.causes import CAUSES
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame
from schemas.metrics import SECTIONS

INACTIVE = 0.0

RECOVERIES = ("recovery_count", "recovered_count")
ERRORS = ("crc_error_count", "malformed_count", "overrun_count", "receive_error_count", "integrity_error_count")
"""What a link itself received wrong. Remote and general errors are the other end's or the software's, discards follow
from a full buffer, replays alone are repaired."""

FLAPPING = Persistence(k=2, n=60, clear=60, gap_ms=SLOW_GAP_MS)
"""A link that recovered once did its work; twice in ten minutes it is worn (NVSentinel counts flaps over ten minutes
too; DCGM already fails one recovery)."""

ERRING = Persistence(k=3, n=6, clear=12, gap_ms=SLOW_GAP_MS)
"""Errors in three of six readings, a minute: they go on."""


def _down(links: Links) -> Mask:
    down: Mask = links.been_up & (read(links, "state") == INACTIVE)
    return down


def _failed(links: Links) -> Mask:
    return grown(links, ("recovery_failed_count",))


def _flapping(links: Links) -> Mask:
    return grown(links, RECOVERIES)


def _erring(links: Links) -> Mask:
    return grown(links, ERRORS)


LINK_RULES: tuple[LinkRule, ...] = (
    LinkRule(Rule("link_down", "hardware", TWICE), 0.9, "an NVLink that was up is down", ("state",), _down),
    LinkRule(
        Rule("link_recovery_failed", "hardware", AT_ONCE), 0.9, "an NVLink failed to recover",
        ("recovery_failed_count",), _failed,
    ),
    LinkRule(
        Rule("link_recovery", "hardware", FLAPPING), 0.8, "an NVLink recovers again and again", RECOVERIES, _flapping
    ),
    LinkRule(Rule("link_errors", "hardware", ERRING), 0.7, "an NVLink goes on making errors", ERRORS, _erring),
    BER,
    SYMBOL_BER,
    FEC_MARGIN,
)  # fmt: skip


class _State(msgspec.Struct, kw_only=True):
    version: Literal[2] = 2
    rows: tuple[str, ...]
    last: bytes
    been_up: bytes
    run_id: int


class LinkWatch:
    """The links of one node. `update` takes every frame; what it says goes through the node's episodes."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._rows: tuple[str, ...] = ()
        self._columns, self._ranges = Columns(COLUMNS), Ranges("nvlink", COLUMNS)
        self._increases = Increases(0, len(COLUMNS))
        self._been_up: Mask = np.zeros(0, dtype=np.bool_)
        self._run_id = -1

    def update(self, frame: NodeFrame, episodes: Episodes) -> list[Finding]:
        """What is to be said after this frame; a frame without links changes nothing but heartbeats."""
        matrix = frame.sections.get("nvlink")
        if matrix is None or not matrix.rows:
            return self._heartbeats(frame.ts_ms, episodes)
        links = self._read(frame)
        said: list[Finding] = []
        for rule in LINK_RULES:
            holds = rule.holds(links)
            if episodes.idle(rule.rule) and not holds.any():
                continue
            told: Mask = ~np.isnan(links.raw[:, [COLUMNS.index(name) for name in rule.columns]])
            judged = np.any(told, axis=1)
            for i, row in enumerate(links.rows):
                active = bool(holds[i]) if judged[i] else None
                said += episodes.observe(
                    rule.rule,
                    self._subject(row),
                    active,
                    frame.ts_ms,
                    lambda rule=rule, i=i: _verdict(rule, links, i),  # type: ignore[misc]
                )
        return said

    def save(self) -> bytes:
        return msgspec.msgpack.encode(
            _State(
                rows=self._rows,
                last=to_bytes(self._increases.last),
                been_up=self._been_up.tobytes(),
                run_id=self._run_id,
            )
        )

    def restore(self, saved: bytes) -> None:
        """Continue from a checkpoint; raises StateError where it does not fit."""
        if not saved:
            return
        old = unpack(saved, _State)
        self._rows, self._run_id = old.rows, old.run_id
        self._increases.last = floats(old.last, len(old.rows), len(COLUMNS))
        self._been_up = np.frombuffer(old.been_up, dtype=np.bool_).copy()

    def _read(self, frame: NodeFrame) -> Links:
        matrix = frame.sections["nvlink"]
        if matrix.rows != self._rows:
            old = {row: i for i, row in enumerate(self._rows)}
            index = np.array([old.get(row, -1) for row in matrix.rows], dtype=np.intp)
            self._increases.take(index)
            up = np.append(self._been_up, False)
            self._been_up, self._rows = up[index], matrix.rows
        if frame.run_id != self._run_id:
            self._increases.restart()
            self._run_id = frame.run_id
        raw, _ = self._ranges.apply(self._columns.select(matrix))
        state = raw[:, COLUMNS.index("state")]
        self._been_up |= state > INACTIVE
        return Links(self._rows, raw, self._increases.apply(raw), self._been_up)

    def _heartbeats(self, ts_ms: int, episodes: Episodes) -> list[Finding]:
        said: list[Finding] = []
        if episodes.idle():
            return said
        for rule in LINK_RULES:
            for subject in episodes.open(rule.rule) if not episodes.idle(rule.rule) else ():
                said += episodes.observe(rule.rule, subject, None, ts_ms)
        return said

    def _subject(self, row: str) -> Subject:
        return Subject(scope="link", node=self._node, gpu=row.rpartition("/")[0], link=row)


def _verdict(rule: LinkRule, links: Links, row: int) -> Verdict:
    said = ", ".join(_told(rule, links, row))
    return Verdict(
        cause="nvlink_fault",
        confidence=rule.confidence,
        score=1.0,
        summary=f"{CAUSES['nvlink_fault'].words}: {rule.words}",
        evidence=(Evidence(text=f"link {links.rows[row]}: {said}", metric=rule.columns[0]),),
    )


def _told(rule: LinkRule, links: Links, row: int) -> Iterator[str]:
    counted = {metric.name for metric in SECTIONS["nvlink"] if metric.kind == "counter"}
    for name in rule.columns:
        value, more = (float(table[row, COLUMNS.index(name)]) for table in (links.raw, links.grown))
        if value == value and (more > 0 if name in counted else value > 0 or name not in FEC):
            yield f"{name} {value:g}" + (f", {more:g} more" if name in counted else "")
