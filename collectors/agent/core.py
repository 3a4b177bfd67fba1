"""The core of a node's agent: which collector is due, what it gave, and the records that come of it.

Knows neither Kafka nor files nor threads: a tick in, stamped records out, so that a simulator can run a fleet of them
in one process. Whatever a collector does, the others and the next tick are not touched by it.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from collectors.base import UNSTAMPED, Collector, CollectorError, NoData, Reading, add_missing, event
from runtime.clock import Clock
from runtime.health import Counters
from runtime.log import Repeats
from schemas.event import Event
from schemas.frame import Gpu, NodeFrame, RackFrame
from schemas.inventory import Inventory
from schemas.matrix import Matrix
from schemas.record import Name, Natural, NodeRecord

logger = logging.getLogger(__name__)


REMIND_S = 600.0
"""What fails in the same way says so in the log this often; the first time at once."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Where this agent is: part of every record it sends."""

    cluster: Name
    node: Name
    rack: str = ""
    tray: Natural | None = None


class AgentCore:
    """Runs `collectors` at their intervals and stamps what they give. `run_id` numbers this start of the agent.

    Counts errors{COLLECTOR}, and for each collector the gauges collector_NAME_duration_s and collector_NAME_success
    (1, or 0 where the last attempt failed).
    """

    def __init__(
        self, identity: Identity, collectors: Sequence[Collector], run_id: int, clock: Clock, counters: Counters
    ) -> None:
        self._identity, self._collectors, self._run_id = identity, tuple(collectors), run_id
        self._clock, self._counters = clock, counters
        self._seq = 0
        self._period: dict[str, int] = {}
        self._gpus: dict[str, tuple[Gpu, ...]] = {}
        self._failing: dict[str, str] = {}
        self._said_nothing: set[str] = set()
        self._repeats = Repeats(now=clock.monotonic)
        self._reminders = Repeats(REMIND_S, clock.monotonic)
        self._said: list[Event] = []
        self.stretch = 1
        """By how much every collector's interval is longer than set."""

    def say(self, draft: Event) -> None:
        """An event about the agent itself; it goes with the next tick."""
        self._said.append(draft)

    def all_due(self) -> None:
        """At the next tick every collector has its turn."""
        self._period.clear()

    def gpu_of(self, work: tuple[str, int | None]) -> str:
        """The UUID of the GPU that (job, rank) uses; "" where none is known to."""
        return next((gpu.uuid for gpu in self.gpus if (gpu.job, gpu.rank) == work), "")

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The node's GPUs, with job and rank where they are known."""
        joined: dict[str, Gpu] = {}
        for gpu in (gpu for some in self._gpus.values() for gpu in some):
            known = joined.get(gpu.uuid)
            joined[gpu.uuid] = gpu if known is None else _joined(known, gpu)
        return tuple(joined.values())

    def tick(self, tick_ms: int) -> list[NodeRecord]:
        """The records of one tick: events first, then the node frame, then the rest."""
        drafts: list[NodeRecord] = []
        if not self._seq:
            drafts.append(event("agent_started", text="the node's agent started"))
        drafts += self._said
        self._said.clear()
        readings: list[Reading] = []
        for collector in self._collectors:
            if self._due(collector, tick_ms):
                readings.append(self._read(collector, tick_ms, drafts))
        drafts += (draft for reading in readings for draft in reading.drafts)
        gpus = self.gpus
        sections: dict[str, Matrix] = {}
        for name, matrix in ((name, matrix) for reading in readings for name, matrix in reading.sections.items()):
            sections[name] = matrix if name not in sections else beside(sections[name], matrix)
        frame = NodeFrame(
            **UNSTAMPED,
            ts_ms=tick_ms,
            rack=self._identity.rack,
            tray=self._identity.tray,
            gpus=gpus,
            sections=sections,
            missing=add_missing(reading.missing for reading in readings),
        )
        events = [self._about(draft, gpus) for draft in drafts if isinstance(draft, Event)]
        others = [draft for draft in drafts if not isinstance(draft, Event)]
        return [self._stamped(draft, tick_ms) for draft in (*events, frame, *others)]

    def _due(self, collector: Collector, tick_ms: int) -> bool:
        """Once in each interval of wall-clock time, whichever way the clock steps."""
        period = tick_ms // max(1, round(1000 * self.stretch * collector.interval_s))
        if self._period.get(collector.name) == period:
            return False
        self._period[collector.name] = period
        return True

    def _read(self, collector: Collector, tick_ms: int, drafts: list[NodeRecord]) -> Reading:
        name, begun_s = collector.name, self._clock.monotonic()
        failure: CollectorError | None = None
        reading = Reading()
        try:
            reading = collector.collect(tick_ms)
            self._counters.add("received", label=name)
        except NoData as nothing:
            if name not in self._said_nothing:
                self._said_nothing.add(name)
                logger.info("collector=%s: %s", name, nothing)
        except CollectorError as error:
            failure, reading = error, error.partial or reading
        except Exception as error:  # the agent outlives every collector
            failure = CollectorError("crashed", f"{type(error).__name__}: {error}")
            self._repeats.log(logger, logging.ERROR, f"crash/{name}", f"collector={name} crashed: {error!r}")
        self._counters.gauge(f"collector_{name}_duration_s", self._clock.monotonic() - begun_s)
        self._counters.gauge(f"collector_{name}_success", 0.0 if failure else 1.0)
        if failure is not None:
            self._counters.add("errors", label=name)
            kind = f"error/{name}/{failure.code}"
            self._reminders.log(logger, logging.WARNING, kind, f"collector={name}: {failure}")
        self._episode(name, failure, drafts)
        # Held until this collector's next turn. One that cannot say for whom a GPU works ends the claim: better nobody
        # than the job before.
        self._gpus[name] = reading.gpus
        return reading

    def _episode(self, name: str, failure: CollectorError | None, drafts: list[NodeRecord]) -> None:
        """One event when a collector begins to fail or fails otherwise, one when it is well again."""
        before, now = self._failing.get(name, ""), failure.code if failure else ""
        if now == before:
            return
        self._failing[name] = now
        detail = {"collector": name, "code": now or before}
        if failure is not None:
            drafts.append(event(failure.kind, severity="warning", text=failure.text, detail=detail))
        else:
            drafts.append(event("collector_recovered", text=f"{name} reads again", detail=detail))
            logger.info("collector=%s reads again", name)

    def _about(self, draft: Event, gpus: tuple[Gpu, ...]) -> Event:
        """An event that names only a PCI address is about the GPU at it, and about the rank that works there."""
        for gpu in gpus:
            if draft.gpu == gpu.uuid or (not draft.gpu and draft.pci and draft.pci == gpu.pci):
                return replace(draft, gpu=gpu.uuid, pci=draft.pci or gpu.pci, **_whose(draft, gpu))
        return draft

    def _stamped(self, draft: NodeRecord, tick_ms: int) -> NodeRecord:
        self._seq += 1
        stamp: dict[str, Any] = {
            "cluster": self._identity.cluster,
            "node": self._identity.node,
            "run_id": self._run_id,
            "seq": self._seq,
            "ts_ms": draft.ts_ms or tick_ms,
        }
        if isinstance(draft, Inventory | RackFrame) and draft.rack in ("", "-"):
            stamp["rack"] = self._identity.rack or draft.rack
        if isinstance(draft, Inventory) and draft.tray is None:
            stamp["tray"] = self._identity.tray
        return replace(draft, **stamp)


def _whose(draft: Event, gpu: Gpu) -> dict[str, Any]:
    return {} if draft.job or not gpu.job else {"job": gpu.job, "rank": gpu.rank}


def _joined(known: Gpu, more: Gpu) -> Gpu:
    """What two collectors say of one GPU: the first word on each field holds."""
    return Gpu(
        uuid=known.uuid,
        pci=known.pci or more.pci,
        slot=known.slot or more.slot,
        job=known.job or more.job,
        rank=more.rank if known.rank is None else known.rank,
        parent=known.parent or more.parent,
    )


def beside(first: Matrix, second: Matrix) -> Matrix:
    """Two collectors' readings of one section: all rows and columns, the first word on a value holds."""
    rows = tuple(dict.fromkeys(first.rows + second.rows))
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    values = np.full((len(rows), len(columns)), np.nan, dtype=np.float32)
    for matrix in (second, first):
        here = np.ix_([rows.index(row) for row in matrix.rows], [columns.index(column) for column in matrix.columns])
        values[here] = np.where(np.isnan(matrix.values()), values[here], matrix.values())
    return Matrix.of(rows, columns, values)
