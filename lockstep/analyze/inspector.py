"""NCCL Inspector's files of any number of processes, read side by side in the order in which they were written.

Two passes, both in pieces: the first learns which process is in which communicators (the widest gives the global
rank, shared ones the job), the second makes the same frames as an agent would, tick by tick.
"""

import heapq
import statistics
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from collectors.nccl.collectives import Claim, CollectiveReducer
from collectors.nccl.inspector import IGNORED, DumpStats, InspectorReader, Member, Parsed, Perf, Process, Rejected
from detectors.job.detector import JobRecord
from detectors.job.groups import DEADLINE_MS
from lockstep.analyze.files import LONGEST_LINE, lines, open_bytes, packed
from lockstep.analyze.inspector_notes import RunSeen
from lockstep.analyze.inspector_runs import Seen, runs
from lockstep.analyze.recording import TICK_MS, Input, Progress, Run
from schemas.collective import CollectiveFrame
from schemas.identity import digest

CHUNK = 1 << 18
"""Bytes read of one file at a time: files are opened for a chunk only, so that thousands of them fit."""

GAP_MS = 30_000
"""A longer silence of all files is a pause in the recording, not ticks in which nothing happened."""


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run per job found in the files; what cannot be one run is kept apart (`inspector_runs`)."""
    of = {input_.path: input_ for input_ in inputs}
    found = runs([seen for input_ in inputs for seen in _scan(input_, progress)])
    for run in found:
        claims = _claims(run.members)
        for job in sorted({claim.job for claim in claims.values()}):
            wanted = {process: claim for process, claim in claims.items() if claim.job == job}
            paths = [path for path, processes in run.writers.items() if processes & wanted.keys()]
            seen = RunSeen()
            where = _where(paths) if len(found) > 1 else ""
            coverage = statistics.median(of[path].coverage for path in paths)
            yield Run(None, job, True, _ticks(paths, wanted, seen, progress), where=where, coverage=coverage)
            said = where if where and where != paths[0].name else ""
            of[paths[0]].notes += [f"{note} (in {said})" if said else note for note in seen.notes()]


def _where(paths: list[Path]) -> str:
    """What a run of several is told by: its file or its folders."""
    if len(paths) == 1:
        return paths[0].name
    folders = list(dict.fromkeys(path.parent.name or str(path.parent) for path in paths))
    return " and ".join(folders) if len(folders) < 3 else f"{folders[0]} and {len(folders) - 1} other folders"


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every line that is an operation or a writer's own count, with its communicator and process."""
    reader = InspectorReader()
    for number, line in enumerate(_lines(input_.path), 1):
        found = reader.read(line) if line.strip() else IGNORED
        if isinstance(found, Rejected):
            continue
        fields = found._asdict() if isinstance(found, DumpStats) else asdict(found)
        fields |= found.process._asdict()
        fields |= {f"communicator_{name}": value for name, value in found.member._asdict().items()}
        del fields["process"], fields["member"]
        yield {"line": number, "event": "dump_stats" if isinstance(found, DumpStats) else "operation", **fields}


def _scan(input_: Input, progress: Progress) -> list[Seen]:
    """First pass over one file: counts and coverage; returns every process that wrote it, and as which rank."""
    writers: dict[Process, Seen] = {}
    last: dict[tuple[Process, str, str], int] = {}
    seen = missed = 0
    for found in parsed(input_.path):
        if isinstance(found, Rejected):
            if found is not IGNORED:
                input_.skip(found.reason)
            continue
        input_.records += 1
        if input_.records % 50_000 == 0:
            progress(f"reading {input_.path.name}", input_.records)
        if found.process not in writers:
            writers[found.process] = Seen()
        writers[found.process].note(input_.path, found)
        if isinstance(found, Perf) and found.function not in ("Send", "Recv"):
            key = (found.process, found.member.id, found.function)
            seen += 1
            if found.sn > last.get(key, found.sn):
                missed += found.sn - last[key] - 1
            last[key] = found.sn
    input_.coverage = seen / (seen + missed) if seen + missed else 1.0
    return list(writers.values())


