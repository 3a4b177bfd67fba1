"""Where a job hangs: Flight Recorder dumps, RAS snapshots and job logs, side by side. What lies in one folder is about
one job; each is judged by itself, and what agrees becomes one incident."""

from collections.abc import Iterator
from pathlib import Path

from detectors import flight, standstill
from detectors.flight import Dump
from lockstep.analyze import flight_recorder
from lockstep.analyze.judge import CLUSTER
from lockstep.analyze.recording import Input, Progress, Run
from schemas.finding import Finding


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per job."""
    dumps: dict[Path, Dump] = {}
    for number, input_ in enumerate(inputs, 1):
        progress("reading dumps", number)
        if input_.kind == "flight-recorder" and (dump := flight_recorder.load(input_)) is not None:
            dumps[input_.path] = dump
    for folder, some in flight_recorder.jobs(dumps).items():
        job = Path(folder).name or folder
        if len(some) == 1:
            only = next(i for i in inputs if str(i.path.parent) == folder and i.path in dumps)
            only.notes.append("the dump of one rank alone does not tell who has not come: nothing is judged")
        ts_ms = max(dump.newest_ms for dump in some)
        found = standstill.findings(CLUSTER, job, "flight_recorder", flight.judge(some), ts_ms)
        yield Run(None, job, True, _ticks(found))


def _ticks(findings: list[Finding]) -> Iterator[tuple[int, list[Finding]]]:
    for ts_ms in sorted({finding.ts_ms for finding in findings}):
        yield ts_ms, [finding for finding in findings if finding.ts_ms == ts_ms]
