"""Every cause that the simulator can show, straight through a worker's partitions: found, right, and how soon.

    python -m bench.matrix [CAUSE ...] [--racks 2] [--job-size 128] [--seeds 3] [--dose 0.5 1 2] [--out FILE]

All of it is simulated, in telemetry time: the real collectors read the simulated fleet, the records go through the
partitions of one worker in memory, without a broker. A `healthy` row counts the incidents where nothing was put in.
All causes go on from one healthy past, each in a process forked from it: until a fault begins nothing differs.
What is in FILE (JSON lines) already is not run again, so a long matrix can be stopped and continued.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from msgspec.structs import replace

from bench.targets import HANGS, RANK_BY_RAS_S, RANK_S, STRAGGLERS, target_s
from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import Incident
from schemas.causes import Cause
from simulator.faults import FAULTS, UNUSED
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings
from simulator.target import Truth
from streams.in_memory import InMemory
from streams.plan import detection, load_model

START_MS = 1_700_000_000_000
LEAST_ONSET_S, ONSET_STEPS = 60.0, 100
"""A fault begins when a job's past is known: 90 steps are the longest warm-up of any test (`detectors.job.stalls`)."""

HEALTHY = "healthy"

WATCHED_S = 60
WATCHED_STEPS = {"sporadic_stall": 300}
"""Seconds that are looked at after the onset, or steps: of a stall in one of twenty steps, 300 hold fifteen."""


