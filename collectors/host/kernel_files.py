"""Files that the kernel writes at the moment they are read (/proc, /sys), read with as few calls as it takes.

A file object costs seven calls to the kernel, and more time than most of these files take to make. Where the folder is
none of the kernel's (a simulated node's), it is asked by the methods that it has in common with pathlib.Path.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

CHUNK_BYTES = 65_536


class Folder(Protocol):
    """What a simulated folder, or file, has in common with pathlib.Path."""

    @property
    def name(self) -> str: ...
    def read_bytes(self) -> bytes: ...
    def glob(self, pattern: str, /) -> "Iterable[Folder]": ...


def content(path: str | Path | Folder) -> bytes:
    """All of it; raises OSError."""
    if not isinstance(path, (str, os.PathLike)):
        return path.read_bytes()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _whole(descriptor)
    finally:
        os.close(descriptor)


def process_ids(proc: Path | Folder) -> set[int]:
    """The processes in /proc, by names alone, since a large node has thousands; raises OSError."""
    if isinstance(proc, os.PathLike):
        return {int(name) for name in os.listdir(proc) if name.isdecimal()}
    return {int(folder.name) for folder in proc.glob("[0-9]*")}


class HeldFile:
    """One that is read again and again, and stays open in between: each read is made anew all the same."""

    def __init__(self, path: Path | Folder) -> None:
        self._path = path
        self._descriptor = -1

    def read(self) -> bytes:
        """All of it as it is now; raises OSError."""
        if not isinstance(self._path, os.PathLike):
            return content(self._path)
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        elif not os.fstat(self._descriptor).st_nlink:
            self.close()  # removed, or another was put in its place
            return self.read()
        try:
            return _whole(self._descriptor)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def _whole(descriptor: int) -> bytes:
    """Tables come in pieces of a page, so that only an empty read is the end."""
    pieces: list[bytes] = []
    at = 0
    while piece := os.pread(descriptor, CHUNK_BYTES, at):
        pieces.append(piece)
        at += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
