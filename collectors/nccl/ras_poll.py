"""NCCL's RAS, asked when a job on this node stands still: by the node of rank 0 alone, twice, 15 s apart.

Off unless its address is given. Not asked while a job moves or begins: versions up to 2.29.7 may crash the job when
they are asked while communicators are made.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from collectors.agent.background import Background
from collectors.base import Collector, CollectorError, NoData, Reading
from collectors.job.movement import Movement
from collectors.job.processes import Work
from collectors.nccl.hang_event import hang_event, over_event
from collectors.nccl.ras import BadRas, parse
from collectors.nccl.ras_client import RasUnreachable, address, ask
from detectors.hang.ras import RasDetector
from runtime.errors import UserError
from schemas.event import Event

if TYPE_CHECKING:
    from collectors.agent.node import Node

STILL_MS = 10_000
"""A job that has finished nothing for so long is asked about: few steps take longer, and asking does no harm then."""

APART_MS = 15_000
POLLS = 2


class _Watch:
    """One job that stands still: the polls so far and what they said."""

    def __init__(self, cluster: str) -> None:
        self.detector = RasDetector(cluster)
        self.asked_ms: list[int] = []
        self.said: set[int | None] = set()


class RasCollector:
    """Snapshots of RAS turned into events. `ranks` are the training processes of this node."""

    name = "ras"
    interval_s = 1.0

    def __init__(
        self,
        services: tuple[tuple[str, int], ...],
        ranks: Callable[[], Mapping[int, Work]],
        movement: Movement,
        cluster: str,
        query: Callable[[tuple[str, int]], bytes] = ask,
        work: Background[list[bytes]] | None = None,
    ) -> None:
        self._services, self._ranks, self._movement = services, ranks, movement
        self._cluster, self._query = cluster, query
        self._watched: dict[str, _Watch] = {}
        self._asking: tuple[str, int] | None = None
        self._work: Background[list[bytes]] = work or Background("ras")

    def collect(self, tick_ms: int) -> Reading:
        """Begins a poll or takes its answer. CollectorError where the service did not answer or answered nonsense;
        NoData while every job moves."""
        drafts = self._answer()
        jobs = {work.job for work in self._ranks().values() if work.rank == 0}
        still = {job for job in jobs if (self._movement.still_ms(job, tick_ms) or 0) >= STILL_MS}
        for job in sorted(self._watched.keys() - still):
            watch = self._watched.pop(job)
            if watch.said:
                drafts.append(over_event(job, "ras"))
        for job in sorted(still):
            watch = self._watched.setdefault(job, _Watch(self._cluster))
            due = not watch.asked_ms or tick_ms - watch.asked_ms[-1] >= APART_MS
            if len(watch.asked_ms) < POLLS and due and not self._work.busy:
                watch.asked_ms.append(tick_ms)
                self._asking = (job, tick_ms)
                self._work.start(self._ask)
        if not drafts and not self._work.busy:
            raise NoData("no job of this node stands still")
        return Reading(drafts=tuple(drafts))

    def _ask(self) -> list[bytes]:
        return [self._query(service) for service in self._services]

    def _answer(self) -> list[Event]:
        try:
            answers = self._work.take()
        except RasUnreachable as error:
            raise CollectorError(error.reason, f"RAS: {error}") from None
        if answers is None or self._asking is None:
            return []
        job, tick_ms = self._asking
        watch = self._watched.get(job)
        if watch is None:
            return []  # it moves again
        drafts = []
        try:
            snapshots = [s for answer in answers for s in parse(answer).snapshots]
        except BadRas as error:
            raise CollectorError("garbage", f"RAS: {error}") from None
        for snapshot in snapshots:
            for finding in watch.detector.update(replace(snapshot, ts_ms=tick_ms), tick_ms):
                if finding.state in ("open", "change"):
                    watch.said.add(finding.subject.rank)
                    drafts.append(hang_event(job, finding, "ras"))
        return drafts


def on_node(node: "Node") -> Collector | None:
    """Where the address of the service is given. UserError where it is none."""
    if not node.settings.ras_address:
        return None
    try:
        services = tuple(address(text) for text in node.settings.ras_address.split(","))
    except ValueError as error:
        raise UserError(f"--ras-address: {error}") from None
    return RasCollector(services, node.processes.ranks, node.movement, node.identity.cluster)
