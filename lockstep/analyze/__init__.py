"""`lockstep analyze`: the files one already has, judged by the same detectors as live, without any pipeline.

Analysis never looks ahead: `detected` is the moment at which an online run would have said it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lockstep.analyze import (
    batch_times,
    cooling,
    dcgm,
    flight_recorder,
    frames,
    inspector,
    job_log,
    kernel_log,
    nccl_tests,
    pipeline_trace,
    ras,
    standstill,
    steps,
    unjudged,
    unknown,
)
from lockstep.analyze.files import CUT_OFF, cut_off, expand
from lockstep.analyze.judge import judge
from lockstep.analyze.recognise import recognise
from lockstep.analyze.recording import Input, Progress, Run
from lockstep.analyze.report import Report, RunVerdict
from runtime.errors import UserError

READERS: dict[str, Callable[[list[Input], Progress], Iterator[Run]]] = {
    "inspector": inspector.read,
    "steps": steps.read,
    "flight-recorder": standstill.read,
    "ras": standstill.read,
    "job-log": standstill.read,
    "nccl-tests": nccl_tests.read,
    "inspector-metrics": unjudged.read,
    "comma": unjudged.read,
    "kernel-log": kernel_log.read,
    "pipeline-trace": pipeline_trace.read,
    "batch-times": batch_times.read,
    "frames": frames.read,
    "dcgm": dcgm.read,
    "cooling-bms": cooling.read_building,
    "redfish": cooling.read_redfish,
}
"""A kind of file and who reads all files of that kind together; kinds with one reader are read together too."""

DECODERS: dict[str, Callable[[Input], Iterator[Mapping[str, Any]]]] = {
    "inspector": inspector.decoded,
    "steps": steps.decoded,
    "flight-recorder": flight_recorder.decoded,
    "ras": ras.decoded,
    "job-log": job_log.decoded,
    "nccl-tests": nccl_tests.decoded,
    "inspector-metrics": unjudged.decoded,
    "comma": unjudged.decoded,
    "kernel-log": kernel_log.decoded,
    "pipeline-trace": pipeline_trace.decoded,
    "batch-times": batch_times.decoded,
    "frames": frames.decoded,
    "dcgm": dcgm.decoded,
    "cooling-bms": cooling.decoded_building,
    "redfish": cooling.decoded_redfish,
}
"""A kind of file and who gives the decoded records of one file: plain values by name, in text `line` (from 1)."""


def analyze(paths: Sequence[Path | str], kind: str | None = None, progress: Progress = lambda *_: None) -> Report:
    """Read and judge files or folders; `kind` says what they are instead of recognising them.

    Raises UserError where a path cannot be read or nothing in it can be used.
    """
    inputs, known = _known(paths, kind, progress)
    runs = []
    for reader in dict.fromkeys(READERS.values()):
        of_kind = [i for i in known if READERS[i.kind] is reader]
        if of_kind:
            runs += [RunVerdict(r.run, r.job, r.timed, judge(r, progress), r.where) for r in reader(of_kind, progress)]
    for input_ in known:
        if cut_off(input_.path):
            input_.notes = [*input_.notes, CUT_OFF]
    if not any(i.records for i in known):
        where = str(known[0].path) if len(known) == 1 else f"{len(known)} files"
        raise UserError(f"{where}: no usable {known[0].kind} record ({_why(known)}); is the kind right?")
    return Report(inputs, runs)


def _why(inputs: Sequence[Input]) -> str:
    """Why nothing of the inputs can be used."""
    note = next((i.notes[0] for i in inputs if i.notes), "")
    reasons = sum((Counter(i.reasons) for i in inputs), Counter[str]())
    skipped = sum(i.skipped for i in inputs)
    if note or not skipped:
        return note or "there is nothing in it"
    return f"{skipped} skipped: {', '.join(f'{count} {reason}' for reason, count in sorted(reasons.items()))}"


def events(
    paths: Sequence[Path | str], kind: str | None = None, skipped: Callable[[str], None] = lambda _: None
) -> Iterator[dict[str, Any]]:
    """The decoded records of files or folders, file by file in their order: plain values with `path`, and `line` in
    text. Raises UserError where a path cannot be read, nothing in it can be used, or its kind has no such form.
    `skipped` is told at the end, in a line, what else there was that could not be decoded.
    """
    _, known = _known(paths, kind)
    for input_ in known:
        if input_.kind not in DECODERS:
            raise UserError(f"{input_.path}: the records of {input_.kind} cannot be listed by --events")
    count = 0
    for input_ in known:
        for record in DECODERS[input_.kind](input_):
            count += 1
            yield {"path": str(input_.path), **record}
    if not count:
        where = str(known[0].path) if len(known) == 1 else f"{len(known)} files"
        raise UserError(f"{where}: no {known[0].kind} record could be decoded ({_why(known)}); is the kind right?")
    for input_ in known:
        if cut_off(input_.path):
            skipped(f"{input_.path}: {CUT_OFF}")
    if any(input_.skipped for input_ in known):
        skipped(_why([replace(input_, notes=[]) for input_ in known]))


def _known(
    paths: Sequence[Path | str], kind: str | None, progress: Progress = lambda *_: None
) -> tuple[list[Input], list[Input]]:
    """All files of the paths, and those of a known kind."""
    inputs = []
    for number, file in enumerate(expand([Path(path) for path in paths]), 1):
        progress("looking at files", number)
        inputs.append(Input(file, kind or recognise(file) or "unknown"))
    known = [i for i in inputs if i.kind in READERS]
    for input_ in inputs:
        if input_.kind == "unknown" and (why := unknown.hint(input_.path)):
            input_.notes.append(why)
    if not known:
        where = ", ".join(str(path) for path in paths)
        said = list(dict.fromkeys(note for i in inputs for note in i.notes))
        if all(i.notes for i in inputs):
            raise UserError(f"{where}: nothing here is of a known kind: {'; '.join(said[:3])}")
        raise UserError(f"{where}: nothing here is of a known kind ({', '.join(READERS)}); say which with --kind")
    return inputs, known
