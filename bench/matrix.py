"""Every cause that the simulator can show, straight through a worker's partitions: found, right, and how soon.

    python -m bench.matrix [CAUSE ...] [--racks 2] [--job-size 128] [--seeds 3] [--format json]

All of it is simulated, in telemetry time: the real collectors read the simulated fleet, the records go through the
partitions of one worker in memory, without a broker. A `healthy` row counts the incidents where nothing was put in.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import Incident
from schemas.causes import Cause
from simulator.faults import FAULTS
from simulator.fleet import SimulatedFleet, truth_of
from simulator.settings import FleetSettings
from simulator.target import Truth
from streams.in_memory import InMemory
from streams.plan import detection, load_model

START_MS = 1_700_000_000_000
ONSET_S, WATCHED_S = 60.0, 60


class Outcome(NamedTuple):
    """What became of one fault. `delay_s` is telemetry time from onset to the first confirmed word on that culprit."""

    cause: str
    seed: int
    severity: float | None
    found: bool
    right_place: bool
    right_cause: bool
    delay_s: float | None
    incidents: int
    said: str
    wall_s: float


def run(settings: FleetSettings, seconds: int) -> tuple[Truth, list[Incident]]:
    """Every revision of every incident of one simulated run."""
    fleet = SimulatedFleet(settings, "bench", settings.start_ms)
    pipeline, said = InMemory(detection(load_model("")), Counters()), list[Incident]()
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        for _ in range(seconds):
            said += (record for record in pipeline.take(agents.tick()) if isinstance(record, Incident))
    return truth_of(settings), said


def judged(cause: str, settings: FleetSettings, wall_s: float, truth: Truth, said: list[Incident]) -> Outcome:
    """Compare the incidents with the truth; the best incident counts, the others are counted."""
    onset_ms = settings.start_ms + int(settings.onset_s * 1000)
    newest = {incident.id: incident for incident in said}
    spoken = {i.id for i in said if i.state == "confirmed"}
    incidents = [incident for id_, incident in newest.items() if id_ in spoken]

    def marks(incident: Incident) -> tuple[bool, bool]:
        return here(incident, truth), incident.cause == truth.fault

    best = max(incidents, key=lambda i: (sum(marks(i)), -i.detected_ms), default=None)
    place, right = marks(best) if best else (False, False)
    first = min(
        (i.ts_ms for i in said if best and i.id == best.id and i.state == "confirmed" and here(i, truth)), default=None
    )
    words = [f"{i.scope} {i.cause} {','.join(c.label() for c in i.culprits[:2])} [{i.state}]" for i in incidents]
    delay_s = None if first is None else (first - onset_ms) / 1000
    severity = settings.severity
    return Outcome(
        cause,
        settings.seed,
        severity,
        best is not None,
        place,
        right,
        delay_s,
        len(incidents),
        "; ".join(words),
        wall_s,
    )


def here(incident: Incident, truth: Truth) -> bool:
    """Whether an incident points to where the fault is: the part itself, or as close as its scope can say."""
    scope = FAULTS[cast(Cause, truth.fault)].scope
    if scope in ("job", "cluster"):
        return incident.scope in ("job", "group", "stage", "cluster")
    if scope == "rack":
        return any(c.rack == truth.rack for c in incident.culprits)
    if scope == "node":
        return any(c.node == truth.node and c.scope in ("node", "rack") for c in incident.culprits) or (
            bool(incident.culprits) and all(c.node == truth.node for c in incident.culprits)
        )
    if scope == "link" and any(f"{c.node}/{c.link}" == truth.link for c in incident.culprits):
        return True
    return any(c.gpu == truth.gpu or (c.rank is not None and c.rank == truth.rank) for c in incident.culprits)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("causes", nargs="*", default=["healthy", *FAULTS], metavar="CAUSE")
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--job-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--severity", type=float)
    parser.add_argument("--seconds", type=int, default=int(ONSET_S) + WATCHED_S)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    given = parser.parse_args()
    outcomes = []
    for cause in given.causes:
        for seed in range(1, given.seeds + 1):
            settings = FleetSettings(
                racks=given.racks,
                job_size=given.job_size,
                seed=seed,
                fault="" if cause == "healthy" else cause,
                severity=given.severity,
                onset_s=ONSET_S,
                start_ms=START_MS,
            )
            began = time.perf_counter()
            truth, said = run(settings, given.seconds)
            wall_s = time.perf_counter() - began
            if cause == "healthy":
                ids = {i.id: f"{i.scope} {i.cause}" for i in said if i.state == "confirmed"}
                words = "; ".join(ids.values())
                outcome = Outcome(cause, seed, None, bool(ids), True, not ids, None, len(ids), words, wall_s)
            else:
                outcome = judged(cause, settings, wall_s, truth, said)
            outcomes.append(outcome)
            if given.format == "text":
                show(outcome)
    if given.format == "json":
        json.dump([outcome._asdict() for outcome in outcomes], sys.stdout, indent=1)


def show(o: Outcome) -> None:
    marks = (
        "right" if o.right_place and o.right_cause else "place" if o.right_place else "cause" if o.right_cause else "-"
    )
    delay = "" if o.delay_s is None else f"{o.delay_s:.0f} s"
    print(f"{o.cause:26} seed {o.seed}  {marks:6} {delay:>6}  {o.incidents} incident(s): {o.said}", flush=True)


if __name__ == "__main__":
    main()
