"""Words about a run against what was injected: right, wrong, unnamed, missed; and counts of them.

Every revision of every incident counts at the step in which it was written. A run is *right* when the injected subject
(the rank, the node) is named between the first and the last injected step; *wrong* when a rank or node is named and
never the right one; *unnamed* when something was said in time and nobody in particular blamed; else *missed*. A fault
that holds for the whole job from the first step on has no onset: silence and the whole job are right, a culprit wrong.
Clean runs are *quiet* or *alarmed*. `blamed` counts ranks and nodes named beside the right one, at any step.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from bench.quality.step_runs import Label, StepRun
from detectors.job.detector import JobRecord
from lockstep.analyze.judge import fold, revisions
from lockstep.analyze.recording import Run
from schemas.incident import Incident
from schemas.step import StepFrame

JOB_WIDE = ("job", "group")
VERDICTS = ("right", "wrong", "unnamed", "missed", "alarmed", "quiet")


class Word(NamedTuple):
    """One thing said: of whom, why, and at which step."""

    scope: str
    rank: int | None
    cause: str
    step: int


class Outcome(NamedTuple):
    """What was said of one run. `delay` is the steps from injection to the right word (or the first, where nobody was
    named), `cause` the last one given in time, `words` each different word once, at its first step."""

    label: Label
    verdict: str
    delay: int | None
    cause: str | None
    blamed: int
    words: tuple[Word, ...]


def outcome(label: Label, words: Sequence[Word]) -> Outcome:
    """Compare what was said with what was injected."""
    culprits = [w for w in words if w.scope not in JOB_WIDE]
    if label.scope == "none" or label.first is None or label.last is None:
        return Outcome(label, "alarmed" if words else "quiet", None, None, len(culprits), tuple(words))
    if label.scope == "job":
        return Outcome(label, "wrong" if culprits else "right", None, None, len(culprits), tuple(words))
    late = [w for w in words if label.first <= w.step <= label.last]
    right = [w for w in late if _right(label, w)]
    other = {(w.scope, w.rank) for w in culprits if not _right(label, w)}
    if right:
        delay = right[0].step - label.first
        return Outcome(label, "right", delay, right[-1].cause, len(other), tuple(words))
    if any(w in culprits for w in late):
        return Outcome(label, "wrong", None, None, len(other), tuple(words))
    if late:
        delay = late[0].step - label.first
        return Outcome(label, "unnamed", delay, late[-1].cause, len(other), tuple(words))
    return Outcome(label, "missed", None, None, len(other), tuple(words))


def _right(label: Label, word: Word) -> bool:
    return word.rank == label.rank if label.scope == "rank" else word.scope == label.scope


def ours(run: StepRun) -> list[Word]:
    """What `lockstep analyze` says of a run, online."""
    return said(run.recording())


def said(run: Run) -> list[Word]:
    """What the incidents of one run said, those that `lockstep analyze` reports."""
    words: dict[str, list[Word]] = defaultdict(list)
    step = 0

    def watched() -> Iterator[tuple[int, list[JobRecord]]]:
        nonlocal step
        for tick_ms, records in run.ticks:
            step = max((s.step for r in records if isinstance(r, StepFrame) for s in r.steps), default=step)
            yield tick_ms, records  # type: ignore[misc]

    history: list[Incident] = []
    for incident in revisions(msgspec.structs.replace(run, ticks=watched()), lambda *_: None):
        history.append(incident)
        for subject in incident.culprits or (None,):
            rank = subject.rank if subject is not None else None
            scope = subject.scope if subject is not None else incident.scope
            exact = incident.detected_step if incident.revision == 0 and incident.detected_step is not None else step
            word = Word(scope, rank, incident.cause, exact)
            if not any((w.scope, w.rank, w.cause) == (word.scope, word.rank, word.cause) for w in words[incident.id]):
                words[incident.id].append(word)
    reported = {i.id for i in fold(history)}
    return sorted((w for id_, ws in words.items() if id_ in reported for w in ws), key=lambda w: w.step)


def table(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """Counts by scope, mode and dose."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for o in outcomes:
        groups[o.label.scope, o.label.mode, "-" if o.label.scope == "none" else o.label.dose].append(o)
    rows: list[dict[str, object]] = []
    for (scope, mode, dose), members in sorted(groups.items()):
        count = {v: sum(o.verdict == v for o in members) for v in VERDICTS}
        delays = [o.delay for o in members if o.delay is not None and o.verdict == "right"]
        good = count["quiet"] if scope == "none" else count["right"]
        rows.append(
            {
                "scope": scope,
                "mode": mode,
                "dose": dose,
                "runs": len(members),
                **count,
                "interval": wilson(good, len(members)),
                "median_delay_steps": statistics.median(delays) if delays else None,
                "runs_with_another_blamed": sum(o.blamed > 0 for o in members),
            }
        )
    return rows


def confusion(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Injected class -> cause given -> runs, of the runs that were right or unnamed."""
    out: dict[str, dict[str, int]] = {}
    for o in outcomes:
        if o.cause is not None:
            row = out.setdefault(o.label.cause, {})
            row[o.cause] = row.get(o.cause, 0) + 1
    return out


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of k in n."""
    if not n:
        return (0.0, 1.0)
    z, p = 1.96, k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (round(max(middle - half, 0.0), 3), round(min(middle + half, 1.0), 3))
