"""What training processes report of their steps: JSON lines, one step of one rank a line.

Columns: `step, rank` and `data_us, compute_us, comm_us, wait_us, step_us`, optional `job, node, gpu, ts_ms, phase`,
`work` or `shape_seq`, `frag_stall_us`, `flops`. Times are microseconds; a time that is absent, null, negative or
endless is NaN, because missing is not zero.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from collectors.agent.node import Node
from collectors.base import UNSTAMPED, Collector, LineSource, NoData, Reading
from collectors.datagrams import DatagramLines
from collectors.job.processes import Processes
from runtime.health import Counters
from schemas.step import RankStep, StepFrame

MAX_NUMBER = 2**31
"""Steps and ranks above this are torn numbers."""


LOOK_AGAIN = 100
"""Lines of a source whose process was not found, to the next search through all processes."""


TICK_S = 0.25
"""What one tick spends on step lines at most: a quarter of it, for there are other collectors. 16,000 lines take about
as long on an idle machine; the ranks of one node write a few dozen."""

MOST_JOBS = 128
"""Jobs a tick: more than eight GPUs have MIG instances. A process that makes up names would be a job each to everybody
who reads them."""

FRAME_STEPS = 400
"""Steps in one frame: with the longest texts they have it stays below what a topic takes, so that a flood of one rank
does not cost the others of its job theirs."""

LOOK_AT_CLOCK = 256
"""Lines from one look at the clock to the next."""


class StepLine(NamedTuple):
    """One step of one rank, with what the line says of its run, job and node ("" and None where it says nothing)."""

    step: RankStep
    job: str = ""
    node: str = ""
    run: int | None = None


class BadStep(Exception):
    """A line or row that is no step: `reason` is broken, no_step, no_rank, no_time or bad_field."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_decoder = msgspec.json.Decoder(dict[str, Any])


def parse_line(line: bytes) -> StepLine:
    """One JSON line; raises BadStep.

    >>> parse_line(b'{"step": 3, "rank": 1, "step_us": 100.0}').step.step
    3
    """
    try:
        row = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadStep("broken") from None
    return from_row(row)


def from_row(row: Mapping[str, Any]) -> StepLine:
    """One row of a table by column name; numbers may be text. Raises BadStep."""
    step, rank = natural(row.get("step")), natural(row.get("rank"))
    if step is None:
        raise BadStep("no_step")
    if rank is None:
        raise BadStep("no_rank")
    get = row.get
    step_us = _time(get("step_us"))
    if step_us != step_us:
        raise BadStep("no_time")
    end_ms = _number(get("ts_ms", get("end_ms")))
    if not (end_ms != end_ms or 0 <= end_ms <= 4_102_444_800_000):
        raise BadStep("bad_field")
    parsed = RankStep(
        rank=rank,
        step=step,
        step_us=step_us,
        data_us=_time(get("data_us")),
        compute_us=_time(get("compute_us")),
        comm_us=_time(get("comm_us")),
        wait_us=_time(get("wait_us")),
        end_ms=0 if end_ms != end_ms else int(end_ms),
        gpu=_text(get("gpu")),
        phase=_text(get("phase")) or "train",
        work=_number(get("work", get("tokens"))),
        shape=_number(get("shape_seq", get("shape"))),
        flops=_number(get("flops")),
        allocator_stall_us=_time(get("frag_stall_us", get("allocator_stall_us"))),
    )
    return StepLine(parsed, _text(row.get("job")), _text(row.get("node")), natural(row.get("run_idx", row.get("run"))))