class Outcome(NamedTuple):
    """What became of one fault, in seconds of telemetry time from its onset; None where it was not said.

    `first_s`: the first word on the right place, `paged_s`: the first confirmed one (what pages), `job_s`: the first
    confirmed one on the job's standstill, whoever is blamed. `paged_as` is the cause given with the page, `right_cause`
    is about the newest word.
    """

    cause: str
    seed: int
    severity: float | None
    gpus: int
    ranks: int
    step_s: float
    found: bool
    right_place: bool
    right_cause: bool
    first_s: float | None
    paged_s: float | None
    job_s: float | None
    paged_as: str
    incidents: int
    said: str
    wall_s: float
    ras: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Which run this was."""
        return self.cause, self.seed, self.severity, self.gpus, self.ranks, self.step_s, self.ras


class Past:
    """A healthy fleet and what watches it, up to the moment at which faults begin; `settings` have none."""

    def __init__(self, settings: FleetSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder

    @cached_property
    def _lived(self) -> tuple[SimulatedFleet, Agents, InMemory, list[Incident]]:
        fleet = SimulatedFleet(self._settings, "bench", self._settings.start_ms)
        agents = Agents(fleet, "bench", 1, self._folder, Counters())
        pipeline = InMemory(detection(load_model("")), Counters())
        return fleet, agents, pipeline, _watch(agents, pipeline, int(self._settings.onset_s))

    def run(self, settings: FleetSettings, watched_s: int) -> Outcome:
        """Go on with a fault, in another process."""
        began = time.perf_counter()
        fleet, agents, pipeline, said = self._lived
        fork = multiprocessing.get_context("fork")
        outcomes: multiprocessing.SimpleQueue[Outcome] = fork.SimpleQueue()

        def go_on() -> None:
            fleet.put_in(settings)
            every = said + _watch(agents, pipeline, watched_s)
            outcomes.put(judged(settings, time.perf_counter() - began, fleet.truth, every))

        process = fork.Process(target=go_on)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{settings.fault or 'healthy'}: ended with {process.exitcode}")
        return outcomes.get()


def _watch(agents: Agents, pipeline: InMemory, seconds: int) -> list[Incident]:
    """Every revision of every incident of so many seconds."""
    return [record for _ in range(seconds) for record in pipeline.take(agents.tick()) if isinstance(record, Incident)]


def judged(settings: FleetSettings, wall_s: float, truth: Truth, said: list[Incident]) -> Outcome:
    """Compare the incidents with the truth; the best incident counts, the others are counted."""
    onset_ms = settings.start_ms + int(settings.onset_s * 1000)
    newest = {incident.id: incident for incident in said}
    spoken = {i.id for i in said if i.state == "confirmed"}
    incidents = [incident for id_, incident in newest.items() if id_ in spoken]
    faulty = bool(truth.fault)

    def marks(incident: Incident) -> tuple[bool, bool]:
        return (here(incident, truth), incident.cause == truth.fault) if faulty else (False, False)

    best = max(incidents, key=lambda i: (sum(marks(i)), -i.detected_ms), default=None)
    place, right = marks(best) if best else (not faulty, not faulty)
    of_best = [i for i in said if best and faulty and i.id == best.id and here(i, truth)]
    paged = [i for i in of_best if i.state == "confirmed"]
    standing = [i for i in said if i.state == "confirmed" and i.kind == "hang"]

    def after(found: Sequence[Incident]) -> float | None:
        return min(((i.ts_ms - onset_ms) / 1000 for i in found), default=None)

    words = [f"{i.scope} {i.cause} {','.join(c.label() for c in i.culprits[:2])} [{i.state}]" for i in incidents]
    return Outcome(
        cause=settings.fault or HEALTHY,
        seed=settings.seed,
        severity=settings.severity,
        gpus=settings.racks * settings.trays * 4,
        ranks=settings.job_size,
        step_s=settings.step_s,
        found=best is not None,
        right_place=place,
        right_cause=right,
        first_s=after(of_best),
        paged_s=after(paged),
        job_s=after(standing),
        paged_as=paged[0].cause if paged else "",
        incidents=len(incidents),
        said="; ".join(words),
        wall_s=round(wall_s, 1),
        ras=settings.ras,
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
    parser.add_argument("causes", nargs="*", default=[HEALTHY, *FAULTS], metavar="CAUSE")
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--trays", type=int, default=18, help="trays of 4 GPUs in a rack (default 18)")
    parser.add_argument("--job-size", type=int, default=128)
    parser.add_argument("--step-s", type=float, default=0.96, help="seconds of a healthy step (default 0.96)")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--severity", type=float, help="of all the causes; else each fault's own")
    parser.add_argument("--dose", type=float, nargs="+", default=[1.0], help="parts or multiples of each fault's own")
    parser.add_argument("--seconds", type=int, help=f"seconds after the onset (default {WATCHED_S})")
    parser.add_argument("--ras", action="store_true", help="NCCL's RAS is asked when the job stands still")
    parser.add_argument("--out", type=Path, help="JSON lines to add to, and to continue from")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    given = parser.parse_args()
    outcomes = _known(given.out)
    done = {outcome.key for outcome in outcomes}
    for seed in range(1, given.seeds + 1):
        healthy = FleetSettings(
            racks=given.racks,
            trays=given.trays,
            job_size=given.job_size,
            seed=seed,
            onset_s=max(LEAST_ONSET_S, float(int(ONSET_STEPS * given.step_s))),
            step_s=given.step_s,
            start_ms=START_MS,
            ras=given.ras,
        )
        with TemporaryDirectory() as folder:
            past = Past(healthy, Path(folder))
            for cause in given.causes:
                for severity in [given.severity] if given.severity else severities(cause, given.dose):
                    settings = replace(healthy, fault="" if cause == HEALTHY else cause, severity=severity)
                    if _key(settings) in done:
                        continue
                    watched_s = given.seconds or max(WATCHED_S, int(WATCHED_STEPS.get(cause, 0) * given.step_s))
                    outcome = past.run(settings, watched_s)
                    outcomes.append(outcome)
                    if given.out:
                        with given.out.open("a") as file:
                            file.write(json.dumps(outcome._asdict()) + "\n")
                    if given.format == "text":
                        show(outcome)
    if given.format == "json":
        json.dump([outcome._asdict() for outcome in outcomes], sys.stdout, indent=1)
    else:
        print(*summary(outcomes), sep="\n")


def severities(cause: str, doses: Sequence[float]) -> list[float | None]:
    """The severities that are so many times a fault's own effect; once None where it has no severity."""
    fault = FAULTS.get(cast(Cause, cause))
    if fault is None or fault.meaning == UNUSED:
        return [None]
    least = 1.0 if fault.ratio else 0.0
    return [None if dose == 1.0 else round(least + (fault.severity - least) * dose, 3) for dose in doses]


