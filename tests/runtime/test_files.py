"""The lock refuses a second holder by name and goes with its process; a write is whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import UserError
from runtime.files import Lock, write_whole


def test_a_second_holder_is_refused_with_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        Lock(path, "another runs here"),
        pytest.raises(UserError, match=rf"another runs here \(process {os.getpid()}\)"),
    ):
        Lock(path, "another runs here")
    Lock(path, "free again").release()


def test_a_killed_holder_leaves_the_lock_free(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from runtime.files import Lock;"
        "lock = Lock(Path(sys.argv[1]), 'x'); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=str(holder.pid)):
            Lock(tmp_path / "lock", "held")
        holder.kill()
        holder.wait()
    Lock(tmp_path / "lock", "held").release()


def test_a_write_replaces_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    with pytest.raises(OSError, match="No such file"):
        write_whole(tmp_path / "missing" / "state", b"three")
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_a_full_disk_keeps_nobody_from_holding(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/dev/full")
    with Lock(tmp_path / "lock", "it is held"), pytest.raises(UserError, match=r"it is held \(process unknown\)"):
        Lock(tmp_path / "lock", "it is held")