class StepsCollector:
    """Step lines of this node's ranks, one frame per job and tick, more only where it would grow too large.

    `job_of` names the job of a source (its file name) where the line itself does not; a line without either is counted
    as steps_no_job.
    """

    name = "steps"
    interval_s = 1.0

    def __init__(
        self,
        source: LineSource,
        job_of: Callable[[str], str | None] = lambda _: None,
        moved: Callable[[str, int], None] = lambda *_: None,
        counters: Counters | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._job_of, self._moved, self._counters, self._now = source, job_of, moved, counters, now

    def collect(self, tick_ms: int) -> Reading:
        """Lines that cannot be used are counted as steps_REASON (missing, and dropped{steps_REASON}), those that a tick
        has no time for as steps_flood. Raises NoData where nothing was written."""
        lines = self._source.read()
        if not lines:
            raise NoData("no step lines")
        jobs: dict[str, list[RankStep]] = {}
        bad: Counter[str] = Counter()
        job_of = cache(self._job_of)  # of this tick: a process is looked up once, not for each of its lines
        until = self._now() + TICK_S
        for number, (name, line) in enumerate(lines):
            if number % LOOK_AT_CLOCK == LOOK_AT_CLOCK - 1 and self._now() > until:
                bad["steps_flood"] = len(lines) - number
                break
            try:
                parsed = parse_line(line)
            except BadStep as error:
                bad["steps_" + error.reason] += 1
                continue
            job = parsed.job or job_of(name)
            if not job:
                bad["steps_no_job"] += 1
            elif job not in jobs and len(jobs) == MOST_JOBS:
                bad["steps_many_jobs"] += 1
            else:
                jobs.setdefault(job, []).append(parsed.step)
        for job in jobs:
            self._moved(job, tick_ms)
        if self._counters is not None:
            for reason, count in bad.items():
                self._counters.add("dropped", count, reason)
        drafts = [
            StepFrame(**UNSTAMPED, ts_ms=tick_ms, job=job, steps=tuple(steps[at : at + FRAME_STEPS]))
            for job, steps in sorted(jobs.items())
            for at in range(0, len(steps), FRAME_STEPS)
        ]
        return Reading(missing=dict(bad), drafts=tuple(drafts))


def _number(value: Any) -> float:
    if type(value) is not float:
        if value is None or isinstance(value, bool):
            return math.nan
        try:
            value = float(value)
        except (TypeError, ValueError, OverflowError):
            return math.nan
    return value if -math.inf < value < math.inf else math.nan


def _time(value: Any) -> float:
    number = float(value) if type(value) is int and value < MAX_NUMBER else _number(value)
    return number if 0 <= number < 1e15 else math.nan


def natural(value: Any) -> int | None:
    """A whole number from 0 on below MAX_NUMBER, also as text or float; None for anything else."""
    if type(value) is int:
        return value if 0 <= value < MAX_NUMBER else None
    number = _number(value)
    return int(number) if 0 <= number < MAX_NUMBER and number == int(number) else None


def _text(value: Any) -> str:
    return str(value)[:256] if isinstance(value, str | int) and not isinstance(value, bool) else ""


class _Together:
    """Several line sources as one."""

    def __init__(self, sources: list[LineSource]) -> None:
        self._sources = sources

    def read(self) -> list[tuple[str, bytes]]:
        return [line for source in self._sources for line in source.read()]


class Writers:
    """The job of a step file or datagram, by the process that its source names ("...pidPID-nsNAMESPACE...")."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._pids: dict[str, int] = {}
        self._unknown: Counter[str] = Counter()

    def job(self, source: str) -> str | None:
        """None where the source names no process, or one that tells no job."""
        pid = self._pids.get(source)
        if pid is None or not self._processes.alive(pid):
            self._pids.pop(source, None)
            self._unknown[source] += 1
            if self._unknown[source] % LOOK_AGAIN != 1 or (pid := self._pid(source)) is None:
                return None
            self._pids[source] = pid
            del self._unknown[source]
        work = self._processes.work(pid)
        return None if work is None else work.job

    def _pid(self, source: str) -> int | None:
        named = re.search(r"pid(\d+)(?:-ns(\d+))?", source)
        if named is None:
            return None
        pid, namespace = int(named[1]), named[2]
        return pid if namespace is None else self._processes.seen_as(pid, namespace)


def on_node(node: Node) -> Collector | None:
    """From the folder of the step files and the socket; where lines name no job, their process's own holds."""
    sources: list[LineSource] = []
    if node.settings.steps_dir:
        sources.append(node.lines(node.settings.steps_dir, "*.jsonl"))
    if node.settings.steps_socket:
        socket = DatagramLines(Path(node.settings.steps_socket), node.counters)
        node.closing.append(socket.close)
        sources.append(socket)
    if not sources:
        return None
    return StepsCollector(_Together(sources), Writers(node.processes).job, node.movement.moved, node.counters)
