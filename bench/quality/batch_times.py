"""Batch times without waiting peers: who is named, beside other rules; and how small a slowdown is still named.

The recorded jobs are judged as they are. For the curve the quiet job is the background: one worker, or all of them,
take longer by a factor from the middle on (semi-synthetic).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from detectors.job.batch_times import MEMORY, READY, BatchTimeDetector
from detectors.job.past import MAD_TO_SIGMA
from lockstep.analyze.batch_times import batches
from lockstep.analyze.recording import Input

FOLDER = "traces/alibaba"
NEEDS = "."
"""Any file will do: names differ from one set to the next."""

TRUTH: dict[str, list[str]] = {"minibatch_job_1_norm": ["6"], "minibatch_job_2_norm": []}
"""The stragglers that the recorded jobs are known for. Others are only told."""

QUIET = "minibatch_job_2_norm"
FACTORS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0)

Rounds = list[dict[str, float]]


def run(folder: Path) -> dict[str, Any]:
    """Every `minibatch_job_*_norm.csv.gz` of the folder."""
    jobs = {path.name.partition(".")[0]: _rounds(path) for path in sorted(folder.glob("minibatch_job_*_norm.csv*"))}
    answer: dict[str, Any] = {"recorded": {name: recorded(name, rounds) for name, rounds in jobs.items()}}
    if QUIET in jobs:
        answer["curve"] = [_line(jobs[QUIET], factor) for factor in FACTORS]
    return answer


main = run


def recorded(name: str, rounds: Rounds) -> dict[str, Any]:
    """What is said of one job as it is, by ours and by other rules (each worker they ever call slow)."""
    said = ours(rounds)
    truth = TRUTH.get(name)
    right = None if truth is None else {s["worker"] for s in said} == set(truth)
    return {"truth": truth, "right": right, "said": said, "others": {rule: say(rounds) for rule, say in RULES.items()}}


def ours(rounds: Rounds) -> list[dict[str, Any]]:
    """The verdicts that open, with the round of onset and of the verdict."""
    detector = BatchTimeDetector("bench", "job")
    said = []
    for number, times in enumerate(rounds):
        for f in detector.update(1000 * number, number, times):
            if f.state == "open":
                worker = "the job" if f.subject.scope == "job" else str(f.subject.rank)
                said.append({"worker": worker, "onset": f.onset_step, "detected": f.detected_step})
    return said


def largest_time(rounds: Rounds) -> list[str]:
    """Whoever is more than 10 % over the median of all workers in half of the rounds."""
    return _often(rounds, lambda times, w: times[w] > 1.1 * float(np.median(list(times.values()))))


def own_past(rounds: Rounds) -> list[str]:
    """Whoever is 10 % over the mean of its own first rounds in 4 of 8, the others' common motion left in."""
    first = {w: float(np.mean([r[w] for r in rounds[:READY] if w in r])) for w in rounds[0]}
    return _windowed(rounds, lambda n, w: rounds[n].get(w, 0.0) > 1.1 * first[w])


def three_sigma(rounds: Rounds) -> list[str]:
    """Whoever is 3 spreads over its own last rounds, once."""
    found = []
    for w in rounds[0]:
        times = [r[w] for r in rounds if w in r]
        for n in range(READY, len(times)):
            past = np.array(times[max(0, n - MEMORY) : n])
            spread = MAD_TO_SIGMA * float(np.median(np.abs(past - np.median(past))))
            if times[n] > np.median(past) + 3 * max(spread, 1e-9):
                found.append(w)
                break
    return found


RULES: dict[str, Callable[[Rounds], list[str]]] = {
    "over the median of all": largest_time,
    "over its own first rounds": own_past,
    "3 sigma of its own past": three_sigma,
}


def text(answer: dict[str, Any]) -> str:
    """For a terminal."""
    out = [] if answer["recorded"] else ["no minibatch_job_*_norm.csv.gz here"]
    for name, found in answer["recorded"].items():
        verdict = {True: "right", False: "WRONG", None: "told"}[found["right"]]
        said = ", ".join(f"worker {s['worker']} (round {s['onset']}, told {s['detected']})" for s in found["said"])
        out.append(f"{name} ({found['truth']}) {verdict}: {said or 'nobody'}")
        out += [f"    {rule}: {', '.join(who) or 'nobody'}" for rule, who in found["others"].items()]
    for line in answer.get("curve", []):
        out.append(
            f"x{line['factor']:<5} one worker: named {line['named']} of {line['workers']}, others {line['others']}, "
            f"delay {line['delay_rounds']}; all of them: {line['together']}"
        )
    return "\n".join(out)


def _rounds(path: Path) -> Rounds:
    rounds: Rounds = [{}]
    for batch in batches(Input(path, "batch-times")):
        if batch.worker in rounds[-1]:
            rounds.append({})
        rounds[-1][batch.worker] = batch.batch_time
    return rounds


def _line(rounds: Rounds, factor: float) -> dict[str, Any]:
    since, named, others, delays = len(rounds) // 2, 0, 0, []
    for worker in rounds[0]:
        said = ours(_slowed(rounds, {worker}, factor, since))
        hits = [s for s in said if s["worker"] == worker]
        named, others = named + bool(hits), others + len(said) - len(hits)
        delays += [s["detected"] - since + 1 for s in hits]
    together = ours(_slowed(rounds, set(rounds[0]), factor, since))
    return {
        "factor": factor,
        "workers": len(rounds[0]),
        "named": named,
        "others": others,
        "delay_rounds": float(np.median(delays)) if delays else None,
        "together": ", ".join(s["worker"] for s in together) or "nobody",
    }


def _slowed(rounds: Rounds, who: set[str], factor: float, since: int) -> Rounds:
    return [
        {w: time * (factor if w in who and n >= since else 1.0) for w, time in times.items()}
        for n, times in enumerate(rounds)
    ]


def _often(rounds: Rounds, slow: Callable[[dict[str, float], str], bool]) -> list[str]:
    return [w for w in rounds[0] if sum(slow(r, w) for r in rounds if w in r) > len(rounds) / 2]


def _windowed(rounds: Rounds, slow: Callable[[int, str], bool]) -> list[str]:
    hits = {w: [slow(n, w) for n in range(len(rounds))] for w in rounds[0]}
    return [w for w, seen in hits.items() if any(sum(seen[n : n + 8]) >= 4 for n in range(READY, len(seen)))]
