"""What the host's readings alone say: a fan that stopped, ranks that wait without end.

Load, pressure and steal are no faults by themselves: they are weighed as causes where a rank of the node is late
(`cause`). A clock that loses its reference is an event of its collector.
"""

from typing import NamedTuple

from detectors.episode import Episodes, Persistence, Rule, Verdict
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame


class HostRule(NamedTuple):
    """`column` above 0 is trouble; `words` say what it counts."""

    rule: Rule
    column: str
    cause: Cause
    confidence: float
    words: str


HOST_RULES: tuple[HostRule, ...] = (
    # Read every ten seconds; twice, because a fan that is being swapped stands still too.
    HostRule(
        Rule("fan.stopped", "hardware", Persistence(k=3, n=4, clear=3)), "fans_stopped_count", "pump_fan", 0.7,
        "fans of this node have stopped",
    ),
    # Fifty of sixty seconds: a checkpoint blocks a rank for seconds at a time, not for a minute on end.
    HostRule(
        Rule("ranks.blocked", "degradation", Persistence(k=50, n=60, clear=10)), "rank_blocked_count", "host_io", 0.5,
        "training processes of this node wait for a disk, a network file system or a driver (state D)",
    ),
)  # fmt: skip


def host_findings(frame: NodeFrame, episodes: Episodes) -> list[Finding]:
    """Judge one frame; what was not read in it is not judged."""
    matrix = frame.sections.get("host")
    said: list[Finding] = []
    if matrix is None or not matrix.rows:
        return said
    for host_rule in HOST_RULES:
        if host_rule.column not in matrix.columns:
            continue
        count = float(matrix.values()[0, matrix.columns.index(host_rule.column)])
        if count > 0 or (count == 0 and not episodes.idle(host_rule.rule)):
            subject = Subject(scope="node", node=frame.node)
            verdict = _verdict(host_rule, count)
            said += episodes.observe(host_rule.rule, subject, count > 0, frame.ts_ms, lambda v=verdict: v)  # type: ignore[misc]
    return said


def _verdict(host_rule: HostRule, count: float) -> Verdict:
    text = f"{count:.0f} {host_rule.words}"
    return Verdict(
        cause=host_rule.cause,
        confidence=host_rule.confidence,
        score=count,
        summary=f"{CAUSES[host_rule.cause].words}: {text}",
        evidence=(Evidence(text=text, metric=host_rule.column, value=count, baseline=0.0),),
    )
