"""Flight Recorder dumps as they appear in a folder: an event for each rank, and the standstill that they prove.

Nothing is asked of the training process: PyTorch writes the dumps by itself when a collective times out. Files are
read beside the ticks, once they no longer grow; those that were there before the agent are history.
"""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collectors.agent.background import Background
from collectors.base import Collector, NoData, Reading, event
from collectors.job.processes import Work
from collectors.nccl.flight_recorder import parse
from collectors.nccl.hang_event import hang_event, job_of, over_event
from collectors.nccl.plain_pickle import Refused
from detectors.hang.flight import judge
from detectors.hang.flight_dump import Dump
from detectors.hang.standstill import findings
from runtime.health import Counters
from schemas.event import Event

if TYPE_CHECKING:
    from collectors.agent.node import Node

INTERVAL_S = 5.0
TOGETHER_MS = 900_000
"""Dumps written within a quarter of an hour are of one standstill: PyTorch's heartbeat gives up after eight minutes."""

MOST_FILES = 16_384
MOST_BYTES = 64 << 20
MOST_EVENTS = 64
"""Dumps told of one by one in one turn."""


class _Seen(NamedTuple):
    size: int
    mtime_ns: int


class FlightDumpsCollector:
    """Looks at the folder every few seconds. `ranks` are the training processes of this node, for the job's name."""

    name = "flight"
    interval_s = INTERVAL_S

    def __init__(self, folder: Path, ranks: Callable[[], Mapping[int, Work]], cluster: str, counters: Counters) -> None:
        self._folder, self._ranks, self._cluster, self._counters = folder, ranks, cluster, counters
        self._seen: dict[str, _Seen] | None = None
        self._growing: dict[str, _Seen] = {}
        self._dumps: dict[str, dict[int, Dump]] = {}
        self._hung: set[str] = set()
        self._said: set[tuple[str, str, int | None, int]] = set()
        self._work: Background[list[Dump]] = Background("flight")

    def collect(self, tick_ms: int) -> Reading:
        """Events of what was read since the last turn. NoData where there is no new dump."""
        drafts = self._take() + self._over()
        if not self._work.busy:
            ready = self._ready()
            if ready:
                self._work.start(lambda: [dump for name in ready if (dump := self._read(name)) is not None])
        if not drafts and not self._work.busy:
            raise NoData("no new Flight Recorder dump")
        return Reading(drafts=tuple(drafts))

    def _ready(self) -> list[str]:
        """Files that are new or were written again, and have not grown since the turn before."""
        found: dict[str, _Seen] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and not entry.name.startswith(".") and status.st_size:
                        found[entry.name] = _Seen(status.st_size, status.st_mtime_ns)
                    if len(found) >= MOST_FILES:
                        break
        except OSError:
            self._seen = self._seen or {}  # no folder yet: whatever comes is new
            return []
        if self._seen is None:
            self._seen = found
        fresh = {name: now for name, now in found.items() if self._seen.get(name) != now}
        ready = [name for name, now in fresh.items() if self._growing.get(name) == now]
        self._growing = {name: now for name, now in fresh.items() if name not in ready}
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        self._seen |= {name: found[name] for name in ready}
        return sorted(ready)

    def _read(self, name: str) -> Dump | None:
        try:
            path = self._folder / name
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise Refused("too_large", f"more than {MOST_BYTES} bytes")
            return parse(data, name, int(path.stat().st_mtime * 1000))
        except Refused as refused:
            self._counters.add("dropped", label=f"flight_{refused.reason}")
        except OSError:
            self._counters.add("errors", label="flight_unreadable")
        return None

    def _take(self) -> list[Event]:
        dumps = [dump for dump in self._work.take() or () if dump.rank is not None]
        works = set(self._ranks().values()) if dumps else set()
        drafts: list[Event] = []
        touched: set[str] = set()
        for dump in dumps:
            assert dump.rank is not None
            job = job_of(dump.rank, works)
            self._dumps.setdefault(job, {})[dump.rank] = dump
            touched.add(job)
            if len(drafts) < MOST_EVENTS:
                drafts.append(_event(job, dump))
        for job in sorted(touched):
            drafts += self._judged(job)
        return drafts

    def _over(self) -> list[Event]:
        """Jobs that were said to hang and have no process here any more: what hung is gone."""
        if not self._hung:
            return []
        gone = self._hung - {work.job for work in self._ranks().values()}
        self._hung -= gone
        for job in gone:
            self._dumps.pop(job, None)
        return [over_event(job, "flight_recorder") for job in sorted(gone)]

    def _judged(self, job: str) -> list[Event]:
        dumps = self._dumps[job]
        newest = max(dump.written_ms for dump in dumps.values())
        for rank in [rank for rank, dump in dumps.items() if newest - dump.written_ms > TOGETHER_MS]:
            del dumps[rank]
        drafts = []
        for finding in findings(self._cluster, job, "flight_recorder", judge(list(dumps.values())), newest):
            key = (job, finding.cause, finding.subject.rank, finding.onset_ms)
            if key not in self._said:
                self._said.add(key)
                self._hung |= {job} if job else set()
                drafts.append(hang_event(job, finding, "flight_recorder"))
        return drafts


def _event(job: str, dump: Dump) -> Event:
    open_ = sorted((op for op in dump.ops if not op.done), key=lambda op: op.created_ms)
    text = f"rank {dump.rank} left a Flight Recorder dump with {len(open_)} operations open"
    detail = {"open": str(len(open_))}
    if open_:
        first = open_[0]
        label = dump.groups[first.group].label if first.group in dump.groups else first.group
        text += f", the oldest {first.name} number {first.seq} of {label}"
        detail |= {"op": first.name, "seq": str(first.seq), "group": label[:128]}
    return event("flight_dump", severity="warning", job=job, rank=dump.rank, text=text[:300], detail=detail)


def on_node(node: "Node") -> Collector | None:
    """Where the folder of the dumps is given (the folder part of TORCH_FR_DUMP_TEMP_FILE)."""
    if not node.settings.flight_dir:
        return None
    return FlightDumpsCollector(
        Path(node.settings.flight_dir), node.processes.ranks, node.identity.cluster, node.counters
    )
