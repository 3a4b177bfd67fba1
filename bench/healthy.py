"""A healthy fleet for a simulated day, straight through a worker's partitions: whom it pages, and what that proves.

    python -m bench.healthy [--racks 1] [--trays 2] [--job-size 8] [--hours 24] [--seed 1]

Nothing is put in, so every incident that is confirmed is a false page. Where there is none, the true rate is below
3.0 / exposure with 95 % confidence (Poisson: e^-3 is 5 %), and that is as much as so many GPU-hours can show. Prints a
line each simulated hour; stopped early, the last line stands.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import Finding, Incident
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings
from simulator.topology import GPUS_PER_TRAY
from streams.in_memory import InMemory
from streams.plan import detection, load_model

START_MS = 1_700_000_000_000
HOUR_S = 3600

UPPER = {0: 3.00, 1: 4.74, 2: 6.30, 3: 7.75, 4: 9.15, 5: 10.51}
"""Upper end of the one-sided 95 % interval of a Poisson mean, by the number that was counted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--racks", type=int, default=1)
    parser.add_argument("--trays", type=int, default=2)
    parser.add_argument("--job-size", type=int, default=8)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--step-s", type=float, default=0.96)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    settings = FleetSettings(
        racks=given.racks,
        trays=given.trays,
        job_size=given.job_size,
        step_s=given.step_s,
        seed=given.seed,
        start_ms=START_MS,
    )
    fleet = SimulatedFleet(settings, "bench", settings.start_ms)
    pipeline = InMemory(detection(load_model("")), Counters())
    gpus = given.racks * given.trays * GPUS_PER_TRAY
    paged, suspects, findings = dict[str, Incident](), set[str](), set[str]()
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        for second in range(1, int(given.hours * HOUR_S) + 1):
            for record in pipeline.take(agents.tick()):
                if isinstance(record, Finding):
                    findings.add(record.id)
                elif isinstance(record, Incident):
                    suspects.add(record.id)
                    if record.state == "confirmed" and record.id not in paged:
                        paged[record.id] = record
                        print(f"  at {second / HOUR_S:.2f} h: {record.summary}", flush=True)
            if second % HOUR_S == 0 or second == int(given.hours * HOUR_S):
                print(
                    said(second, gpus, len(paged), len(suspects), len(findings), time.perf_counter() - began),
                    flush=True,
                )


def said(seconds: int, gpus: int, paged: int, suspects: int, findings: int, wall_s: float) -> str:
    """The line of the exposure so far."""
    exposure_h = gpus * seconds / HOUR_S
    upper = UPPER.get(paged)
    bound = "" if upper is None else f", at most {upper / exposure_h:.2g} a GPU-hour (95 %)"
    return (
        f"{seconds / HOUR_S:.2f} h of {gpus} GPUs, {exposure_h:.0f} GPU-hours: {paged} paged{bound}; "
        f"{suspects} incidents in all, {findings} findings; {seconds / wall_s:.0f} times real time"
    )


if __name__ == "__main__":
    main()
