"""The sentences of a job's verdicts: what moved, against which past and peers, by how much."""

from detectors.incident.cause import Verdict as CauseVerdict
from detectors.job.blame import LateRank, SlowLinks
from detectors.job.progress import Standstill
from detectors.job.shift import Shift
from detectors.job.step_culprit import HeavyRank, StepCulprit
from schemas.causes import CAUSES
from schemas.finding import Evidence, Subject


def arrival_evidence(late: LateRank) -> Evidence:
    """The argmin rule's word on one rank."""
    peers = late.group.size - 1
    than = "later than its peers, from the first one on" if late.standing else "later than in its own past"
    return Evidence(
        text=(
            f"rank {late.rank} came last to {late.hits} {late.stream.function} of {late.group.label()}, "
            f"{ms(late.delay_us)} {than}; its {peers} peers there waited directly"
        ),
        metric="exec_time_us",
        value=late.delay_us,
        baseline=0.0,
        unit="us",
    )


def step_evidence(c: StepCulprit) -> tuple[Evidence, Evidence]:
    """The two sides of the two-sided rule."""
    own = Evidence(
        text=f"rank {c.rank} takes {ms(c.self_us)} a step without its waits, usually {ms(c.self_past_us)}",
        metric="self_us",
        value=c.self_us,
        baseline=c.self_past_us,
        unit="us",
    )
    peers = Evidence(
        text=(
            f"its peers wait {ms(c.excess_us)} more for it in each step; "
            f"the step takes {ms(c.step_us)}, usually {ms(c.step_past_us)}"
        ),
        metric="step_us",
        value=c.step_us,
        baseline=c.step_past_us,
        peers=c.peers_wait_us,
        unit="us",
    )
    return own, peers


def heavy_evidence(h: HeavyRank, what: str) -> tuple[Evidence, Evidence]:
    """Work of one rank up, and the job slower with it."""
    return (
        Evidence(
            text=f"rank {h.rank} has {what} {h.work:g} a step, usually {h.work_past:g}; its peers' did not change",
            metric="work",
            value=h.work,
            baseline=h.work_past,
        ),
        Evidence(
            text=f"the step takes {ms(h.step_us)}, usually {ms(h.step_past_us)}",
            metric="step_us",
            value=h.step_us,
            baseline=h.step_past_us,
            unit="us",
        ),
    )


def shift_evidence(s: Shift, world: int) -> tuple[Evidence, ...]:
    """A job slower as a whole, and whose own time rose with it."""
    step = Evidence(
        text=f"the step takes {ms(s.step_us)} on average, usually {ms(s.step_past_us)}",
        metric="step_us",
        value=s.step_us,
        baseline=s.step_past_us,
        unit="us",
    )
    if s.in_turn:
        text = f"whoever is last holds the step up by {ms(s.delay_us)} on average, usually {ms(s.delay_past_us)}"
        return step, Evidence(text=text, metric="delay_us", value=s.delay_us, baseline=s.delay_past_us, unit="us")
    if not s.moved:
        return (step,)
    text = (
        f"{s.moved} of {world} ranks spend more time by themselves together "
        f"({ms(s.own_us)} a step at the median, usually {ms(s.own_past_us)}), and no single one is waited for"
    )
    return step, Evidence(text=text, metric="self_us", value=s.own_us, baseline=s.own_past_us, unit="us")


def slow_evidence(slow: SlowLinks) -> tuple[Evidence, ...]:
    """The transfer itself is slow: T up, spread flat."""
    stream, says = slow.worst
    group = next(g for g in slow.groups if g.id == stream.communicator)
    rise = says.rise
    first = Evidence(
        text=(
            f"{stream.function} on {group.label()} takes {ms(says.t_us)} from the last arrival on, usually "
            f"{ms(says.t_past_us)} ({rise:.1f} times); nobody is late (spread {ms(says.spread_us)})"
        ),
        metric="exec_time_us",
        value=says.t_us,
        baseline=says.t_past_us,
        unit="us",
    )
    others = ""
    if slow.fast_peers:
        fast = "1 other group that does" if slow.fast_peers == 1 else f"{slow.fast_peers} other groups that do"
        others = f"{fast} the same {'is' if slow.fast_peers == 1 else 'are'} as fast as usual"
    second = ("1 group is slow" if len(slow.groups) == 1 else f"{len(slow.groups)} groups are slow") + (
        f", {others}" if others else ""
    )
    return first, Evidence(text=second, value=float(len(slow.groups)))


def hang_evidence(s: Standstill) -> Evidence:
    """Which collective everybody is in, and for how long nothing has finished."""
    name, function, sn = s.last
    return Evidence(
        text=(
            f"no rank has finished a collective for {s.deadline_ms / 1000:.0f} s, far above the job's rhythm; "
            f"the last one was {function} number {sn} of {name}"
        ),
        metric="last_sn",
        value=float(sn),
    )


HANG_WORDS = {
    "not_entered": "has not entered the collective that its peers wait in",
    "stuck": "does not get out of the collective",
    "gone": "is gone while its peers wait",
    "transport": "is in a collective that all have entered and that moves nothing",
    "unknown": "stands still; who is waited for is not visible",
}


def straggler_summary(who: Subject, cause: CauseVerdict, victims: int, slowdown: float | None, delay: str) -> str:
    """One line for a pager."""
    slower = f", job {slowdown:.2f} times slower" if slowdown is not None and slowdown >= 1.005 else ""
    why = f": {CAUSES[cause.cause].words}" if cause.cause != "unknown" else ""
    return f"{who.label()} holds up {victims} rank{'s' if victims != 1 else ''} by {delay}{slower}{why}"


def ms(us: float) -> str:
    """Microseconds in words: "3.02 ms"."""
    return f"{us / 1000:.{1 if us >= 10_000 else 2}f} ms"
