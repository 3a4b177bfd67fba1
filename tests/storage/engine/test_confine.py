"""The kernel's bound on the engine, in a process of its own: there is no way back."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

TRIED = """
import socket, sys
from pathlib import Path
from storage.engine.confine import confine

folder, secret, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if not confine(folder):
    print("cannot")
    sys.exit()
(folder / "mine").write_text("mine")
print((folder / "mine").read_text())
for path in (secret, "/proc/self/environ", "/etc/passwd"):
    try:
        open(path).read()
    except PermissionError:
        print("refused")
try:
    open(secret, "a")
except PermissionError:
    print("refused")
try:
    socket.create_connection(("127.0.0.1", port)).close()
except PermissionError:
    print("refused")
import colorsys
print("auxv" if open("/proc/self/auxv", "rb").read(1) else "")
"""


def test_only_the_data_folder_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_text("TOPSECRET")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [str(tmp_path / "data"), str(tmp_path / "secret"), str(server.getsockname()[1])]
        done = subprocess.run([sys.executable, "-c", TRIED, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if done.stdout == "cannot\n":
        pytest.skip("this kernel has no Landlock")
    said = done.stdout.splitlines()  # whether a connection is refused depends on the kernel's age
    assert (said[:5], said[-1]) == (["mine", *4 * ["refused"]], "auxv")


def test_what_a_killed_engine_left_is_taken_away(tmp_path: Path) -> None:
    from storage.engine.folder import hold
    from storage.engine.settings import EngineSettings

    left = tmp_path / "spool" / "clickhouse-embedded-1"
    left.mkdir(parents=True)
    (left / "file").write_text("")
    _, lock = hold(EngineSettings(engine_data=str(tmp_path)))
    lock.release()
    assert list((tmp_path / "spool").iterdir()) == []
