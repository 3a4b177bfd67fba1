"""Job logs: the lines in which NCCL and PyTorch speak of a hang."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from collectors.nccl.log import parse, rank_of, world_of
from detectors.hang.watchdog import LogLine
from lockstep.analyze.files import lines
from lockstep.analyze.recording import Input

MOST_LINES = 10_000
"""Lines of one log that say something; a job that fails repeats itself."""


class JobLog(NamedTuple):
    """One log: what it says, with line numbers, the ranks that write into it, and its widest communicator's size (0
    where it names none)."""

    said: list[tuple[int, LogLine]]
    writers: set[int]
    world: int = 0


def load(input_: Input) -> JobLog:
    """Everything in one log that speaks of a hang. Raises UserError where it cannot be read."""
    log = JobLog([], set())
    world = 0
    for number, line in _lines(input_):
        if (rank := rank_of(line)) is not None and len(log.writers) < 1 << 20:
            log.writers.add(rank)
        world = max(world, world_of(line))
        if len(log.said) < MOST_LINES and (found := parse(line)) is not None:
            log.said.append((number, found))
    input_.records = len(log.said)
    if not log.said:
        input_.skip("nothing of a hang")
    return log._replace(world=world)


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every line that says something."""
    for number, line in _lines(input_):
        if (found := parse(line)) is not None:
            fields = {name: value for name, value in found._asdict().items() if value not in (None, "")}
            kind = "nccl_warn" if found.what in ("warn", "init") else "nccl_watchdog"
            yield {"line": number, "event": kind} | fields


def _lines(input_: Input) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines(input_.path), 1):
        if b"NCCL" in line or b"[rank" in line or b"atchdog" in line:
            yield number, line.decode("utf-8", "replace")
