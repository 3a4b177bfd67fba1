"""What an incident says: its leading verdict, cause, culprits, severity, and one line."""

from collections.abc import Sequence

from detectors.event_rules import ACTION
from detectors.incident.relation import is_risk
from schemas.causes import CAUSES, Cause, Kind, Scope
from schemas.event import Severity
from schemas.finding import Evidence, Finding, Subject

RANK: dict[Kind, int] = {
    "cooling": 7, "hang": 6, "straggler": 5, "slow_link": 5, "hardware": 4, "imbalance": 3, "degradation": 1,
}  # fmt: skip
"""Which kind leads: the cause of many before the effect, what stops a job before what slows it."""

WIDTH = ("cluster", "rack", "job", "stage", "group", "node", "link", "rank", "gpu")

SPECIFIC = 0.6
"""A more specific verdict's cause replaces the leading one's from this confidence on."""

VAGUE: frozenset[Cause] = frozenset({"unknown", "not_entered", "gpu_stuck", "process_gone", "gpu_degraded", "host_cpu"})
"""Causes that a hardware verdict on the same subject explains better."""

BETTER: frozenset[Cause] = frozenset(
    (
        "memory_bandwidth", "thermal_throttle", "power_brake", "gpu_memory_error", "gpu_lost", "gpu_stuck",
        "pcie_degraded", "nvlink_fault", "fabric_link", "node_lost", "process_gone",
    )
)  # fmt: skip
"""Causes that a verdict of another detector can add: what a driver, a counter or silence says."""

ABOUT = 0.2
"""Confidences this close count as the same: they are rounded judgements, not measurements."""

MOST_MEMBERS = 64

LOOK: dict[Kind, str] = {
    "hang": "Look at the stack of the ranks named; restart the job without their node if they are stuck.",
    "slow_link": "Compare the links of the named group's nodes; check their cables, ports and counters.",
    "straggler": "Compare this rank with its peers; run a GEMM check on its GPU.",
}
"""What to do while the cause is unknown."""


def leading(findings: Sequence[Finding]) -> Finding:
    """The verdict that names the incident: the kind that leads among the open ones, and of that kind the widest, open
    or not: a node that was slow as a whole does not shrink to the rank that is late last. Only a verdict about as
    sure as the surest can: what a weak GPU does to its neighbours is no reason to blame the whole node."""
    kind = max((f for f in findings if f.state != "close"), key=_weight, default=max(findings, key=_weight)).kind
    same = [f for f in findings if f.kind == kind]
    surest = max(f.confidence for f in same)
    return max(
        (f for f in same if f.confidence >= surest - ABOUT),
        key=lambda f: (_named(f), -WIDTH.index(f.subject.scope), f.state != "close", f.confidence, -f.onset_ms, f.id),
    )


def _named(finding: Finding) -> bool:
    """Whether a standstill's verdict names who it is (dumps and RAS do), which says more than the group that waits."""
    return finding.kind != "hang" or finding.subject.scope not in ("cluster", "job", "stage", "group")


def _weight(finding: Finding) -> tuple[int, str]:
    return RANK[finding.kind], finding.id


def cause_of(lead: Finding, findings: Sequence[Finding]) -> tuple[Cause, float, Cause | None]:
    """Cause, confidence and runner-up, the leading verdict's unless another one knows better."""
    over = all(f.state == "close" for f in findings)
    heard = [f for f in findings if f.id != lead.id and (over or f.state != "close")]
    others = sorted(heard, key=lambda f: (-f.confidence, f.id))
    if lead.kind != "cooling" and lead.cause in VAGUE:
        for other in others:
            if other.cause in BETTER and other.cause != lead.cause and other.confidence >= SPECIFIC:
                runner_up = lead.cause if lead.cause != "unknown" else lead.runner_up
                return other.cause, max(other.confidence, lead.confidence), runner_up
    agree = [f.confidence for f in others if f.cause == lead.cause]
    return lead.cause, max([lead.confidence, *agree]), lead.runner_up


def culprits(lead: Finding, findings: Sequence[Finding]) -> tuple[Subject, ...]:
    """Who is to blame: the subjects of the leading kind, each once, a node instead of its ranks. Nobody, where the
    work itself is uneven or the whole job moved."""
    subjects: list[Subject] = []
    for f in sorted(findings, key=lambda f: (-f.score, f.onset_ms, f.id)):
        same = f.kind == lead.kind and (f.state != "close" or lead.state == "close")
        within = WIDTH.index(f.subject.scope) >= WIDTH.index(lead.subject.scope)
        # A GPU that must only be reset with the others is not why.
        vague = f.cause == "unknown" != lead.cause and lead.kind == "hardware"
        if same and within and not vague and f.subject.scope not in ("job", "stage") and f.subject not in subjects:
            subjects.append(f.subject)
    if lead.subject.scope in ("group", "job") and (lead.kind == "slow_link" or lead.cause == "transport_stalled"):
        # Slow transfers name a group; an ill port among its nodes names the link.
        ports = [f.subject for f in findings if f.kind == "hardware" and f.subject.scope == "link"]
        subjects = list(dict.fromkeys(ports)) or subjects
    full = {(s.job, s.rank) for s in subjects if s.scope == "rank" and (s.node or s.gpu)}
    subjects = [s for s in subjects if s.scope != "rank" or s.node or s.gpu or (s.job, s.rank) not in full]
    nodes = {s.node for s in subjects if s.scope == "node"}
    if lead.subject.scope == "rack":
        subjects = [lead.subject]
    return tuple(s for s in subjects if s.scope in ("node", "rack") or s.node not in nodes)


