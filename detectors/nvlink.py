"""What the NVLinks of a node say, link by link: down, recovering again and again, full of errors, a bad bit error rate.

Read every ten seconds, bit error rates every minute. A link that is down from the start may be meant so (fewer links
are wired than the GPU has): only one that has been up is missed.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.condition import Columns, Float32, Increases, Ranges
from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.state import floats, to_bytes, unpack
from schemas.causes import CAUSES
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame
from schemas.metrics import SECTIONS

Mask = NDArray[np.bool_]

COLUMNS = (
    "state", "recovery_count", "recovered_count", "recovery_failed_count", "replay_count", "crc_error_count",
    "malformed_count", "overrun_count", "receive_error_count", "integrity_error_count", "effective_ber_log10",
)  # fmt: skip

INACTIVE = 0.0

RECOVERIES = ("recovery_count", "recovered_count")
ERRORS = ("crc_error_count", "malformed_count", "overrun_count", "receive_error_count", "integrity_error_count")
"""What a link itself received wrong. Remote and general errors are the other end's or the software's, discards follow
from a full buffer, replays alone are repaired."""

BAD_BER_LOG10 = -12.0
"""Effective bit error rate (after correction) above 1e-12: DCGM's health check fails a link by it."""

SLOW_GAP_MS = 300_000
"""Readings a minute apart still belong together, with some of them missing."""

TWICE = Persistence(k=2, n=2, clear=3, gap_ms=SLOW_GAP_MS)
FLAPPING = Persistence(k=2, n=60, clear=60, gap_ms=SLOW_GAP_MS)
"""A link that recovered once did its work; twice in ten minutes it is worn (NVSentinel counts flaps over ten minutes
too; DCGM already fails one recovery)."""

ERRING = Persistence(k=3, n=6, clear=12, gap_ms=SLOW_GAP_MS)
"""Errors in three of six readings, a minute: they go on."""

AT_ONCE = Persistence(k=1, n=1, clear=60, gap_ms=SLOW_GAP_MS)


class Links(NamedTuple):
    """One reading: `raw` and the increases `grown` (rows, COLUMNS), and which links have ever been up."""

    rows: tuple[str, ...]
    raw: Float32
    grown: Float32
    been_up: Mask


class LinkRule(NamedTuple):
    """`holds` says for which links; judged where any of `columns` was read."""

    rule: Rule
    confidence: float
    words: str
    columns: tuple[str, ...]
    holds: Callable[[Links], Mask]


def _down(links: Links) -> Mask:
    down: Mask = links.been_up & (links.raw[:, COLUMNS.index("state")] == INACTIVE)
    return down


def _failed(links: Links) -> Mask:
    return _grown(links, ("recovery_failed_count",))


def _flapping(links: Links) -> Mask:
    return _grown(links, RECOVERIES)


def _erring(links: Links) -> Mask:
    return _grown(links, ERRORS)


def _bad_rate(links: Links) -> Mask:
    bad: Mask = links.raw[:, COLUMNS.index("effective_ber_log10")] > BAD_BER_LOG10
    return bad


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
    LinkRule(
        Rule("link_ber", "hardware", TWICE), 0.8, "an NVLink's bit error rate is bad", ("effective_ber_log10",),
        _bad_rate,
    ),
)  # fmt: skip


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
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


def _grown(links: Links, names: tuple[str, ...]) -> Mask:
    grown: Mask = np.any(links.grown[:, [COLUMNS.index(name) for name in names]] > 0, axis=1)
    return grown


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
        value, grown = (float(table[row, COLUMNS.index(name)]) for table in (links.raw, links.grown))
        if value == value and (name not in counted or grown > 0):
            yield f"{name} {value:g}" + (f", {grown:g} more" if name in counted else "")
