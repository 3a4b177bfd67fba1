"""Files that must be right after a crash: a lock that one process holds, and a write that is whole or not at all."""

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from runtime.errors import UserError


class Lock:
    """An exclusive lock on a file for the life of this process; UserError with `held` where another has it.

    The kernel releases it when the process dies, however it dies.
    """

    def __init__(self, path: Path, held: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise UserError(f"{held} (process {owner if owner.isdecimal() else 'unknown'})") from None
        with contextlib.suppress(OSError):  # a full disk: who has it cannot be told, but is held all the same
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def named_folder(given: str, by: str) -> Path:
    """The folder that a person names, from the root on, made or not; `~` is a home. UserError where it cannot be meant:
    it goes into logs, messages and the engine's configuration. `by` is how to name another.

    >>> named_folder("/var//lib/./lockstep", "--data")
    PosixPath('/var/lib/lockstep')
    """
    if not given.isprintable():
        raise UserError(
            f"data folder {given!r}: its name has control characters or is no UTF-8; choose another by {by}"
        )
    try:
        return Path(os.path.realpath(Path(given).expanduser()))
    except RuntimeError:
        raise UserError(f"data folder {given}: nobody knows that home; choose another by {by}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` by `content` so that a crash leaves the old or the new, never a part; raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
