"""What the agent accepted and nobody has confirmed yet, on disk.

Segment files of framed entries: 4 bytes length, 4 bytes CRC-32, then MessagePack [topic, key, value]. A segment is
named by its first entry's number and never appended to by a later process, so a torn tail ends its segment and nothing
else. When the spool is full, the oldest segment goes, and its entries are counted.

Promise: an entry is accepted when `append` returns. From then on it survives the death of the agent, however sudden,
but not of the machine: nothing is forced to disk (the kernel writes within about 30 s), because syncing every second
costs more than those seconds are worth. Where the disk takes nothing, entries live in memory only, and what has to be
given up there is counted. See docs/decisions/agent-spool.md.
"""

import logging
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from collectors import cursor
from runtime.files import write_whole
from runtime.health import Counters

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<II")
_SUFFIX = ".spool"
SEGMENTS = 16
"""Parts of the whole: the least that is lost at once when the spool is full."""

MEMORY_BYTES = 2 << 20
"""The newest entries are kept in memory too: while the broker answers, nothing is read back from disk."""

MOST_ENTRY_BYTES = 64 << 20
"""A length above this is a torn header."""


class Entry(NamedTuple):
    """One record on its way: its number in this spool, and what Kafka gets."""

    number: int
    topic: str
    key: str
    value: bytes


class _Segment:
    def __init__(self, path: Path, first: int, size: int) -> None:
        self.path, self.first, self.size = path, first, size


