"""What an alert says, for every receiver the same: what, where, impact, since when; then evidence and what to do.

The title fits a telephone's lock screen and one text message. No job's contents and no secrets: evidence is redacted.
"""

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from alerts.manners import Level, level, team
from alerts.redact import redact
from schemas import Incident
from schemas.causes import CAUSES, Cause
from schemas.finding import Subject

TITLE_LIMIT = 160
"""The length of one text message (GSM 03.40)."""

TEXT_LIMIT, SQL_LIMIT = 500, 4000
MOST_EVIDENCE, MOST_SHOWN = 12, 64

TEST = "test-"
"""Begins the id of an incident that nothing happened in (`lockstep alerts test`)."""

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What moves a cursor or turns a line around; names and evidence may come from a job's own log."""

_SPELLED = {"gpu": "GPU", "pcie": "PCIe", "nvlink": "NVLink", "cpu": "CPU", "io": "I/O", "python": "Python"}


class Content(NamedTuple):
    """The parts of an alert, cut to lengths that people read. Times are ISO 8601, UTC. `runbook` is a URL, or the
    page's path in this repository where no base URL is set; `link` is the URL or ""."""

    id: str
    title: str
    level: Level
    team: str
    cause: str
    meaning: str
    where: str
    source: str
    impact: str
    since: str
    confidence: float
    also_possible: str
    in_full: str
    culprits: tuple[str, ...]
    members: tuple[str, ...]
    victims: int
    evidence: tuple[str, ...]
    action: str
    runbook: str
    link: str
    sql: str
    job: str
    cluster: str


def content(incident: Incident, runbooks: str = "") -> Content:
    """What is said of `incident`. `runbooks` is the base URL of the runbook pages; `{cause}` in it is replaced."""
    facts, first = CAUSES[incident.cause], incident.culprits[0] if incident.culprits else None
    link = runbook_url(runbooks, incident.cause)
    named = (first.node or first.rack or first.job) if first else ""
    said = Content(
        id=incident.id,
        title=title(incident),
        level=level(incident),
        team=team(incident),
        cause=incident.cause,
        meaning=facts.words,
        where=where(incident),
        source=named or incident.job or incident.cluster,
        impact=impact(incident),
        since=iso(incident.onset_ms),
        confidence=round(incident.confidence, 2),
        also_possible=CAUSES[incident.runner_up].words if incident.runner_up else "",
        in_full=_said(incident.summary, TEXT_LIMIT),
        culprits=_listed([subject.label() for subject in incident.culprits]),
        members=_listed(list(incident.members)),
        victims=incident.victims,
        evidence=tuple(_said(item.text, TEXT_LIMIT) for item in incident.evidence[:MOST_EVIDENCE]),
        action=_said(incident.action or facts.action, 2 * TEXT_LIMIT),
        runbook=link or f"docs/runbooks/{incident.cause}.md",
        link=link,
        sql=cut(incident.sql, SQL_LIMIT),
        job=incident.job,
        cluster=incident.cluster,
    )
    return Content(*map(plain, said))


def plain(said: Any) -> Any:
    """Texts, and lists of them, without what is no letter to read; anything else as it is.

    >>> plain("rank\\x1b[2J 3"), plain(("a\\u202eb", "c")), plain(7)
    ('rank[2J 3', ('ab', 'c'), 7)
    """
    if isinstance(said, tuple):
        return tuple(map(plain, said))
    return _UNSEEN.sub("", said) if isinstance(said, str) else said


def title(incident: Incident) -> str:
    """What, where, impact, since, in at most 160 characters; what is too long is cut where it says least."""
    if incident.id.startswith(TEST):
        return cut(f"TEST of alerts from {incident.cluster}: nothing is wrong, this will close by itself", TITLE_LIMIT)
    begin = spelled(incident.cause) if incident.cause != "unknown" else f"{spelled(incident.kind)}, cause unknown"
    end = f"; {impact(incident)}; since {datetime.fromtimestamp(incident.onset_ms / 1000, UTC):%H:%M} UTC"
    return f"{begin}: {cut(where(incident), max(TITLE_LIMIT - len(begin) - len(end) - 2, 8))}{end}"[:TITLE_LIMIT]


def where(incident: Incident) -> str:
    """The first culprit in few words, and how many more; else the job, else the cluster."""
    if not incident.culprits:
        return f"job {incident.job}" if incident.job else incident.cluster
    more = len(incident.culprits) - 1 or len(incident.members)
    also = f" and {more} more" if more and len(incident.culprits) > 1 else f" with {more} nodes" if more else ""
    return _short(incident.culprits[0]) + also


def impact(incident: Incident) -> str:
    """What it does to jobs: stands still, slower by how much, how many ranks wait; else that it is only a risk."""
    ranks = "1 rank waits" if incident.victims == 1 else f"{incident.victims} ranks wait"
    if incident.kind == "hang":
        return "job stands still" + (f", {ranks}" if incident.victims else "")
    if incident.slowdown is not None and incident.slowdown > 1.0 and (incident.victims or incident.job):
        slower = f"{100 * (incident.slowdown - 1):.0f} % slower"
        return f"{slower}, {ranks}" if incident.victims else slower
    if incident.victims:
        return ranks
    return "a risk, no job waits yet"


def runbook_url(base: str, cause: Cause) -> str:
    """The runbook page of a cause, "" without a base.

    >>> runbook_url("https://wiki/runbooks/", "leak"), runbook_url("https://wiki/{cause}.html", "leak")
    ('https://wiki/runbooks/leak.md', 'https://wiki/leak.html')
    """
    if not base:
        return ""
    return base.replace("{cause}", cause) if "{cause}" in base else f"{base.rstrip('/')}/{cause}.md"


def spelled(name: str) -> str:
    """A cause or kind as people write it.

    >>> spelled("gpu_lost"), spelled("coolant_flow")
    ('GPU lost', 'Coolant flow')
    """
    words = [_SPELLED.get(word, word) for word in name.split("_")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def iso(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _said(text: str, limit: int) -> str:
    """`text` without secrets, then cut: a secret that the cut would halve is not seen any more."""
    return cut(redact(text[: 4 * limit]), limit)


def _short(subject: Subject) -> str:
    gpu = f"GPU {subject.gpu}" if len(subject.gpu) <= 16 else f"GPU ..{subject.gpu[-8:]}"
    on = f" on {subject.node}" if subject.node else ""
    if subject.scope == "rank" and subject.rank is not None:
        return f"rank {subject.rank}{on}"
    if subject.scope == "gpu":
        return gpu + on
    return subject.label()


def _listed(labels: list[str]) -> tuple[str, ...]:
    more = len(labels) - MOST_SHOWN
    return tuple([*labels[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])
