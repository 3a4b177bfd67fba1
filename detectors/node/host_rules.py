"""What the host's readings alone say: a fan that stopped, ranks that wait without end, a clock that is off.

Load, pressure and steal are no faults by themselves: they are weighed as causes where a rank of the node is late
(`cause`). A clock that loses its reference is an event of its collector.
"""

from typing import NamedTuple

from detectors.episode import Episodes, Persistence, Rule, Verdict
from schemas.causes import CAUSES, Cause
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame


class HostRule(NamedTuple):
    """`column` further from 0 than `beyond` is trouble; `words` say it with the value."""

    rule: Rule
    column: str
    cause: Cause
    confidence: float
    words: str
    beyond: float = 0.0


HOST_RULES: tuple[HostRule, ...] = (
    # Read every ten seconds; twice, because a fan that is being swapped stands still too.
    HostRule(
        Rule("fan.stopped", "hardware", Persistence(k=3, n=4, clear=3)), "fans_stopped_count", "pump_fan", 0.7,
        "{:.0f} fans of this node have stopped",
    ),
    # Fifty of sixty seconds: a checkpoint blocks a rank for seconds at a time, not for a minute on end.
    HostRule(
        Rule("ranks.blocked", "degradation", Persistence(k=50, n=60, clear=10)), "rank_blocked_count", "host_io", 0.5,
        "{:.0f} training processes of this node wait for a disk, a network file system or a driver (state D)",
    ),
    # A quarter of a tick. A time service that works keeps a clock within milliseconds, and sets one that is far off:
    # ntpd from 0.128 s on (RFC 5905, STEPT), systemd-timesyncd from 0.4 s on. The kernel holds no offset above 0.5 s
    # (MAXPHASE, linux/timex.h), so that a threshold there would never be crossed.
    HostRule(
        Rule("clock.offset", "degradation", Persistence(k=3, n=4, clear=3)), "clock_offset_s", "clock_wrong", 0.7,
        "this node's time service finds its clock off by {:.2f} s", 0.25,
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
        value = abs(float(matrix.values()[0, matrix.columns.index(host_rule.column)]))
        active = value > host_rule.beyond
        if active or (value <= host_rule.beyond and not episodes.idle(host_rule.rule)):
            subject = Subject(scope="node", node=frame.node)
            verdict = _verdict(host_rule, value)
            said += episodes.observe(host_rule.rule, subject, active, frame.ts_ms, lambda v=verdict: v)  # type: ignore[misc]
    return said


def _verdict(host_rule: HostRule, value: float) -> Verdict:
    text = host_rule.words.format(value)
    return Verdict(
        cause=host_rule.cause,
        confidence=host_rule.confidence,
        score=value,
        summary=f"{CAUSES[host_rule.cause].words}: {text}",
        evidence=(Evidence(text=text, metric=host_rule.column, value=value, baseline=0.0),),
    )
