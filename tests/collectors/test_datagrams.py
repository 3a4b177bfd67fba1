"""Step lines by datagram: from whom, how many at most, and what becomes of the socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors import datagrams
from collectors.datagrams import DatagramLines
from runtime.errors import UserError
from runtime.health import Counters


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "steps.sock"


@pytest.fixture
def lines(path: Path) -> Iterator[DatagramLines]:
    source = DatagramLines(path, Counters())
    yield source
    source.close()
    assert not path.exists()


def send(path: Path, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for data in datagrams:
            sender.sendto(data, str(path))


def take(source: DatagramLines, count: int) -> list[tuple[str, bytes]]:
    taken: list[tuple[str, bytes]] = []
    deadline = time.monotonic() + 5
    while len(taken) < count and time.monotonic() < deadline:
        taken += source.read()
    return taken


def test_lines_come_with_their_process(lines: DatagramLines, path: Path) -> None:
    send(path, b"one\ntwo\n", b"three")
    me = f"pid{os.getpid()}"
    assert take(lines, 3) == [(me, b"one"), (me, b"two"), (me, b"three")]


def test_another_process_is_another_source(lines: DatagramLines, path: Path) -> None:
    code = "import socket,sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', sys.argv[1])"
    child = subprocess.Popen([sys.executable, "-S", "-c", code, str(path)])
    assert child.wait(30) == 0
    assert take(lines, 1) == [(f"pid{child.pid}", b"x")]


def test_more_than_the_kernels_queue_arrives_between_two_ticks(lines: DatagramLines, path: Path) -> None:
    limit = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    send(
        path, *(b"%d" % number for number in range(20 * limit))
    )  # blocks while the queue is full: the thread empties it
    assert [int(line) for _, line in take(lines, 20 * limit)] == list(range(20 * limit))


def test_a_flood_keeps_the_newest_and_counts_what_went(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagrams, "WAITING_BYTES", 100)
    counters = Counters()
    source = DatagramLines(path, counters)
    send(path, *(b"%010d" % number for number in range(50)))
    deadline = time.monotonic() + 5
    while counters.totals().get("dropped{line_bytes_behind}", 0) < 400 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [int(line) for _, line in source.read()] == list(range(40, 50))
    source.close()


def test_a_socket_left_behind_is_taken_over_and_a_used_one_is_not(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(path))
    source = DatagramLines(path, Counters())
    with pytest.raises(UserError, match=r"another process listens at .*--steps-socket"):
        DatagramLines(path, Counters())
    send(path, b"still the first's")
    assert take(source, 1)
    source.close()


def test_a_socket_that_somebody_removed_is_made_anew(lines: DatagramLines, path: Path) -> None:
    path.unlink()
    lines.read()
    send(path, b"after")
    assert [line for _, line in take(lines, 1)] == [b"after"]


def test_anybody_may_send(lines: DatagramLines, path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("bad", ["/proc/none/steps.sock", "/tmp/" + "x" * 200])
def test_a_place_that_does_not_serve_is_one_line(bad: str) -> None:
    with pytest.raises(UserError, match=r"^socket .*; choose another by --steps-socket$"):
        DatagramLines(Path(bad), Counters())


def test_a_file_where_the_socket_should_be_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "steps.sock").write_text("somebody's")
    with pytest.raises(UserError, match="in use"):
        DatagramLines(tmp_path / "steps.sock", Counters())
    assert (tmp_path / "steps.sock").read_text() == "somebody's"


def test_a_flood_of_short_lines_is_bounded_in_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagrams, "WAITING_LINES", 10)
    counters = Counters()
    source = DatagramLines(path, counters)
    send(path, b"\n".join(b"%02d" % number for number in range(50)))
    deadline = time.monotonic() + 5
    while counters.totals().get("dropped{line_bytes_behind}", 0) < 80 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [int(line) for _, line in source.read()] == list(range(40, 50))
    source.close()
