"""Pipeline traces: who is named, beside other rules; and how small a slowdown of one worker is still named.

The recorded traces are judged as they are. For the curve they are the background: the recorded culprit is put right
(its times divided by its own excess), then each of some workers is slowed by a factor from the middle on; that part is
semi-synthetic. Only the first STEPS steps of each trace are used there.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from detectors.pipeline.grid import grid
from detectors.pipeline.slowness import RISE, lower_median, typical
from lockstep.analyze.judge import judge
from lockstep.analyze.pipeline_trace import OTHER, Operation, operations, step_of, ticks
from lockstep.analyze.recording import Input, Run
from schemas.incident import Incident

FOLDER = "traces/bytedance_straggler"
NEEDS = "."
"""Any file will do: names differ from one set to the next."""

TRUTH = {"trace-AR": "dp 0 stage 0", "trace-SE": "sequence_imbalance"}
"""What the recorded traces are known for: the slow worker, or what the work suffers from. Others are only told."""

FACTORS = (1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0)
STEPS, WORKERS = 24, 6

Rows = list[Operation]


def run(folder: Path) -> dict[str, Any]:
    """Every `trace-*.parquet` of the folder."""
    traces = {path.stem: _rows(path) for path in sorted(folder.glob("trace-*.parquet"))}
    return {
        "recorded": {name: recorded(name, rows, folder) for name, rows in traces.items()},
        "curve": {name: curve(rows) for name, rows in traces.items()},
    }


main = run


def recorded(name: str, rows: Rows, folder: Path) -> dict[str, Any]:
    """What is said of one trace as it is."""
    incidents = _judged(rows)
    short = name.removeprefix("trace-")
    answers = {
        key: json.loads((folder / f"{file}-{short}.json").read_text())[key]
        for file, key in (("mw", "Mw"), ("ms", "Ms"))
        if (folder / f"{file}-{short}.json").exists()
    }
    said = [_said(incident) for incident in incidents]
    right = None
    if name in TRUTH:
        named = {s["who"] or s["cause"] for s in said}
        right = named == {TRUTH[name]}
    return {"truth": TRUTH.get(name), "right": right, "said": said, "others": _others(rows), "published": answers}


def curve(rows: Rows) -> list[dict[str, Any]]:
    """One line a factor: workers slowed, how many are named, who else, median delay in steps, the cost to the job."""
    steps = sorted({row.step for row in rows})[:STEPS]
    healthy = put_right([row for row in rows if row.step <= steps[-1]])
    since = steps[len(steps) // 2]
    workers = sorted({(row.dp, row.stage) for row in healthy})
    chosen = [workers[i] for i in np.linspace(0, len(workers) - 1, WORKERS).astype(int)]
    return [_line(healthy, steps, since, [], 1.0), *(_line(healthy, steps, since, chosen, f) for f in FACTORS)]


def text(answer: dict[str, Any]) -> str:
    """For a terminal."""
    out = [] if answer["recorded"] else ["no trace-*.parquet here"]
    for name, found in answer["recorded"].items():
        verdict = {True: "right", False: "WRONG", None: "told"}[found["right"]]
        said = "; ".join(f"{s['who'] or 'nobody'}: {s['cause']} x{s['slowdown']}" for s in found["said"]) or "nothing"
        out.append(f"{name} ({found['truth']}) {verdict}: {said}")
        out += [f"    {rule}: {who}" for rule, who in found["others"].items()]
        out.append(f"    published what-if: {found['published']}")
    for name, lines in answer["curve"].items():
        out.append(f"{name}, one worker slowed (semi-synthetic)")
        out += [
            f"    x{line['factor']:<5} named {line['named']} of {line['workers']}, others {line['others']}, "
            f"delay {line['delay_steps']}, job x{line['job']}"
            for line in lines
        ]
    return "\n".join(out)


def _rows(path: Path) -> Rows:
    return [row for row in operations(Input(path, "pipeline-trace")) if row.kind != OTHER]


def _judged(rows: Rows) -> list[Incident]:
    return judge(
        Run(None, "trace", False, ticks("trace", iter(sorted(rows, key=lambda row: row.step)))), lambda *_: None
    )


def _said(incident: Incident) -> dict[str, Any]:
    return {
        "kind": incident.kind,
        "cause": incident.cause,
        "who": ", ".join(c.group for c in incident.culprits),
        "slowdown": incident.slowdown,
        "onset": incident.onset_step,
        "detected": incident.detected_step,
    }


def _line(rows: Rows, steps: list[int], since: int, slowed: Iterable[tuple[int, int]], factor: float) -> dict[str, Any]:
    named = others = 0
    delays, costs = [], []
    truths: list[tuple[int, int] | None] = list(slowed) or [None]
    for who in truths:
        bad = [
            row._replace(duration=row.duration * factor) if (row.dp, row.stage) == who and row.step >= since else row
            for row in rows
        ]
        stragglers = [i for i in _judged(bad) if i.culprits and i.kind == "straggler"]
        for incident in stragglers:
            if who is not None and incident.culprits[0].group == f"dp {who[0]} stage {who[1]}":
                named += 1
                delays.append(steps.index(incident.detected_step or 0) - steps.index(since) + 1)
                costs.append(incident.slowdown or 1.0)
            else:
                others += 1
    return {
        "factor": factor,
        "workers": 0 if truths == [None] else len(truths),
        "named": named,
        "others": others,
        "delay_steps": float(np.median(delays)) if delays else None,
        "job": round(float(np.median(costs)), 3) if costs else None,
    }


def put_right(rows: Rows) -> Rows:
    """The trace with every worker that is 20 % slower than its stage, kind by kind, divided by its own excess."""
    first = grid(step_of([row for row in rows if row.step == rows[0].step]), RISE)
    assert first is not None
    times = typical(first.durations)
    over = times / lower_median(times, 0)
    excess = {
        (dp, stage, kind): float(over[d, s, kind])
        for d, dp in enumerate(first.dps)
        for s, stage in enumerate(first.stages)
        for kind in (0, 1)
        if (over[d, s] > 1.2).all()
    }
    return [row._replace(duration=row.duration / excess.get((row.dp, row.stage, row.kind), 1.0)) for row in rows]


def _others(rows: Rows) -> dict[str, str]:
    """What rules without stages, peers or what-if would say of the whole trace, which always or often name somebody."""
    total: dict[tuple[int, int], float] = {}
    for row in rows:
        if row.kind < 2:
            total[row.dp, row.stage] = total.get((row.dp, row.stage), 0.0) + row.duration
    fastest = min(total.values())
    behind = [who for who, time in total.items() if fastest / time < 0.7]
    longest = max(total, key=lambda who: total[who])
    return {
        "largest compute time": _names([longest]),
        "relative score (fastest over this) below 0.7": _names(behind),
    }


def _names(who: Iterable[tuple[int, int]]) -> str:
    found = [f"dp {dp} stage {stage}" for dp, stage in sorted(who)]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "") if found else "nobody"