def show(o: Outcome) -> None:
    """One line while the matrix goes on."""
    print(
        f"{o.cause:26} {_size(o):>6} seed {o.seed}  {_mark(o):6} {_s(o.first_s):>5} {_s(o.paged_s):>5}  "
        f"{o.incidents} incident(s): {o.said}",
        flush=True,
    )


def summary(outcomes: Iterable[Outcome]) -> list[str]:
    """A table in Markdown, a line for each cause and size, and the medians beside their targets."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for o in outcomes:
        rows.setdefault((o.cause, _size(o)), []).append(o)
    out = [
        "",
        "| cause | severity | runs | place | cause | other incidents | first word | page | target |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (cause, size), of in rows.items():
        place, right = sum(o.right_place for o in of), sum(o.right_cause and o.right_place for o in of)
        others = sum(o.incidents - (o.found and o.right_place and cause != HEALTHY) for o in of)
        first, paged = (median(_late(o.first_s) for o in of), median(_late(o.paged_s) for o in of))
        target = target_s(cause, of[0].step_s)
        target_text = "" if target is None else f"{target:.0f} s"
        out.append(
            f"| {cause} | {size} | {len(of)} | {place} | {right} | {others} | {_s(first)} | {_s(paged)} | "
            f"{target_text} |"
        )
    every = [o for of in rows.values() for o in of]
    for step_s in sorted({o.step_s for o in every}):
        slow = [_late(o.paged_s) for o in every if o.cause in STRAGGLERS and o.step_s == step_s]
        hangs = [o for o in every if o.cause in HANGS and o.step_s == step_s and not o.ras]
        by_ras = [o for o in every if o.cause in HANGS and o.step_s == step_s and o.ras]
        if slow:
            target = target_s(STRAGGLERS[0], step_s)
            out.append(
                f"stragglers, steps of {step_s:g} s: median {_s(median(slow))} of {len(slow)}, target {target:.1f} s"
            )
        if hangs:
            target = target_s(HANGS[0], step_s)
            job, rank = median(_late(o.job_s) for o in hangs), median(_late(o.paged_s) for o in hangs)
            out.append(
                f"hangs, steps of {step_s:g} s: the job median {_s(job)}, slowest "
                f"{_s(max(_late(o.job_s) for o in hangs))} of {len(hangs)}, target {target:.1f} s; the rank median "
                f"{_s(rank)}, slowest {_s(max(_late(o.paged_s) for o in hangs))}, target {RANK_S:.0f} s"
            )
        if by_ras:
            slowest = max(_late(o.paged_s) for o in by_ras)
            out.append(
                f"hangs, steps of {step_s:g} s, RAS asked: the rank slowest {_s(slowest)} of {len(by_ras)}, target "
                f"{RANK_BY_RAS_S:.0f} s where nothing else knows"
            )
    return out


def _known(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def _key(s: FleetSettings) -> tuple[object, ...]:
    return s.fault or HEALTHY, s.seed, s.severity, s.racks * s.trays * 4, s.job_size, s.step_s, s.ras


def _mark(o: Outcome) -> str:
    return (
        "right" if o.right_place and o.right_cause else "place" if o.right_place else "cause" if o.right_cause else "-"
    )


def _size(o: Outcome) -> str:
    return "" if o.severity is None else f"{o.severity:g}"


def _late(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _s(seconds: float | None) -> str:
    return "" if seconds is None or seconds == float("inf") else f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