def scope(lead: Finding, who: Sequence[Subject]) -> Scope:
    """The leading verdict's, or that of a link that explains it."""
    return "link" if who and all(s.scope == "link" for s in who) else lead.subject.scope


def members(findings: Sequence[Finding], who: Sequence[Subject]) -> tuple[str, ...]:
    """The nodes that the verdicts are about besides those of the culprits, each with how many of its GPUs; at most 64,
    the rest as a number."""
    blamed = {subject.node for subject in who}
    parts: dict[str, set[str]] = {}
    for subject in (f.subject for f in findings if f.subject.node and f.subject.node not in blamed):
        found = parts.setdefault(subject.node, set())
        if subject.gpu or subject.rank is not None:
            found.add(subject.gpu or f"rank {subject.rank}")
    named = [
        f"{node} ({len(found)} GPU{'s' if len(found) > 1 else ''})" if found else node
        for node, found in sorted(parts.items())
    ]
    more = len(named) - MOST_MEMBERS
    return tuple([*named[:MOST_MEMBERS], *([f"and {more} more"] if more > 0 else [])])


def severity(lead: Finding, confirmed: bool) -> Severity:
    """Critical where a job stands or loses a fifth, hardware is lost or water leaks; what only the owner can balance
    is for information. A risk is a warning whatever it is a risk of: nobody is woken for what is days away."""
    if is_risk(lead):
        return "warning"
    if lead.kind == "imbalance" or (lead.kind == "degradation" and lead.cause in ("workload_change", "unknown")):
        return "info"
    grave = lead.kind == "hang" or lead.cause in ("leak", "gpu_lost", "node_lost", "coolant_flow", "gpu_memory_error")
    return "critical" if confirmed and (grave or (lead.slowdown or 1.0) >= 1.2) else "warning"


def summary(lead: Finding, cause: Cause) -> str:
    """What, where, impact and since when in one line, at most 300 characters."""
    said = lead.summary or f"{lead.kind.replace('_', ' ')} of {lead.subject.label()}"
    if is_risk(lead):
        return said[:300]  # which says over how many days
    words = CAUSES[cause].words
    if cause not in (lead.cause, "unknown") and words not in said:
        said = f"{said}; {words}"
    step = f" (step {lead.onset_step})" if lead.onset_step is not None else ""
    job = f" in job {lead.subject.job}" if lead.subject.job and lead.subject.job not in said else ""
    return f"{said}{job}, since {clock(lead.onset_ms)}{step}"[:300]


def clock(ms: int) -> str:
    """Time of day of a moment, UTC.

    >>> clock(3_723_000)
    '01:02:03 UTC'
    """
    seconds = ms // 1000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def action(cause: Cause, kind: Kind, findings: Sequence[Finding] = (), notes: Sequence[Evidence] = ()) -> str:
    """What to do next: what the driver or NVIDIA's catalogue asks for (the newest word of the driver, else that of the
    last of `findings` about this cause), then what is always right for the cause."""
    usual = LOOK.get(kind, CAUSES[cause].action) if cause == "unknown" else CAUSES[cause].action
    told = [item.text.partition(" (")[0] for item in notes if item.metric == ACTION]
    # A verdict of unknown cause that asks for something is the driver's own (its recovery action): it counts most.
    about = sorted((f for f in findings if f.cause in (cause, "unknown")), key=lambda f: f.cause == "unknown")
    told = told or [item.text for f in about for item in f.evidence if item.metric == ACTION]
    return f"{told[-1]}. {usual}" if told else usual


def evidence(lead: Finding, findings: Sequence[Finding], notes: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The leading verdict's facts first, then what others add, then events; each sentence once, at most twelve."""
    out: dict[str, Evidence] = {}
    for f in (lead, *sorted((f for f in findings if f.id != lead.id), key=lambda f: (-RANK[f.kind], f.onset_ms, f.id))):
        for item in f.evidence[: 8 if f is lead else 2]:
            out.setdefault(item.text, item)
    for note in notes:
        out.setdefault(note.text, note)
    return tuple(out.values())[:12]
