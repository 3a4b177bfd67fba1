"""Results of nccl-tests: all runs of a call held against one another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from collectors.nccl.nccl_tests import MOST_BYTES, BadTable, parse
from detectors.job.nccl_tests import Bench, comparable, judge
from lockstep.analyze.files import DAMAGED, open_bytes
from lockstep.analyze.judge import CLUSTER
from lockstep.analyze.recording import Input, Progress, Run
from runtime.errors import UserError

JOB = "nccl-tests"
MOMENT_MS = 1000
"""Results carry no time that counts: all of them are one moment."""


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run with the findings of all results."""
    runs: list[Bench] = []
    for number, input_ in enumerate(inputs, 1):
        progress("reading results", number)
        try:
            found = parse(_read(input_.path))
        except BadTable as error:
            input_.skip("broken")
            input_.notes.append(str(error))
            continue
        input_.records = sum(len(run.rows) for run in found) or len(found)
        for run in found:
            if not run.whole:
                input_.notes.append("the run did not come to its end: its last lines are missing")
            if not any(row.wrong is not None for row in run.rows):
                input_.notes.append("not judged: whether results are right: they were not checked (no #wrong)")
        runs += found
    if runs and not comparable(runs):
        first = next(i for i in inputs if i.records)
        first.notes.append("not judged: the bandwidth itself: fewer than three like runs on other hosts")
    findings = judge(CLUSTER, JOB, runs, MOMENT_MS)
    if runs:
        yield Run(None, JOB, False, [(MOMENT_MS, findings)])


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every size of every run. Raises UserError where there is none."""
    try:
        found = parse(_read(input_.path))
    except BadTable as error:
        raise UserError(f"{input_.path}: {error}") from None
    for number, run in enumerate(found):
        head = {"event": "benchmark", "run": number, "test": run.test, "hosts": run.hosts, "ranks": len(run.devices)}
        for row in run.rows:
            yield head | msgspec.to_builtins(row)


def _read(path: Path) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read(MOST_BYTES + 1)
    except DAMAGED as error:
        raise BadTable(f"cannot be read: {error}") from None