class Spool:
    """Entries in order, numbered for ever within `folder`; at most `max_bytes` of them.

    Counts dropped{spool_full} and dropped{spool_unreadable} by entries. One process at a time, one thread.
    """

    def __init__(self, folder: Path, max_bytes: int, counters: Counters, memory_bytes: int = MEMORY_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.max_bytes, self._counters = folder, max_bytes, counters
        self._segment_bytes = max(4096, max_bytes // SEGMENTS)
        self._memory: deque[Entry] = deque()
        self._memory_bytes, self._memory_left = memory_bytes, memory_bytes
        self._segments = self._found()
        mark = cursor.load(folder / "position")
        self._delivered = int(mark) if mark.isdecimal() else 0
        self._saved = self._delivered
        if self._segments:
            self._delivered = max(self._delivered, self._segments[0].first)
        self._next = max(self._delivered, self._end())
        self._gap_to = 0
        self.failing = ""
        """Why the disk takes nothing; "" while it does."""
        self.given_up = 0
        """Entries that went because the spool was full."""
        self._file: BinaryIO | None = None
        self._reader = _Reader()
        self._forget()

    @property
    def delivered(self) -> int:
        """Every entry below this number is confirmed, or given up and counted."""
        return self._delivered

    @property
    def waiting(self) -> int:
        """How many entries are not confirmed."""
        return self._next - self._delivered

    @property
    def disk_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, topic: str, key: str, value: bytes) -> int:
        """Accept one entry; returns its number. Never raises for the disk's sake."""
        entry = Entry(self._next, topic, key, value)
        self._next += 1
        self._write(entry)
        self._memory.append(entry)
        self._memory_left -= len(value)
        while self._memory_left < 0 and len(self._memory) > 1:
            self._memory_left += len(self._memory.popleft().value)
        self._make_room()
        return entry.number

    def read(self, at: int, most: int, most_bytes: int = 1 << 30) -> tuple[list[Entry], int]:
        """Entries from number `at` on, oldest first, and the number to go on from.

        At most `most` of them, and none after `most_bytes` are full. Numbers that nobody has any more are passed over,
        and counted once.
        """
        at = max(at, self._delivered)
        entries: list[Entry] = []
        in_memory: Iterator[Entry] | None = None
        while len(entries) < most and most_bytes > 0 and at < self._next:
            if in_memory is None and self._memory and at >= self._memory[0].number:
                in_memory = islice(self._memory, at - self._memory[0].number, None)
            entry = self._from_disk(at) if in_memory is None else next(in_memory)
            if entry is None:
                to = self._after_gap(at)
                self._counters.add("dropped", max(0, to - max(at, self._gap_to)), "spool_unreadable")
                self._gap_to = max(self._gap_to, to)
                at = to
            else:
                entries.append(entry)
                most_bytes -= len(entry.value)
                at = entry.number + 1
        return entries, at

    def confirm(self, below: int) -> None:
        """All entries with smaller numbers are delivered: forget them."""
        if below > self._delivered:
            self._delivered = min(below, self._next)
            self._forget()

    def save(self) -> None:
        """Remember how far delivery has come. A crash before that sends some entries again."""
        if self._saved != self._delivered and cursor.save(self._folder / "position", str(self._delivered)):
            self._saved = self._delivered

    def close(self) -> None:
        self.save()
        self._reader.close()
        self._end_segment()

    def _found(self) -> list[_Segment]:
        paths = sorted(path for path in self._folder.glob("*" + _SUFFIX) if path.stem.isdecimal())
        return [_Segment(path, int(path.stem), path.stat().st_size) for path in paths]

    def _end(self) -> int:
        """The number after the last whole entry on disk."""
        if not self._segments:
            return 0
        last = self._segments[-1]
        reader = _Reader()
        reader.open(last)
        while reader.next() is not None:
            pass
        reader.close()
        return reader.index

    def _write(self, entry: Entry) -> None:
        body = msgspec.msgpack.encode(entry[1:])
        framed = _HEADER.pack(len(body), zlib.crc32(body)) + body
        try:
            if self._file is None or self._segments[-1].size >= self._segment_bytes:
                self._begin_segment(entry.number)
            assert self._file is not None
            if self._file.write(framed) != len(framed):
                raise OSError("no room for a whole record")
        except OSError as error:
            # What was written of it is a torn tail: the next entry begins a new segment.
            self._counters.add("errors", label="spool_write")
            reason = str(error.strerror or error)
            if not self.failing:
                logger.warning("spool %s takes nothing (%s): records wait in memory", self._folder, reason)
            self.failing = reason
            self._end_segment()
            if self._segments and not self._segments[-1].size:
                self._segments.pop().path.unlink(missing_ok=True)
        else:
            self._segments[-1].size += len(framed)
            if self.failing:
                logger.info("spool %s takes records again", self._folder)
            self.failing = ""

    def _begin_segment(self, first: int) -> None:
        self._end_segment()
        path = self._folder / f"{first:020d}{_SUFFIX}"
        self._file = path.open("wb", buffering=0)
        if self._segments and self._segments[-1].path == path:
            self._segments.pop()
        self._segments.append(_Segment(path, first, 0))

    def _end_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _make_room(self) -> None:
        while len(self._segments) > 1 and self.disk_bytes > self.max_bytes:
            end = self._segments[1].first
            if end > self._delivered:
                self._counters.add("dropped", end - self._delivered, "spool_full")
                self.given_up += end - self._delivered
                self._delivered = end
            self._forget()

    def _forget(self) -> None:
        """Remove what lies wholly below the delivered position, on disk and in memory."""
        while self._segments and self._segment_end(0) <= self._delivered:
            if len(self._segments) == 1 and self._file is not None:
                break  # the one being written: a new file each second would cost more than an old one
            self._segments.pop(0).path.unlink(missing_ok=True)
        while self._memory and self._memory[0].number < self._delivered:
            self._memory_left += len(self._memory.popleft().value)

    def _segment_end(self, i: int) -> int:
        return self._segments[i + 1].first if i + 1 < len(self._segments) else self._next

    def _from_disk(self, at: int) -> Entry | None:
        if self._reader.index != at or not self._reader.opened:
            segment = next((s for s in reversed(self._segments) if s.first <= at), None)
            if segment is None:
                return None
            self._reader.open(segment)
            while self._reader.index < at:
                if self._reader.next() is None:
                    return None
        entry = self._reader.next()
        if entry is None and any(segment.first == at for segment in self._segments):
            self._reader.open(next(segment for segment in self._segments if segment.first == at))
            entry = self._reader.next()
        return entry

    def _after_gap(self, at: int) -> int:
        """The next number that may be there."""
        starts = [segment.first for segment in self._segments if segment.first > at]
        if self._memory:
            starts.append(self._memory[0].number)
        return min(starts, default=self._next)


class _Reader:
    """Reads one segment from its beginning; `index` is the number of the entry that comes next."""

    def __init__(self) -> None:
        self.index = -1
        self._file: BinaryIO | None = None

    @property
    def opened(self) -> bool:
        return self._file is not None

    def open(self, segment: _Segment) -> None:
        self.close()
        self.index = segment.first
        try:
            self._file = segment.path.open("rb")
        except OSError:
            self._file = None

    def next(self) -> Entry | None:
        """The next entry; None at the end, a torn tail or damage."""
        if self._file is None:
            return None
        at = self._file.tell()
        try:
            header = self._file.read(_HEADER.size)
            if len(header) == _HEADER.size:
                length, crc = _HEADER.unpack(header)
                body = self._file.read(length) if length <= MOST_ENTRY_BYTES else b""
                if len(body) == length and zlib.crc32(body) == crc:
                    topic, key, value = msgspec.msgpack.decode(body, type=tuple[str, str, bytes])
                    self.index += 1
                    return Entry(self.index - 1, topic, key, value)
            self._file.seek(at)
        except (OSError, msgspec.DecodeError):
            self.close()
        return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def next_run_id(folder: Path, now_ms: int) -> int:
    """The number of this start of the agent, kept in `folder`: above every earlier one, and safely on disk.

    Seconds since 1970, or one more than last time where the clock went back. So it keeps rising when the file is lost
    or garbage, with the whole disk even: rows of another start are never taken for this one's.
    """
    path = folder / "run_id"
    said = cursor.load(path)
    before = int(said) if said.isdecimal() and len(said) < 16 else 0
    run_id = max(before + 1, now_ms // 1000)
    try:
        write_whole(path, str(run_id).encode())
    except OSError:
        logger.warning("run_id could not be kept in %s: the clock alone has to make the next one higher", path)
    return run_id
