"""What every reader gives: runs, and in each run ticks of records in order."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from detectors.job.detector import JobRecord
from schemas.event import Event
from schemas.finding import Finding
from schemas.inventory import Inventory

Progress = Callable[[str, int], None]
"""Told from time to time: what is being read, and how many records so far."""

CLUSTER = "local"
"""The cluster of files that name none."""

TICK_MS = 1000
"""As live: frames once a second."""


class Input(msgspec.Struct):
    """One file and what could be used of it; the reader counts while it reads. `coverage` is the part of the
    operations that the file had (gaps in sequence numbers are the rest). `notes` are lines for the reader: why it was
    refused, what in it is not judged."""

    path: Path
    kind: str
    records: int = 0
    skipped: int = 0
    coverage: float = 1.0
    reasons: dict[str, int] = {}
    notes: list[str] = []

    def skip(self, reason: str) -> None:
        """Count a record that could not be used."""
        self.skipped += 1
        self.reasons = self.reasons | {reason: self.reasons.get(reason, 0) + 1}


class Run(msgspec.Struct):
    """One run of one job. `timed` says whether the ticks are moments, or only counted from the run's start.

    `ticks` are (tick in milliseconds, the records of that tick), in order; they can be gone through once. Events and
    findings in them (of a snapshot, which needs no detector that learns, or of a detector that the reader fed) go
    straight to the incidents, and so does inventory, which says where things are.

    `where` tells runs apart that have one job's name (a folder); `coverage` is the part of the operations
    that is there.
    """

    run: int | None
    job: str
    timed: bool
    ticks: Iterable[tuple[int, Sequence[JobRecord | Event | Finding | Inventory]]]
    cluster: str = CLUSTER
    where: str = ""
    coverage: float = 1.0
