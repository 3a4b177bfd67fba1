"""Lines that processes append to files of one folder: each new complete line once.

NCCL Inspector opens "HOST-pidPID.log" for writing and neither rotates nor deletes it, so a process id that comes back
truncates the file; others rotate. What tells one file from another is its inode and its first bytes, not its name. A
writer's buffer ends anywhere: the last, partial line waits.
"""

import contextlib
import os
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from runtime.health import Counters

TICK_BYTES = 8 << 20
"""Read at most this much a tick from all files together: what eight ranks' NCCL Inspectors write in their verbose form
at 770 lines a second each is 6.4 MB."""

MOST_BEHIND = 64 << 20
"""A file further behind than this is not caught up: its oldest lines are skipped, and counted."""

LINE_BYTES = 1 << 20
"""A longer line is none: it is dropped, and counted, up to its end."""

HEAD_BYTES = 256
IDLE_READS = 60
"""A file that has not grown for so long is closed until it does: old processes' files are many, descriptors few."""

IDLE_LOOKS = 256
"""So many of the files that rest are looked at in one read, in turn: an agent's node holds thousands of old ones, and
the size of each is a call to the kernel."""

Inode = tuple[int, int]


class _File:
    """One file and how far it was read; open while it grows."""

    def __init__(self, path: Path, inode: Inode, at: int) -> None:
        self.path, self.inode = path, inode
        self.at = self.size = at
        self.partial = self.head = b""
        self.skip = False
        """What comes up to the next line's end is no whole line."""
        self.idle = 0
        self._descriptor = -1

    def pread(self, count: int, at: int) -> bytes:
        """Bytes of this very file; none where its name now leads to another, and it was not open."""
        if self._descriptor < 0:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            stat = os.fstat(descriptor)
            if (stat.st_dev, stat.st_ino) != self.inode:
                os.close(descriptor)
                return b""
            self._descriptor = descriptor
        return os.pread(self._descriptor, count, at)

    def look(self) -> None:
        """The size, for a file whose name is gone."""
        if self._descriptor >= 0:
            self.size = os.fstat(self._descriptor).st_size

    def begin_anew(self) -> None:
        self.at, self.partial, self.head, self.skip = 0, b"", b"", False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class FolderLines:
    """A LineSource over the files of `folder` that match `pattern`.

    `start` says where to begin in files that are there already at the first call: what was written before the agent
    started was read by the agent before it, or is history. Files that appear later are read from their beginning.
    Lost bytes are counted in `counters` as dropped{REASON}; `behind_bytes` is what waits after the last call.
    """

    def __init__(
        self,
        folder: Path,
        counters: Counters,
        pattern: str = "*",
        start: Literal["beginning", "end"] = "end",
        tick_bytes: int = TICK_BYTES,
    ) -> None:
        self._folder, self._counters, self._pattern, self._tick_bytes = folder, counters, pattern, tick_bytes
        self._from_end = start == "end"
        self._files: dict[str, _File] = {}
        self._turn = self._look = 0
        self.behind_bytes = 0

    def read(self) -> list[tuple[str, bytes]]:
        """New complete lines as (file name, line without its end); of one file in order."""
        lines: list[tuple[str, bytes]] = []
        left = self._tick_bytes
        for file in self._scan():
            left -= self._finish(file, lines)
        waiting = [file for file in self._in_turn() if self._waiting(file)]
        self.behind_bytes = 0
        for i, file in enumerate(waiting):
            left -= self._take(file, max(0, left) // (len(waiting) - i), lines)
            self.behind_bytes += file.size - file.at
        return lines

    def _scan(self) -> list[_File]:
        """Look at the folder; returns the files that are no longer there under their names."""
        present: dict[str, tuple[Inode, int]] = {}
        resting = [name for name, file in self._files.items() if file.idle > IDLE_READS]
        self._look = self._look % len(resting) if resting else 0
        unseen = set(resting) - set((resting + resting)[self._look : self._look + IDLE_LOOKS])
        self._look += IDLE_LOOKS
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name in unseen and entry.inode() == self._files[entry.name].inode[1]:
                        present[entry.name] = (self._files[entry.name].inode, self._files[entry.name].size)
                    elif fnmatch(entry.name, self._pattern) and entry.is_file():
                        with contextlib.suppress(
                            FileNotFoundError
                        ):  # removed while we look: the others are still there
                            stat = entry.stat()
                            present[entry.name] = ((stat.st_dev, stat.st_ino), stat.st_size)
        except (FileNotFoundError, NotADirectoryError):
            pass  # no folder (yet): nothing to read, and what was open has its end read
        except OSError:  # a network's folder that does not answer has lost no file: nothing is to be read twice
            self._counters.add("errors", label="lines_unreadable")
            return []
        gone = [name for name, f in self._files.items() if name not in present or present[name][0] != f.inode]
        ended = [self._files.pop(name) for name in gone]
        for name, (inode, size) in sorted(present.items()):
            if name not in self._files:
                self._files[name] = _File(self._folder / name, inode, size if self._from_end else 0)
            self._files[name].size = size
        self._from_end = False
        return ended

    def _in_turn(self) -> list[_File]:
        """Every file, another first each time: none starves behind its neighbours."""
        files = list(self._files.values())
        self._turn += 1
        turn = self._turn % len(files) if files else 0
        return files[turn:] + files[:turn]

    def _waiting(self, file: _File) -> bool:
        """Whether there is something to read; begins anew where the file was cut or written over."""
        if file.size == file.at:
            file.idle += 1
            if file.idle > IDLE_READS:
                file.close()
            return False
        file.idle = 0
        try:
            if file.size < file.at or file.pread(len(file.head), 0) != file.head:
                file.begin_anew()
            if not file.head and file.at:  # first growth of a file begun at its end, maybe in the middle of a line
                file.skip = file.pread(1, file.at - 1) != b"\n"
        except OSError:
            self._counters.add("errors", label="lines_unreadable")
            return False
        if file.size - file.at > MOST_BEHIND:
            self._counters.add("dropped", file.size - file.at - MOST_BEHIND, "line_bytes_behind")
            file.at, file.partial, file.skip = file.size - MOST_BEHIND, b"", True
        return file.size > file.at

    def _take(self, file: _File, most: int, lines: list[tuple[str, bytes]]) -> int:
        """Read up to `most` bytes of one file into `lines`; returns how many were read."""
        try:
            read = file.pread(min(most, file.size - file.at), file.at)
            file.at += len(read)
            if len(file.head) < HEAD_BYTES:
                file.head = file.pread(min(HEAD_BYTES, file.at), 0)
        except OSError:
            self._counters.add("errors", label="lines_unreadable")
            return 0
        *whole, rest = (file.partial + read).split(b"\n")
        if file.skip and whole:
            del whole[0]
            file.skip = False
        name = file.path.name
        if b"\r" in read or file.partial.endswith(b"\r"):
            whole = [line.removesuffix(b"\r") for line in whole]
        lines += [(name, line) for line in whole if line]
        if len(rest) > LINE_BYTES and not file.skip:
            self._counters.add("dropped", label="line_too_long")
            file.skip = True
        file.partial = b"" if file.skip else rest
        return len(read)

    def _finish(self, file: _File, lines: list[tuple[str, bytes]]) -> int:
        """The end of a file that is no longer there under its name, as far as it is still open."""
        file.look()
        read = self._take(file, self._tick_bytes, lines) if file.size > file.at else 0
        lost = file.size - file.at + len(file.partial)
        if lost > 0:
            self._counters.add("dropped", lost, "line_bytes_removed")
        file.close()
        return read
