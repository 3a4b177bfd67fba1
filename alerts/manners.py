"""When somebody should not be paged (yet), and what makes news worth a page of its own.

A hold is a plain function: an incident and the situation in, a reason out, "" where nothing speaks against sending.
What is held is kept and looked at again; nothing is forgotten. The end of what was paged is never held.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from detectors.incident.relation import HEAT, rack
from schemas import Incident
from schemas.causes import CAUSES, Team
from schemas.identity import digest

Level = Literal["critical", "error", "warning", "info"]
LEVELS: tuple[Level, ...] = ("critical", "error", "warning", "info")

CLEARLY_SLOWER = 1.05
"""From 5 % on a job's slow-down is an error, not a risk: less is within what a healthy job's steps vary by."""

GATHER_MS = 30_000
"""A GPU's heat waits half a minute for the rack's own verdict (three readings of ten seconds), which absorbs it."""

FLAPS = 3
FLAP_WINDOW_MS = 3_600_000
STEADY_MS = 600_000
"""What was paged three times within an hour pages again only once it has lasted ten minutes."""

STORM_PAGES = 30
STORM_S = 600.0
"""More than thirty pages in ten minutes nobody reads: the rest waits, unless a job stands or a part is lost."""


class Situation(NamedTuple):
    """What a hold may look at besides the incident: whether it was paged already, the time, the incidents that are
    paged now, how often the same came within the last hour, and the pages of the last ten minutes."""

    opened: bool
    now_ms: int
    open: Sequence[Incident] = ()
    earlier: int = 0
    pages: int = 0


Hold = Callable[[Incident, Situation], str]


def level(incident: Incident) -> Level:
    """Severity by impact: a job that stands or loses a fifth, or a lost part, is critical; a slower job an error; what
    is only a risk a warning; what nobody can repair at night information."""
    if incident.severity != "warning":
        return incident.severity
    return "error" if (incident.slowdown or 1.0) >= CLEARLY_SLOWER and incident.victims else "warning"


def team(incident: Incident) -> Team:
    """Who acts on it."""
    return CAUSES[incident.cause].team


def racks(incident: Incident) -> frozenset[str]:
    """The racks of its culprits, as far as they or the names of their nodes tell."""
    return frozenset(found for s in incident.culprits if (found := s.rack or rack(s.node, {})))


def about(incident: Incident) -> str:
    """The same for a fault that comes back: another id, the same cause at the same place."""
    return digest(incident.cluster, incident.kind, incident.cause, *sorted(s.label() for s in incident.culprits))


def escalates(before: Incident | None, now: Incident) -> bool:
    """Whether the news must not wait: worse, another cause (another team perhaps), or eight times the victims."""
    if before is None or before.cause != now.cause:
        return True
    worse = LEVELS.index(level(now)) < LEVELS.index(level(before))
    return worse or now.victims >= 8 * max(before.victims, 1)


def gather(incident: Incident, situation: Situation) -> str:
    """Heat of a GPU or node, until a rack's verdict had time to take it in."""
    waits = incident.cause in HEAT and incident.kind != "cooling" and level(incident) != "critical"
    young = max(situation.now_ms, incident.ts_ms) - incident.detected_ms < GATHER_MS
    return "waits for its rack's own verdict" if waits and young and not situation.opened else ""


def inhibited(incident: Incident, situation: Situation) -> str:
    """What an incident that is paged already explains."""
    if situation.opened:
        return ""
    for other in situation.open:
        if other.id != incident.id and other.cluster == incident.cluster and _explains(other, incident):
            return f"explained by {other.id} ({other.cause})"
    return ""


def flapping(incident: Incident, situation: Situation) -> str:
    """What comes and goes. A job that stands, or a part that is lost, is paged however often."""
    lasted = max(situation.now_ms, incident.ts_ms) - incident.detected_ms >= STEADY_MS
    if situation.opened or situation.earlier < FLAPS or lasted or level(incident) == "critical":
        return ""
    return f"paged {situation.earlier} times within an hour: waits until it has lasted {STEADY_MS // 60_000} min"


def storm(incident: Incident, situation: Situation) -> str:
    """Too many pages at once."""
    if situation.opened or situation.pages < STORM_PAGES or level(incident) == "critical":
        return ""
    return f"more than {STORM_PAGES} pages within {STORM_S / 60:g} min: waits"


def least(lowest: Level) -> Hold:
    """Nothing below this level is sent."""

    def below(incident: Incident, situation: Situation) -> str:
        under = LEVELS.index(level(incident)) > LEVELS.index(lowest)
        return f"below {lowest}" if under and not situation.opened else ""

    return below


HOLDS: tuple[Hold, ...] = (inhibited, gather, flapping, storm)


def _explains(source: Incident, target: Incident) -> bool:
    if source.kind == "cooling":
        return target.kind != "hang" and target.cause in HEAT and bool(racks(source) & racks(target))
    if source.kind == "hang" and source.job and target.job == source.job:
        return target.kind in ("straggler", "slow_link", "imbalance", "degradation")
    if source.cause == "node_lost":
        lost = {s.node for s in source.culprits if s.node}
        here = {s.node for s in target.culprits}
        return bool(here) and here <= lost and target.kind != "hang"
    # One node's agent that loses records says nothing of any other, nor why its own node would fall silent.
    wide = source.cause == "pipeline" and source.scope != "node"
    return wide and target.cause in ("node_lost", "clock_wrong", "sensor_fault")
