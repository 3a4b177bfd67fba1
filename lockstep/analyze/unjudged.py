"""Files that tell of collectives and from which nobody can be blamed: decoded for `--events`, counted, and said so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collectors.nccl import comma, inspector_metrics
from lockstep.analyze.files import DAMAGED, open_bytes
from lockstep.analyze.recording import Input, Progress, Run
from runtime.errors import UserError

WHY = {
    "inspector-metrics": "not judged: means by GPU and size say how fast, not who (give the JSON lines)",
    "comma": "not judged: one rank's operations without its communicator's size",
}


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """No run: the files are counted."""
    for number, input_ in enumerate(inputs, 1):
        progress("reading", number)
        try:
            for record in _records(input_):
                if record is None:
                    input_.skip("absurd")
                else:
                    input_.records += 1
        except UserError as error:
            input_.skip("broken")
            input_.notes.append(str(error))
            continue
        input_.notes.append(WHY[input_.kind])
    yield from ()


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every value or operation. Raises UserError where there is none."""
    return ({"event": "mean" if input_.kind == "inspector-metrics" else "operation"} | r for r in _records(input_) if r)


def _records(input_: Input) -> Iterator[dict[str, Any] | None]:
    data = _read(input_.path)
    if input_.kind == "inspector-metrics":
        return (m._asdict() if m else None for m in inspector_metrics.means(data.decode("utf-8", "replace")))
    try:
        return (operation._asdict() for operation in comma.parse(data))
    except comma.BadTrace as error:
        raise UserError(f"{input_.path}: {error}") from None


def _read(path: Path) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read(comma.MOST_BYTES + 1)
    except DAMAGED as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
