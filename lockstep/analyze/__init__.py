"""`lockstep analyze`: the files one already has, judged by the same detectors as live, without any pipeline.

Analysis never looks ahead: `detected` is the moment at which an online run would have said it.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lockstep.analyze import inspector, steps
from lockstep.analyze.files import expand
from lockstep.analyze.judge import judge
from lockstep.analyze.recognise import recognise
from lockstep.analyze.recording import Input, Progress, Run
from lockstep.analyze.report import Report, RunVerdict
from runtime.errors import UserError

READERS: dict[str, Callable[[list[Input], Progress], Iterator[Run]]] = {
    "inspector": inspector.read,
    "steps": steps.read,
}
"""A kind of file and who reads all files of that kind together."""


def analyze(paths: Sequence[Path | str], kind: str | None = None, progress: Progress = lambda *_: None) -> Report:
    """Read and judge files or folders; `kind` says what they are instead of recognising them.

    Raises UserError where a path cannot be read or nothing in it can be used.
    """
    files = expand([Path(path) for path in paths])
    inputs = [Input(file, kind or recognise(file) or "unknown") for file in files]
    known = [i for i in inputs if i.kind in READERS]
    if not known:
        where = ", ".join(str(path) for path in paths)
        raise UserError(f"{where}: nothing here is of a known kind ({', '.join(READERS)}); say which with --kind")
    runs = []
    for name, reader in READERS.items():
        of_kind = [i for i in known if i.kind == name]
        if of_kind:
            runs += [RunVerdict(r.run, r.job, r.timed, judge(r, progress)) for r in reader(of_kind, progress)]
    if not any(i.records for i in known):
        bad = sum(i.skipped for i in known)
        where = str(known[0].path) if len(known) == 1 else f"{len(known)} files"
        raise UserError(f"{where}: no usable {known[0].kind} record ({bad} that are none); is the kind right?")
    return Report(inputs, runs)
