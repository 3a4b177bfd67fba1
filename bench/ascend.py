"""How well the step detector does on the Ascend fail-slow runs: real faults, real victims.

    python -m bench.ascend --data DIR [--format json] [--runs 4,7]

DIR holds ranks.parquet (step times) and runs.csv (what was injected where). Every run is judged alone and online, by
`lockstep analyze` itself; labels are read only afterwards. Every revision of every incident counts at the step in
which it was written. A run is right when the injected subject (the rank, the node, the job) is named between the first
and the last injected step; wrong when only others are; clean runs must have no incident that is ever confirmed or open
at the end. `others` counts runs in which somebody else was named too, at any step.
"""

import argparse
import csv
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.job import JobRecord
from lockstep.analyze.judge import fold, revisions
from lockstep.analyze.recording import Input, Run
from lockstep.analyze.steps import read
from schemas.incident import Incident
from schemas.step import StepFrame

JOB_WIDE = ("job", "group")


class Label(NamedTuple):
    """What was injected into one run."""

    run: int
    case: str
    dose: str
    config: str
    scope: str
    rank: int | None
    cause: str
    first: int | None
    last: int | None
    mode: str


class Word(NamedTuple):
    """One thing said: of whom, why, and at which step."""

    scope: str
    rank: int | None
    cause: str
    step: int


class Outcome(NamedTuple):
    """What was said of one run. `verdict` is right, wrong, missed, or alarmed or quiet for clean runs; `delay` the
    steps from injection to the right word, `words` each different word once, at its first step."""

    label: Label
    verdict: str
    delay: int | None
    cause: str | None
    others: bool
    words: tuple[Word, ...]


def labels(path: Path) -> dict[int, Label]:
    """The runs of runs.csv by number."""
    out = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            number = int(row["run_idx"])
            out[number] = Label(
                number,
                row["case"],
                row["dose"],
                row["config"],
                row["scope"],
                int(float(row["culprit_rank"])) if row["culprit_rank"] else None,
                row["fault_class"],
                int(float(row["inject_from_step"])) if row["inject_from_step"] else None,
                int(float(row["inject_to_step"])) if row["inject_to_step"] else None,
                row["mode"],
            )
    return out


def outcome(label: Label, words: Sequence[Word]) -> Outcome:
    """Compare what was said with what was injected."""
    if label.scope == "none" or label.first is None or label.last is None:
        return Outcome(label, "alarmed" if words else "quiet", None, None, False, tuple(words))
    # What was said before and still stands when the fault begins is said of it too.
    inside = [w for w in words if w.step <= label.last]
    right = [w for w in inside if _right(label, w)]
    others = any(not _right(label, w) for w in words)
    if not right:
        verdict = "wrong" if any(w.step >= label.first for w in inside) else "missed"
        return Outcome(label, verdict, None, None, others, tuple(words))
    delay = max(right[0].step - label.first, 0)
    return Outcome(label, "right", delay, right[-1].cause, others, tuple(words))


def _right(label: Label, word: Word) -> bool:
    if label.scope == "rank":
        return word.rank == label.rank
    return word.scope in JOB_WIDE if label.scope == "job" else word.scope == label.scope


def said(run: Run) -> list[Word]:
    """What the incidents of one run said, those that `lockstep analyze` reports."""
    words: dict[str, list[Word]] = defaultdict(list)
    step = 0

    def watched() -> Iterator[tuple[int, list[JobRecord]]]:
        nonlocal step
        for tick_ms, records in run.ticks:
            step = max((s.step for r in records if isinstance(r, StepFrame) for s in r.steps), default=step)
            yield tick_ms, records

    watched_run = msgspec.structs.replace(run, ticks=watched())
    history = list(_with_steps(watched_run, lambda: step))
    for incident, at in history:
        for subject in incident.culprits or (None,):
            rank = subject.rank if subject is not None else None
            scope = subject.scope if subject is not None else incident.scope
            exact = incident.detected_step if incident.revision == 0 and incident.detected_step is not None else at
            word = Word(scope, rank, incident.cause, exact)
            if not any((w.scope, w.rank, w.cause) == (word.scope, word.rank, word.cause) for w in words[incident.id]):
                words[incident.id].append(word)
    reported = {i.id for i in fold(incident for incident, _ in history)}
    return sorted((w for id_, ws in words.items() if id_ in reported for w in ws), key=lambda w: w.step)


def _with_steps(run: Run, step: Callable[[], int]) -> Iterator[tuple[Incident, int]]:
    for incident in revisions(run, lambda *_: None):
        yield incident, step()


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of k in n."""
    if not n:
        return (0.0, 1.0)
    z, p = 1.96, k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (round(max(middle - half, 0.0), 3), round(min(middle + half, 1.0), 3))


def table(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """Counts by scope, mode and dose."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for o in outcomes:
        groups[o.label.scope, o.label.mode, "-" if o.label.scope == "none" else o.label.dose].append(o)
    rows: list[dict[str, object]] = []
    for (scope, mode, dose), members in sorted(groups.items()):
        count = {v: sum(o.verdict == v for o in members) for v in ("right", "wrong", "missed", "alarmed", "quiet")}
        delays = [o.delay for o in members if o.delay is not None]
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
                "others_named": sum(o.others for o in members),
            }
        )
    return rows


def run(data: Path, only: Sequence[int] = ()) -> list[Outcome]:
    """Judge the runs of `data`, all or those in `only`."""
    known = labels(data / "runs.csv")
    out = []
    for recording in read([Input(data / "ranks.parquet", "steps")], lambda *_: None):
        if recording.run is None or (only and recording.run not in only):
            continue
        out.append(outcome(known[recording.run], said(recording)))
        if sys.stderr.isatty():
            sys.stderr.write(f"\rrun {recording.run} ")
    return out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--runs", default="", help="numbers of runs, separated by commas")
    args = parser.parse_args()
    outcomes = run(args.data, [int(n) for n in args.runs.split(",") if n])
    rows = table(outcomes)
    if args.format == "json":
        runs = [o._asdict() | {"label": o.label._asdict(), "words": [w._asdict() for w in o.words]} for o in outcomes]
        print(json.dumps({"table": rows, "runs": runs}, indent=1))
        return
    for o in outcomes:
        print(
            f"{o.label.run:3} {o.label.case:9}{o.label.config[:3]}{o.label.scope:5}{o.verdict:8}{o.delay!s:5}",
            *map(tuple, o.words),
        )
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
