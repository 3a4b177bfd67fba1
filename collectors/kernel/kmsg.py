"""The live kernel log: /dev/kmsg, or a file of its records.

A record is "priority,sequence,microseconds,flags;text", followed by lines that begin with a space (its device). What
is not printable is written \\xNN. Sequence numbers are the log's own, so a line has one identity, (boot_id, sequence),
however often and by whichever agent it is read.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from collectors import cursor
from collectors.agent.node import Node
from collectors.base import Collector, CollectorError, LineSource, NoData, Reading, event
from collectors.kernel.gpu_lines import NAMED
from collectors.kernel.log import KernelEvent, KernelLines
from collectors.kernel.xid_merge import MergedCollector
from runtime.clock import Clock
from schemas.event import Event

RECORD_BYTES = 16384
"""The kernel gives one record a read and none above 8 KiB."""

RECORDS_A_TICK = 2_000
"""Bounds one tick's work at about 30 ms (11 to 16 us a record, measured); the rest waits in the ring."""

FOLD_AFTER = 20
"""Events of one kind, code and device in one tick sent singly; a flood's others are folded into the last."""


class Record(NamedTuple):
    """One record of the log. `usec` since boot, without time asleep; `facility` 0 is the kernel itself."""

    facility: int
    seq: int
    usec: int
    fragment: bool
    text: str


def parse_record(raw: bytes) -> Record | None:
    """A record's first line; None where it is none.

    >>> parse_record(b"4,5001,171167,-;NVRM: a\\x20b\\n DEVICE=+pci:0009:01:00.0\\n")
    Record(facility=0, seq=5001, usec=171167, fragment=False, text='NVRM: a b')
    """
    head, sign, rest = raw.partition(b";")
    fields = head.split(b",")
    if not sign or len(fields) < 4 or not all(field.isdigit() and len(field) <= 18 for field in fields[:3]):
        return None
    text = _ESCAPED.sub(lambda m: bytes((int(m[1], 16),)), rest.split(b"\n", 1)[0]).decode("utf-8", "replace")
    return Record(int(fields[0]) >> 3, int(fields[1]), int(fields[2]), fields[3] == b"+", text)


_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


class KmsgDevice:
    """A LineSource of /dev/kmsg's records, not waiting. The first read begins at the oldest that the ring still has.

    `read` raises OSError where the log may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def read(self) -> list[tuple[str, bytes]]:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        records: list[tuple[str, bytes]] = []
        while len(records) < RECORDS_A_TICK:
            try:
                raw = os.read(self._descriptor, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the ring ran over us: the next read gives the oldest there is, and its number tells the gap
            if not raw:
                break
            records.append((self._path.name, raw))
        return records


class KmsgFile:
    """A LineSource of a growing file of records, for tests and for replaying what a machine once said."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def read(self) -> list[tuple[str, bytes]]:
        with self._path.open("rb") as file:
            file.seek(self._at)
            grown = file.read()
        records: list[tuple[str, bytes]] = []
        for line in grown.splitlines(keepends=True):
            if len(records) == RECORDS_A_TICK or not line.endswith(b"\n"):
                break
            self._at += len(line)
            if not line.startswith(b" "):
                records.append((self._path.name, line))
        return records


