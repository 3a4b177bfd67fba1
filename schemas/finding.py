"""A detector's verdict on a subject, edge-triggered: open, change, close, and a heartbeat between."""

from typing import Literal

import msgspec

from schemas.causes import Cause, Kind, Scope
from schemas.record import Name, Natural, Record, Share, TimeMs


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is meant, as precisely as the scope allows; empty where it does not apply."""

    scope: Scope
    job: str = ""
    rank: Natural | None = None
    node: str = ""
    gpu: str = ""
    link: str = ""
    rack: str = ""
    group: str = ""

    def label(self) -> str:
        """Short words for a pager: "rank 137 (GPU-8f.. on r03-t07)"."""
        where = f" on {self.node}" if self.node and self.scope != "node" else ""
        gpu = f"GPU {self.gpu}" if self.gpu else ""
        if self.scope == "rank" and self.rank is not None:
            return f"rank {self.rank} ({gpu or self.group or 'GPU unknown'}{where})"
        named = {
            "gpu": gpu,
            "link": f"link {self.link}",
            "node": f"node {self.node}",
            "rack": f"rack {self.rack}",
            "group": f"group {self.group}",
            "stage": f"stage {self.group}",
            "job": f"job {self.job}",
        }.get(self.scope, self.scope)
        return named + where


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fact that speaks for a verdict: what moved, from which baseline, against which peers.

    `text` is a whole sentence with its numbers; the fields repeat them for machines. `unit` is that of the numbers.
    """

    text: str
    metric: str = ""
    value: float | None = None
    baseline: float | None = None
    peers: float | None = None
    unit: str = ""


class Finding(Record, frozen=True, kw_only=True, tag="finding"):
    """One moment in the life of a verdict. `id` is the episode's (`schemas.identity.episode_id`), `revision` rises.

    `onset_ms` is when the trouble began, `ts_ms` the tick in which this was said. `victims` counts the ranks that
    wait for the subject. `cause` is "unknown" below the margin; `runner_up` is the next likely one.
    """

    topic = "findings"

    id: Name
    revision: Natural
    detector: Name
    state: Literal["open", "change", "close", "heartbeat"]
    kind: Kind
    cause: Cause
    subject: Subject
    onset_ms: TimeMs
    score: float = 0.0
    confidence: Share = 0.0
    runner_up: Cause | None = None
    victims: Natural = 0
    slowdown: float | None = None
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    onset_step: Natural | None = None
    detected_step: Natural | None = None

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.id, self.revision)
