"""Small marks that may be lost by a tick or two in a crash, but never be torn: how far a reader has come."""

import os
from pathlib import Path

WIDTH = 80
"""Marks are written in place, one page's worth in one call: nothing that dies in between can leave half of one."""


def load(path: Path) -> str:
    """What was saved last; "" where there is nothing readable."""
    try:
        with path.open("rb") as file:
            return file.read(WIDTH).decode("ascii", "replace").strip()
    except OSError:
        return ""


def save(path: Path, mark: str) -> bool:
    """Replace the mark (at most WIDTH letters), not forced to disk. False where the disk does not take it.

    In place rather than by renaming: file systems write a renamed file out at once, and once a second that costs more
    than to read a little twice after a crash of the machine.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            return os.pwrite(descriptor, mark.ljust(WIDTH).encode("ascii"), 0) == WIDTH
        finally:
            os.close(descriptor)
    except OSError:
        return False
