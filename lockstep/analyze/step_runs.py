"""Which step files are of one run: nobody is the same rank in the same steps twice.

The number of a run is its own business: several folders have a run 0, and most files name none. Files of one folder are
one run as long as no two of them tell of the same steps of one rank (ranks may have files of their own, and logs be cut
into pieces). Folders are runs of their own, but for sibling ones that complete each other, as when each node writes
into its own: other ranks, the same steps, at the same time.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.job.steps import natural
from lockstep.analyze import table
from lockstep.analyze.recording import Input

APART_MS = 60_000
"""Steps further apart than this were not made at the same time, whatever the hosts' clocks do."""

COLUMNS = frozenset(("step", "rank", "run_idx", "run", "job", "ts_ms", "end_ms"))

Name = tuple[int, str]
"""The number of a run (-1 where there is none) and its job, as rows give them."""


class Span(NamedTuple):
    """First and last of something."""

    first: int
    last: int

    def holding(self, value: int) -> "Span":
        return Span(min(self.first, value), max(self.last, value))

    def meets(self, other: "Span", slack: int = 0) -> bool:
        return self.first <= other.last + slack and other.first <= self.last + slack


class Told:
    """What some files tell of: the steps of every rank, and when, run by run as rows name them."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = list(inputs)
        self.steps: dict[Name, dict[int, Span]] = {}
        self.times: dict[Name, Span] = {}

    def completes(self, other: "Told") -> bool:
        """Whether both tell of one run: the same names, other ranks, in the same steps at the same time."""
        if self.steps.keys() != other.steps.keys():
            return False
        for name, mine in self.steps.items():
            its = other.steps[name]
            if mine.keys() & its.keys() or not _whole(mine).meets(_whole(its)):
                return False
            times = self.times.get(name), other.times.get(name)
            if times[0] is not None and times[1] is not None and not times[0].meets(times[1], APART_MS):
                return False
        return True


def runs(inputs: Sequence[Input]) -> list[tuple[str, list[Input]]]:
    """The inputs, those of one run together, with the folder or file that tells it from others; "" where there is only
    one place."""
    if len(inputs) == 1:
        return [("", list(inputs))]
    folders: dict[Path, list[Told]] = {}
    for input_ in inputs:
        folders.setdefault(input_.path.parent, []).append(_told(input_))
    siblings: dict[Path, list[tuple[Path, Told]]] = {}
    out: list[tuple[Path, Told]] = []
    for folder, files in folders.items():
        if _repeat(files):
            out += [(file.inputs[0].path, file) for file in files]
        else:
            siblings.setdefault(folder.parent, []).append((folder, _together(files)))
    for parent, units in siblings.items():
        whole = _complete([unit for _, unit in units])
        out += units if whole is None or len(units) == 1 else [(parent, whole)]
    if len(out) == 1:
        return [("", out[0][1].inputs)]
    return [(place.name, told.inputs) for place, told in sorted(out, key=lambda unit: inputs.index(unit[1].inputs[0]))]


def _told(input_: Input) -> Told:
    """One file's account of itself."""
    told = Told([input_])
    for _, row in table.rows(input_.path, COLUMNS):
        if row is None:
            continue
        step, rank = natural(row.get("step")), natural(row.get("rank"))
        if step is None or rank is None:
            continue
        run = natural(row.get("run_idx", row.get("run")))
        name = (-1 if run is None else run, str(row.get("job") or ""))
        ranks = told.steps.setdefault(name, {})
        ranks[rank] = ranks[rank].holding(step) if rank in ranks else Span(step, step)
        if ms := _ms(row.get("ts_ms", row.get("end_ms"))):
            told.times[name] = told.times[name].holding(ms) if name in told.times else Span(ms, ms)
    return told


def _together(units: Iterable[Told]) -> Told:
    out = Told([])
    for unit in units:
        out.inputs += unit.inputs
        for name, ranks in unit.steps.items():
            held = out.steps.setdefault(name, {})
            for rank, span in ranks.items():
                held[rank] = held[rank].holding(span.first).holding(span.last) if rank in held else span
        for name, span in unit.times.items():
            out.times[name] = out.times[name].holding(span.first).holding(span.last) if name in out.times else span
    return out


def _whole(ranks: dict[int, Span]) -> Span:
    return Span(min(span.first for span in ranks.values()), max(span.last for span in ranks.values()))


def _repeat(files: Iterable[Told]) -> bool:
    """Whether two of them tell of the same steps of one rank of a run of one name."""
    held: dict[tuple[Name, int], list[Span]] = {}
    for file in files:
        for name, ranks in file.steps.items():
            for rank, span in ranks.items():
                known = held.setdefault((name, rank), [])
                if any(span.meets(other) for other in known):
                    return True
                known.append(span)
    return False


def _complete(units: Sequence[Told]) -> Told | None:
    """All of them as one, where each completes the others; None where one does not."""
    whole = units[0]
    for unit in units[1:]:
        if not whole.completes(unit):
            return None
        whole = _together([whole, unit])
    return whole


def _ms(value: object) -> int:
    """A moment, also as text; 0 where there is none that can be."""
    try:
        ms = float(str(value))
    except ValueError:
        return 0
    return int(ms) if 0 < ms < 1e15 else 0
