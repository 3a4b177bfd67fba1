"""Where a job hangs: Flight Recorder dumps, RAS snapshots and job logs, side by side. What lies in one folder is about
one job; each kind is judged by itself, what agrees strengthens the others, and all of it is one incident."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from detectors.hang import flight, standstill, watchdog
from detectors.hang.evidence import Hang
from detectors.hang.flight_dump import Dump
from detectors.hang.ras import Snapshot
from lockstep.analyze import flight_recorder, job_log, log_jobs, ras
from lockstep.analyze.flight_recorder import Scene
from lockstep.analyze.job_log import JobLog
from lockstep.analyze.judge import CLUSTER
from lockstep.analyze.recording import Input, Progress, Run
from schemas.finding import Finding

BEAT_MS, MOST_BEATS = 300_000, 1000
"""Open verdicts are repeated every five minutes, through pauses of three and a half days at most."""

AGREED, MOST_SURE = 0.05, 0.97
"""What a second source adds to the confidence in a verdict, and the most it comes to."""


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per job, and one for the RAS snapshots of a place that has nothing else."""
    dumps: dict[Path, Dump] = {}
    logs: dict[Path, JobLog] = {}
    snapshots: dict[Path, list[Snapshot]] = {}
    for number, input_ in enumerate(inputs, 1):
        progress("reading where it hangs", number)
        if input_.kind == "job-log":
            logs[input_.path] = job_log.load(input_)
        elif input_.kind == "ras":
            snapshots[input_.path] = ras.load(input_)
        elif (dump := flight_recorder.load(input_)) is not None:
            dumps[input_.path] = dump
    scenes = flight_recorder.scenes(dumps)
    known = {folder for scene in scenes for folder in scene.folders}
    for folder in dict.fromkeys(path.parent for path in (*logs, *snapshots)):
        if folder not in known:
            scenes.append(Scene([folder], {}))
    for scene in scenes:
        here = {path: log for path, log in logs.items() if path.parent in scene.folders}
        near = {path: some for path, some in snapshots.items() if path.parent in scene.folders}
        mine = [i for i in inputs if i.path.parent in scene.folders]
        apart = [list(here)] if scene.dumps or not here else log_jobs.jobs(here)
        where = _place([folder.name for folder in scene.folders]) if len(scenes) > 1 else ""
        if len(apart) == 1:
            yield _run(scene, list(here.values()), near, mine, where)
            continue
        if near:
            yield _run(scene, [], near, mine, where)
        next(i for i in mine if i.kind == "job-log").notes.append(
            f"several jobs in one folder: {len(apart)}, told apart by their ranks, groups and days, judged apart"
        )
        for paths in apart:
            files = _place([path.name for path in paths])
            yield _run(scene, [here[path] for path in paths], {}, [i for i in mine if i.path in paths], files)


def _place(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _run(
    scene: Scene, logs: list[JobLog], snapshots: dict[Path, list[Snapshot]], inputs: list[Input], where: str = ""
) -> Run:
    job = scene.name
    story = ras.judge(snapshots)
    others = bool(scene.dumps) or any(log.said for log in logs)
    ticks = [(ts_ms, _renamed(found, job) if others else found) for ts_ms, found in story.ticks]
    if snapshots:
        next(i for i in inputs if i.kind == "ras").notes.extend(story.notes)
    dumps = list(scene.dumps.values())
    if len(dumps) == 1:
        only = next(i for i in inputs if i.kind == "flight-recorder" and i.records)
        only.notes.append("not judged: the dump of one rank alone does not tell who has not come")
    said = sorted(((at, line) for log in logs for at, line in log.said), key=lambda s: s[0])
    told = watchdog.judge(said, {rank for log in logs for rank in log.writers})
    hangs = flight.judge(dumps)
    moment = max((dump.newest_ms for dump in dumps), default=0) or max((ts for ts, _ in ticks), default=0)
    nodes = {f.subject.rank: f.subject.node for _, found in ticks for f in found if f.subject.rank is not None}
    if hangs:
        agreed = _agreed(hangs, told)
        ticks.append((moment, standstill.findings(CLUSTER, job, "flight_recorder", agreed, moment, nodes)))
    elif told:
        # A log's lines have a place, seldom a time: what it says counts from where the others stand.
        placed = [replace(hang, onset_ms=moment or hang.onset_ms) for hang in told]
        at = moment or max(hang.onset_ms for hang in told)
        ticks.append((at, standstill.findings(CLUSTER, job, "job_log", placed, at, nodes)))
    ticks.sort(key=lambda tick: tick[0])
    return Run(None, job, story.timed or bool(dumps), _kept(ticks), where=where)


def _kept(ticks: Sequence[tuple[int, list[Finding]]]) -> list[tuple[int, list[Finding]]]:
    """The ticks with a heartbeat of every open verdict in long pauses between them: snapshots are taken when somebody
    thinks of it, and what was open at one is still so at the next."""
    out: list[tuple[int, list[Finding]]] = []
    open_: dict[str, Finding] = {}
    before = 0
    for ts_ms, findings in ticks:
        for beat in range(before + BEAT_MS, ts_ms, BEAT_MS) if open_ and ts_ms - before < MOST_BEATS * BEAT_MS else ():
            for id_, finding in open_.items():
                open_[id_] = replace(finding, ts_ms=beat, state="heartbeat", revision=finding.revision + 1)
            out.append((beat, list(open_.values())))
        said = []
        for finding in findings:
            known = open_.get(finding.id)
            now = replace(finding, revision=known.revision + 1) if known else finding
            said.append(now)
            open_[finding.id] = now
            if finding.state == "close":
                del open_[finding.id]
        out.append((ts_ms, said))
        before = ts_ms
    return out


def _agreed(hangs: Sequence[Hang], told: Sequence[Hang]) -> list[Hang]:
    """What the dumps say, with what the log adds: time-outs confirm the hang, and a rank that has entered nothing while
    its watchdog is stuck too is held up in its own process."""
    if not told:
        return list(hangs)
    stuck = {rank for hang in told if hang.cause == "python_stall" for rank in hang.ranks}
    words = tuple(f"log: {hang.evidence[0]}" for hang in told[:3])
    out = []
    for hang in hangs:
        held = hang.cause == "not_entered" and set(hang.ranks) <= stuck
        cause, runner_up = ("python_stall", "not_entered") if held else (hang.cause, hang.runner_up)
        sure = min(MOST_SURE, hang.confidence + AGREED)
        out.append(replace(hang, cause=cause, runner_up=runner_up, confidence=sure, evidence=hang.evidence + words))
    return out


def _renamed(findings: Sequence[Finding], job: str) -> list[Finding]:
    """RAS names jobs by communicators; beside dumps or logs of one job it is that one."""
    return [replace(finding, subject=replace(finding.subject, job=job)) for finding in findings]
