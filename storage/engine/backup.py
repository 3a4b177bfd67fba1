"""Backup and restore of the embedded engine's data folder, while no engine runs on it.

One tar file, not compressed again: the columns are. While an engine runs, `lockstep storage copy` reads it by SQL.
"""

import contextlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import UserError
from runtime.files import named_folder
from storage.engine.folder import hold
from storage.engine.settings import EngineSettings

KEPT = ("metadata", "store", "data")
"""What of a data folder is data: locks, spools and the engine's own configuration are made anew at each start."""


def backup(settings: EngineSettings, file: Path) -> int:
    """Write the data folder into `file`; its size in bytes. UserError where an engine runs or the file exists."""
    if not os.path.isdir(named_folder(settings.engine_data, "--data or LOCKSTEP_ENGINE_DATA")):
        raise UserError(
            f"data folder {settings.engine_data}: no such folder; give --data DIR, or set LOCKSTEP_ENGINE_DATA"
        )
    if file.exists():
        raise UserError(f"{file} exists already: choose another file")
    folder, lock = hold(settings)
    with lock, _explained(file):
        if not (folder / "metadata").is_dir():
            raise UserError(f"data folder {folder}: no engine has stored anything here")
        begun = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with tarfile.open(begun, "w") as archive:
                for name in KEPT:
                    if (folder / name).exists():
                        archive.add(folder / name, name)
            with begun.open("rb") as whole:
                os.fsync(whole.fileno())
            begun.rename(file)
        finally:
            begun.unlink(missing_ok=True)
        return file.stat().st_size


def restore(settings: EngineSettings, file: Path) -> None:
    """Make the data folder from `file`. UserError where it holds data already, or the file is no whole backup."""
    folder, lock = hold(settings)
    with lock, _explained(file):
        if held := [name for name in KEPT if (folder / name).exists()]:
            raise UserError(f"data folder {folder} holds data already ({held[0]}): choose an empty one")
        with tarfile.open(file, "r:") as archive:
            names = archive.getnames()
            if "metadata" not in names or not all(name.split("/")[0] in KEPT for name in names):
                raise UserError(f"{file} is no backup of a data folder")
            # The engine must not start on half of it: what says which tables there are comes last.
            members = archive.getmembers()
            archive.extractall(folder, [m for m in members if m.name.split("/")[0] != "metadata"], filter="data")
            archive.extractall(folder, [m for m in members if m.name.split("/")[0] == "metadata"], filter="data")


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except tarfile.TarError as error:
        raise UserError(f"{file} is no whole backup: {error}") from None
    except OSError as error:
        raise UserError(f"{error.filename or file}: {error.strerror or error}") from None