class KernelLogCollector:
    """Events of the kernel log, each once: `mark` (a file) remembers how far it was read, over restarts.

    `source` gives records, oldest first; numbers that are left out were lost. `boot_id` is the kernel's. Records that
    something in user space wrote into the log are left alone. The time of an event is boot time plus the record's own,
    held between the last look and now for lines that came meanwhile: the log's clock is never adjusted and drifts by
    minutes over months.
    """

    name = "kernel"
    interval_s = 1.0

    def __init__(self, source: LineSource, boot_id: str, clock: Clock, mark: Path) -> None:
        self._source, self._boot_id, self._clock, self._mark = source, boot_id, clock, mark
        self._lines = KernelLines()
        self._started_s = clock.monotonic()
        self._looked_ms: int | None = None
        boot, _, seq = cursor.load(mark).partition(" ")
        self._read_to = int(seq) if boot == boot_id and seq.isdigit() and len(seq) <= 18 else -1
        self._saved_to = self._read_to

    def collect(self, tick_ms: int) -> Reading:
        """Events since the last call. NoData where there is no such log, CollectorError where it may not be read."""
        self._save()
        try:
            raws = self._source.read()
        except FileNotFoundError:
            raise NoData("no kernel log here") from None
        except OSError as error:
            code = "no_permission" if isinstance(error, PermissionError) else "unreadable"
            raise CollectorError(code, f"kernel log: {error.strerror}") from None
        now_ms = self._clock.now_ms()
        records, lost = self._new(raws)
        drafts: list[Event] = []
        if lost:
            drafts.append(
                event("kernel_log_overrun", severity="warning", text=f"{lost} lines of the kernel log were lost")
            )
        for record in _joined(records):
            found = self._lines.feed(record.text, record.usec / 1e6) if record.facility == 0 else None
            if found is not None and found.kind != NAMED:  # inventory says that better
                drafts.append(self._draft(record, found, now_ms))
        if len(raws) < RECORDS_A_TICK:
            self._looked_ms = now_ms
        return Reading(drafts=tuple(_folded(drafts)))

    def _new(self, raws: list[tuple[str, bytes]]) -> tuple[list[Record], int]:
        """Records not read before, and how many numbers between them are left out."""
        records: list[Record] = []
        lost = 0
        for _, raw in raws:
            record = parse_record(raw)
            if record is None or record.seq <= self._read_to:
                continue
            lost += record.seq - self._read_to - 1 if self._read_to >= 0 else 0
            self._read_to = record.seq
            records.append(record)
        return records, lost

    def _draft(self, record: Record, found: KernelEvent, now_ms: int) -> Event:
        ago_ms = round(1000 * (self._clock.monotonic() - record.usec / 1e6))
        at_ms = min(now_ms, now_ms - ago_ms)
        detail = found.detail | {"cause": found.cause, "action": found.action}
        if self._looked_ms is not None:
            at_ms = max(at_ms, min(self._looked_ms, now_ms))
        elif record.usec / 1e6 < self._started_s:
            detail = detail | {"historic": "yes"}
        return event(
            found.kind,
            ts_ms=max(0, at_ms),
            # Whether a port is down now, the fabric collector tells; adapters that carry no training say it here too.
            severity="warning" if found.kind == "link_down" else found.severity,
            code=found.code,
            gpu=detail.pop("gpu", ""),
            pci=found.pci,
            boot_id=self._boot_id,
            kmsg_seq=record.seq,
            text=found.text[:1000],
            detail=detail,
        )

    def _save(self) -> None:
        """What the last call returned has been accepted by now: remember it. A crash before that reads it again."""
        if self._saved_to != self._read_to and cursor.save(self._mark, f"{self._boot_id} {self._read_to}"):
            self._saved_to = self._read_to


def _joined(records: list[Record]) -> list[Record]:
    """Records, with the fragments of a line that was printed in pieces put together."""
    whole: list[Record] = []
    for record in records:
        if record.fragment and whole and whole[-1].facility == record.facility:
            # The first piece's number is the line's identity.
            whole[-1] = whole[-1]._replace(text=whole[-1].text + record.text)
        else:
            whole.append(record)
    return whole


def _folded(drafts: list[Event]) -> list[Event]:
    """At most FOLD_AFTER of one kind, code and device singly, then one that says how many more."""
    kept: list[Event] = []
    seen: dict[tuple[str, int | None, str], int] = {}
    last: dict[tuple[str, int | None, str], Event] = {}
    for draft in drafts:
        key = (draft.kind, draft.code, draft.pci)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= FOLD_AFTER:
            kept.append(draft)
        else:
            last[key] = draft
    for key, draft in last.items():
        kept.append(replace(draft, detail=draft.detail | {"folded": str(seen[key] - FOLD_AFTER)}))
    return kept


def on_node(node: Node) -> Collector:
    """From /dev/kmsg, or from a file in its place, with what the driver's library tells beside it."""
    path = node.machine.kmsg
    source = KmsgFile(path) if path.is_file() else KmsgDevice(path)
    kernel = KernelLogCollector(source, node.boot_id(), node.clock, node.state / "kernel_log")
    return MergedCollector(kernel, node.sampled("xids", 1.0), node.clock)
