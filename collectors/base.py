"""What every collector is: reads one subject, returns a Reading, raises where it cannot.

NoData                  nothing of this kind on this machine: said once, no fault
CollectorError          it should be here and did not answer: an event, and missing values counted
"""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
import numpy as np

from schemas.event import Event
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.record import NodeRecord

UNSTAMPED: dict[str, Any] = {"cluster": "-", "node": "-", "run_id": 0, "seq": 0}
"""The stamp fields of a draft: the agent core replaces them."""


class Reading(msgspec.Struct, frozen=True):
    """What one collector found in one tick.

    `sections`: matrices by section of `schemas.metrics`; `gpus`: what is known of GPUs (several collectors may speak of
    one GPU, their words are joined by UUID); `missing`: how many values are NaN, by reason; `drafts`: unstamped records
    (events, collective, step and rack frames, inventory). A draft with `ts_ms` 0 belongs to the tick.
    """

    sections: dict[str, Matrix] = {}
    gpus: tuple[Gpu, ...] = ()
    missing: dict[str, int] = {}
    drafts: tuple[NodeRecord, ...] = ()


class NoData(Exception):
    """There is nothing of this kind here (no GPU, no such folder): not a fault."""


class CollectorError(Exception):
    """A subject that should answer did not.

    `code` is counted and names the episode: the agent sends one event of `kind` when it begins or changes. `partial`
    is what can still be said (GPUs by name, values NaN and counted). `restart` asks for a new process (the driver's
    library changed under this one).
    """

    def __init__(
        self,
        code: str,
        text: str,
        kind: str = "collector_failed",
        partial: Reading | None = None,
        restart: bool = False,
    ) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.kind = code, text, kind
        self.partial, self.restart = partial, restart


class Collector(Protocol):
    """Reads one subject. The agent calls `collect` every `interval_s` with the tick (milliseconds, UTC)."""

    @property
    def name(self) -> str: ...
    @property
    def interval_s(self) -> float: ...
    def collect(self, tick_ms: int) -> Reading: ...


class LineSource(Protocol):
    """Lines that something appends to: files of a folder, the kernel log, or the simulator's memory."""

    def read(self) -> list[tuple[str, bytes]]:
        """New complete lines since the last call, as (name of the source, line without its end), in order."""
        ...


def event(kind: str, **fields: Any) -> Event:
    """A draft event; `ts_ms` is the tick unless given."""
    return Event(kind=kind, **({"ts_ms": 0} | UNSTAMPED | fields))


def blank(reading: Reading, reason: str) -> Reading:
    """The same GPUs, rows and columns with every value NaN and counted as missing{reason}.

    What may still be said when a subject stalls: who is concerned, never what it last said.
    """
    sections = {
        name: Matrix.of(m.rows, m.columns, np.full((len(m.rows), len(m.columns)), np.nan))
        for name, m in reading.sections.items()
    }
    count = sum(len(m.rows) * len(m.columns) for m in sections.values())
    return Reading(sections, reading.gpus, {reason: count} if count else {})


def add_missing(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of counts by reason, in the order of the reasons' names."""
    total: dict[str, int] = {}
    for some in counts:
        for reason, count in some.items():
            total[reason] = total.get(reason, 0) + count
    return dict(sorted(total.items()))