def _claims(members: dict[Process, dict[str, Member]]) -> dict[Process, Claim]:
    """Job and global rank of every process: processes that share a communicator, directly or over others, are one job.

    Where no communicator holds all of a job's processes their ranks would collide; then they are numbered by host
    name and process id.
    """
    job_of: dict[str, str] = {}

    def root(id_: str) -> str:
        while job_of.setdefault(id_, id_) != id_:
            job_of[id_] = job_of[job_of[id_]]
            id_ = job_of[id_]
        return id_

    for known in members.values():
        first, *others = known
        for id_ in others:
            job_of[root(id_)] = root(first)
    groups: dict[str, list[Process]] = {}
    for process, known in members.items():
        groups.setdefault(root(next(iter(known))), []).append(process)
    claims: dict[Process, Claim] = {}
    for processes in groups.values():
        processes.sort()
        widest = {p: max(members[p].values(), key=lambda m: (m.size, m.id)) for p in processes}
        largest = max(widest.values(), key=lambda m: (m.size, m.id))
        unique = len({m.rank for m in widest.values()}) == len(processes)
        job = f"comm:{digest(largest.id, largest.size)}"
        for number, process in enumerate(processes):
            claims[process] = Claim(job, widest[process].rank if unique else number)
    return claims


def _ticks(
    paths: list[Path], claims: dict[Process, Claim], seen: RunSeen, progress: Progress
) -> Iterator[tuple[int, list[JobRecord]]]:
    """Second pass: the frames of one job's nodes, every tick between its first and last line."""
    reducers: dict[str, CollectiveReducer] = {}
    seq = 0
    tick: int | None = None
    streams = [_timed(path, claims) for path in paths]
    for count, (dump_ms, found) in enumerate(heapq.merge(*streams, key=itemgetter(0)), 1):
        if count % 50_000 == 0:
            progress("judging collectives", count)
        here = dump_ms // TICK_MS * TICK_MS + TICK_MS
        if tick is None or here - tick > GAP_MS:
            tick = here
        while tick < here:
            seq += 1
            yield tick, _frames(reducers, tick, seq, False)
            tick += TICK_MS
        seen.watch(found)
        node = found.process.hostname
        if node not in reducers:
            reducers[node] = CollectiveReducer(claims.get)
        reducers[node].add(found)
    if tick is None:
        return
    yield tick, _frames(reducers, tick, seq + 1, True)
    # Groups that miss a rank are judged at their deadline.
    for later in range(TICK_MS, DEADLINE_MS + TICK_MS, TICK_MS):
        yield tick + later, []


def _frames(reducers: dict[str, CollectiveReducer], tick: int, seq: int, final: bool) -> list[JobRecord]:
    return [
        msgspec.structs.replace(frame, cluster="local", node=node, run_id=1, seq=seq)
        for node, reducer in sorted(reducers.items())
        for frame in reducer.frames(tick, final)
        if isinstance(frame, CollectiveFrame)
    ]


def _timed(path: Path, claims: dict[Process, Claim]) -> Iterator[tuple[int, Perf | DumpStats]]:
    newest = 0
    for found in parsed(path):
        if not isinstance(found, Rejected) and found.process in claims:
            newest = max(newest, found.dump_us // 1000)
            yield newest, found


def parsed(path: Path) -> Iterator[Parsed]:
    """Every line of one file, parsed."""
    reader = InspectorReader()
    for line in _lines(path):
        if line.strip():
            yield reader.read(line)


def _lines(path: Path) -> Iterable[bytes]:
    if packed(path):
        yield from lines(path)
        return
    offset, rest = 0, b""
    while True:
        with open_bytes(path) as file:
            file.seek(offset)
            chunk = file.read(CHUNK)
        if not chunk:
            break
        offset += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest
