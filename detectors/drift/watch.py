"""Series that drift to a limit, found on a ladder and said in words.

A series is at risk when it surely goes towards its limit (`detectors.drift.trend`) and is there before the line was
followed for twice as long as it was seen. A rung is judged when it has a new point; of several that say so, the one
that is there first counts. That none does is said once a day, when all were judged.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from detectors.drift.ladder import DAY_MS, RUNGS, Ladder, Rung
from detectors.drift.limits import Limit
from detectors.drift.trend import AHEAD, LEAST_CONCORDANCE, Arrival, Floats, Slope, Z, arrival, concordance, rising
from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.event_rules import ACTION
from detectors.incident.relation import RISK
from schemas.finding import Evidence, Finding, Subject

LASTING = Persistence(k=2, n=2, clear=3, gap_ms=3 * DAY_MS)
"""Two judgements that say so open, three days without one close."""

HEARTBEAT_MS = 300_000
"""Half of the time after which a verdict without a heartbeat counts as closed."""

Z_STILL = 3.0
"""What was said to be at risk stays so above it: near the bar a verdict would come and go."""

PLAN = Evidence(text="Plan the check or exchange for working hours: nothing waits for this part yet", metric=ACTION)


class Drift(NamedTuple):
    """One series on its way: the line, in the direction of the limit, and when it is there, in points of the rung.
    `beside`: the slope is that of what it is less its peers."""

    limit: Limit
    rung: Rung
    slope: Slope
    arrival: Arrival
    beside: bool

    @property
    def hours(self) -> float:
        return self.arrival.likely * self.rung.hours


Which = Callable[[int, int], Limit | None]
"""The limit of the series in a row and column of a ladder; None where it is not judged."""


def drifts(
    ladder: Ladder, rungs: Sequence[int], which: Which, beside: Mapping[int, int], at_risk: Collection[tuple[str, str]]
) -> dict[tuple[str, int], Drift]:
    """What drifts by these rungs, by row and column. `beside` names the column that says a column less its
    peers; `at_risk` are rows and names of limits of which it was said already."""
    found: dict[tuple[str, int], Drift] = {}
    rows, columns = len(ladder.rows), ladder.columns
    limits = {(r, c): limit for r in range(rows) for c in range(columns) if (limit := which(r, c)) is not None}
    for rung, points in ((RUNGS[i], ladder.points(i)) for i in rungs if limits):
        series: Floats = np.stack([_towards(limit) * points[place] for place, limit in limits.items()])
        rises = (concordance(series) >= LEAST_CONCORDANCE / 2).tolist()
        for ((r, c), limit), values, rise in zip(limits.items(), series, rises, strict=True):
            if not rise:
                continue
            bar = Z_STILL if (ladder.rows[r], limit.name) in at_risk else Z
            other = _towards(limit) * points[r, beside[c]] if c in beside else None
            slope = rising(values, bar) if other is None or not _told(other) else _apart(values, other, bar)
            if slope is None:
                continue
            when = arrival(slope, _towards(limit) * limit.limit)
            drift = Drift(limit, rung, slope, when, other is not None and _told(other))
            known = found.get((ladder.rows[r], c))
            if when.likely <= AHEAD * rung.points and (known is None or drift.hours < known.hours):
                found[ladder.rows[r], c] = drift
    return found


def _towards(limit: Limit) -> float:
    return -1.0 if limit.falling else 1.0


def _told(beside: Floats) -> bool:
    """Whether there were peers for at least half of the window."""
    return int(np.count_nonzero(~np.isnan(beside))) >= len(beside) // 2


def _apart(own: Floats, beside: Floats, bar: float) -> Slope | None:
    """The slope of what a series is less its peers, where it surely leaves them, on the series' own line: load and
    season, which all share, make the own slope unsure. At least half of it must be the series' own way: peers that get
    better are no risk."""
    apart = rising(beside, bar)
    line = None if apart is None else rising(own, -np.inf)
    if apart is None or line is None or line.slope < apart.slope / 2:
        return None
    return apart._replace(
        value=line.value,
        value_low=line.value + apart.value_low - apart.value,
        value_high=line.value + apart.value_high - apart.value,
        first=line.first,
        at=line.at,
    )


def rule(limit: Limit) -> Rule:
    return Rule(f"{RISK}{limit.name}", "degradation", LASTING)


def say(drift: Drift, who: str) -> Verdict:
    """The words: how far it has come, at which pace, what the limit is, and when it is there."""
    limit, rung, slope, when, _ = drift
    sign = _towards(limit)
    span_h = float(rung.hours * (rung.points - 1 - slope.at))
    moved = f"{limit.words} of {who} {'fell' if limit.falling else 'rose'} from {limit.show(sign * slope.first)} to "
    moved += f"{limit.show(sign * slope.value)} in {spoken(span_h)}"
    told = f"{moved}; {limit.why}; at this pace it is there {_when(when, rung)}"
    return Verdict(
        cause=limit.cause,
        confidence=limit.confidence,
        score=1.0,
        summary=f"{moved}, at its limit {_soon(when, rung)}",
        evidence=(
            Evidence(text=told, metric=limit.metric, value=sign * slope.value, baseline=sign * slope.first),
            Evidence(text=_grounds(drift), metric="slope", value=slope.z),
            PLAN,
        ),
    )


def _grounds(drift: Drift) -> str:
    a_day = 24.0 / drift.rung.hours
    low, likely, high = (f"{value * a_day:.3g}" for value in (drift.slope.low, drift.slope.slope, drift.slope.high))
    unit = " K" if drift.limit.falling else ""
    beside = " beside the node's other GPUs" if drift.beside else ""
    return (
        f"median slope{beside} over {drift.rung.words}: {likely}{unit} a day, between {low} and {high} in nine of ten "
        f"cases; {drift.slope.z:.1f} standard deviations from none"
    )


def _soon(when: Arrival, rung: Rung) -> str:
    return "now" if when.likely == 0 else f"in {spoken(when.likely * rung.hours)}"


def _when(when: Arrival, rung: Rung) -> str:
    if when.likely == 0:
        return "now"
    soonest, latest = spoken(when.soonest * rung.hours), spoken(when.latest * rung.hours)
    return f"in {spoken(when.likely * rung.hours)} (between {soonest} and {latest})"


def spoken(hours: float) -> str:
    """A span as one says it.

    >>> [spoken(x) for x in (5, 40, 24 * 843, float("inf"))]
    ['5 hours', '40 hours', '2.3 years', 'never']
    """
    if hours == float("inf"):
        return "never"
    if hours < 72:
        return f"{max(hours, 1):.0f} hours"
    return f"{hours / 24:.0f} days" if hours < 24 * 700 else f"{hours / 24 / 365:.1f} years"


class Watched(NamedTuple):
    """One subject's findings: what it is called and who it is."""

    who: str
    subject: Subject


def observed(
    found: Mapping[tuple[str, int], Drift],
    judged: Mapping[tuple[str, int], Limit],
    whole: bool,
    watched: Callable[[str], Watched],
    ts_ms: int,
    episodes: Episodes,
) -> list[Finding]:
    """One observation for each subject and limit that was judged: of several series the one that is there first speaks.
    `whole`: all rungs were judged."""
    first: dict[tuple[Rule, Subject], tuple[float, Drift | None, str]] = {}
    for key, limit in judged.items():
        drift = found.get(key)
        who, subject = watched(key[0])
        hours = float("inf") if drift is None else drift.hours
        known = first.get((rule(limit), subject))
        if known is None or hours < known[0]:
            first[rule(limit), subject] = (hours, drift, who)
    said: list[Finding] = []
    for (what, subject), (_, drift, who) in first.items():
        if drift is not None or not episodes.idle(what):
            words = None if drift is None else partial(say, drift, who)
            active = True if drift is not None else False if whole else None
            said += episodes.observe(what, subject, active, ts_ms, words)
    return said


def heartbeats(episodes: Episodes, rules: Sequence[Rule], ts_ms: int) -> list[Finding]:
    """What is open stays open between two judgements."""
    said: list[Finding] = []
    for each in rules if not episodes.idle() else ():
        for subject in episodes.open(each):
            said += episodes.observe(each, subject, None, ts_ms)
    return said


def close_others(episodes: Episodes, rules: Sequence[Rule], here: Collection[Subject], ts_ms: int) -> list[Finding]:
    """End what was said of subjects that are not here any more."""
    said: list[Finding] = []
    for each in rules if not episodes.idle() else ():
        for subject in episodes.open(each):
            if subject not in here:
                said += episodes.close(each, subject, ts_ms)
    return said
