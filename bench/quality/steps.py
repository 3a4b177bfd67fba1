"""Stragglers in step times: our method and others side by side on labelled runs, and the smallest slowdown found.

The folder has the layout of the Ascend fail-slow set (`bench.quality.step_runs`). Every method judges every run alone
and online; labels are read afterwards.
"""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

from bench.quality.step_doses import curve, smallest
from bench.quality.step_peers import PEERS, told_window
from bench.quality.step_runs import StepRun, load
from bench.quality.step_score import Outcome, confusion, ours, outcome, table

FOLDER = "traces/ascend_failslow"
NEEDS = "ranks.parquet"


def run(folder: Path) -> dict[str, Any]:
    """Everything, as plain values."""
    runs = load(folder)
    answer = compare(runs)
    answer["recorded"] = recorded(folder / "comparator_outcomes.csv")
    doses = curve(runs, ours)
    answer["doses"] = {"semi_synthetic": True, "rows": [d._asdict() for d in doses], "smallest_found": smallest(doses)}
    return answer


def compare(runs: list[StepRun]) -> dict[str, Any]:
    """All methods on the same runs."""
    found = [outcome(run.label, ours(run)) for run in runs]
    methods = {"lockstep": table(found)}
    methods |= {name: table([outcome(r.label, say(r)) for r in runs]) for name, say in PEERS.items()}
    rank_runs = [r for r in runs if r.label.scope == "rank"]
    told = {
        name: sum(told_window(r, r.columns[column]) == r.label.rank for r in rank_runs)
        for name, column in (("largest_step", "step_us"), ("largest_compute", "compute_us"))
    }
    return {
        "runs": [_plain(o) for o in found],
        "methods": methods,
        "told_the_window": {"runs": len(rank_runs), "right": told},
        "confusion": confusion(found),
    }


def recorded(path: Path) -> list[dict[str, Any]]:
    """What ports of published tools said of sister runs, counted as recorded; they name no rank. Nothing where the
    folder has no such table."""
    if not path.exists():
        return []
    runs: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["tool"], row["dose"]
            runs[key] += 1
            found[key] += row["detect_ok"] == "True"
    return [{"tool": t, "dose": d, "runs": n, "detected": found[t, d]} for (t, d), n in sorted(runs.items())]


def text(answer: dict[str, Any]) -> str:
    """For a terminal."""
    out = []
    for o in answer["runs"]:
        label = o["label"]
        said = "; ".join(
            f"{w['scope']} {'' if w['rank'] is None else w['rank']} {w['cause']} at {w['step']}" for w in o["words"]
        )
        delay = "" if o["delay"] is None else f"after {o['delay']}"
        who = f"{label['run']:4} {label['case']:10} {label['config'][:2]:3} {label['scope']:5}"
        out.append(f"{who} {o['verdict']:8} {delay:10} {said}")
    head = (
        f"\n{'method':20}{'scope':6}{'mode':12}{'dose':8}{'runs':>5}{'right':>6}{'wrong':>6}{'unnamed':>8}{'missed':>7}"
    )
    out.append(head + f"{'alarmed':>8}{'others':>7}{'delay':>7}")
    for name, rows in answer["methods"].items():
        for r in rows:
            delay = "" if r["median_delay_steps"] is None else f"{r['median_delay_steps']:g}"
            out.append(
                f"{name:20}{r['scope']:6}{r['mode']:12}{r['dose']:8}{r['runs']:5}{r['right']:6}{r['wrong']:6}"
                f"{r['unnamed']:8}{r['missed']:7}{r['alarmed']:8}{r['runs_with_another_blamed']:7}{delay:>7}"
            )
    told = answer["told_the_window"]
    out.append(f"\ntold when to look, right of {told['runs']} rank-scope runs: {told['right']}")
    out += [
        f"recorded: {r['tool']} {r['dose']}: {r['detected']} of {r['runs']} detected, no rank"
        for r in answer["recorded"]
    ]
    out.append("\ninjected -> cause given (runs)")
    out += [f"  {cause:24} {row}" for cause, row in sorted(answer["confusion"].items())]
    if "doses" in answer:
        out.append(
            "\nsemi-synthetic: real excess scaled down, or a delay added to clean runs (slowdown: right of runs, delay)"
        )
        by_case: dict[str, list[str]] = {}
        for d in answer["doses"]["rows"]:
            mark = f"{d['slowdown']:+.1%}: {d['right']}/{d['runs']}" + (f" others {d['blamed']}" if d["blamed"] else "")
            by_case.setdefault(f"{d['cause']} ({d['case']}, {d['mode']})", []).append(
                mark + ("" if d["delay"] is None else f" {d['delay']:g}")
            )
        out += [f"  {case:46} {'  '.join(marks)}" for case, marks in by_case.items()]
        out += [f"  smallest found: {case:40} {value}" for case, value in answer["doses"]["smallest_found"].items()]
    return "\n".join(out)


def _plain(o: Outcome) -> dict[str, Any]:
    return o._asdict() | {"label": o.label._asdict(), "words": [w._asdict() for w in o.words]}
