"""Which NCCL Inspector files are of one run: two processes cannot be the same rank of one communicator.

Communicators' ids are hashes that repeat from run to run, so a shared one proves nothing by itself. Files of one folder
are one run as long as no two of their processes claim one place; folders are one run only where they complete each
other: other ranks of a communicator that both know, at the same time.
"""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from collectors.nccl.inspector import DumpStats, Member, Perf, Process

APART_MS = 60_000
"""Files whose lines are further apart than this were not written at the same time, whatever the hosts' clocks do."""

Place = tuple[str, int]
"""Communicator's id, rank inside it."""


class Claim(NamedTuple):
    """Who says to be at a place; `first` and `last` are the numbers of its operations by function."""

    process: Process
    first: dict[str, int]
    last: dict[str, int]
    from_ms: int


class Seen:
    """What one process says in one file, or all processes of a run."""

    def __init__(self) -> None:
        self.writers: dict[Path, set[Process]] = {}
        self.members: dict[Process, dict[str, Member]] = {}
        self.span: tuple[int, int] = (0, 0)
        self._claims: dict[Place, list[Claim]] = {}
        self._sizes: dict[str, int] = {}

    def note(self, path: Path, found: Perf | DumpStats) -> None:
        """Take in one line."""
        process, member, ms = found.process, found.member, found.dump_us // 1000
        self.writers.setdefault(path, set()).add(process)
        self.members.setdefault(process, {})[member.id] = member
        self.span = (min(self.span[0], ms), max(self.span[1], ms)) if self._claims else (ms, ms)
        self._sizes[member.id] = member.size
        held = self._claims.setdefault((member.id, member.rank), [])
        if not held:
            held.append(Claim(process, {}, {}, ms))
        if isinstance(found, Perf) and found.function not in ("Send", "Recv"):
            held[0].first.setdefault(found.function, found.sn)
            held[0].last[found.function] = found.sn

    @property
    def folder(self) -> Path:
        return next(iter(self.writers)).parent

    def take(self, other: "Seen") -> None:
        """Join what the other claims."""
        for path, processes in other.writers.items():
            self.writers.setdefault(path, set()).update(processes)
        for process, members in other.members.items():
            self.members.setdefault(process, {}).update(members)
        self.span = min(self.span[0], other.span[0]), max(self.span[1], other.span[1])
        self._sizes |= other._sizes
        for place, claims in other._claims.items():
            self._claims.setdefault(place, []).extend(claims)

    def collides(self, other: "Seen") -> bool:
        """Whether the two cannot be of one run."""
        if any(self._sizes.get(id_, size) != size for id_, size in other._sizes.items()):
            return True
        return any(
            _clash(mine, its)
            for place, claims in other._claims.items()
            for its in claims
            for mine in self._claims.get(place, ())
        )

    def shares(self, other: "Seen") -> bool:
        """Whether both know one communicator."""
        return not self._sizes.keys().isdisjoint(other._sizes)

    def near(self, other: "Seen") -> bool:
        """Whether both were written at the same time."""
        (a, b), (c, d) = self.span, other.span
        return c - b <= APART_MS and a - d <= APART_MS


def _clash(a: Claim, b: Claim) -> bool:
    """One process that goes on in another file is no clash; a second one is, and so is a count that starts again."""
    if a.process != b.process:
        return True
    early, late = (a, b) if a.from_ms <= b.from_ms else (b, a)
    return any(late.first[name] <= early.last[name] for name in late.first.keys() & early.last.keys())


def runs(found: Sequence[Seen]) -> list[Seen]:
    """What the processes say by run, in the order of their folders."""
    parts: list[Seen] = []
    for folder in dict.fromkeys(seen.folder for seen in found):
        here: list[Seen] = []
        for seen in sorted((s for s in found if s.folder == folder), key=lambda s: (s.span[0], next(iter(s.writers)))):
            fits = (run for run in here if not run.collides(seen) and (run.near(seen) or not run.shares(seen)))
            _join(here, next(fits, None), seen)
        parts += here
    before = 0
    while before != len(parts):
        before, whole = len(parts), list[Seen]()
        for seen in parts:
            # Folders beside each other first: of several runs that would take it, the one with the nearest path.
            near = sorted((run for run in whole if _complete(run, seen)), key=lambda run: -_common(run, seen))
            _join(whole, near[0] if near else None, seen)
        parts = whole
    return parts


def _join(known: list[Seen], run: Seen | None, seen: Seen) -> None:
    if run is None:
        known.append(seen)
    else:
        run.take(seen)


def _complete(run: Seen, other: Seen) -> bool:
    """Whether two folders' files are parts of one run."""
    if run.folder == other.folder:
        return False
    return run.shares(other) and run.near(other) and not run.collides(other)


def _common(run: Seen, other: Seen) -> int:
    """How many folders their paths have in common."""
    pairs = zip(run.folder.parts, other.folder.parts, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
