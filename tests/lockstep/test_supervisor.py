"""The supervisor starts in order, hands addresses on, restarts what dies, and leaves nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.supervisor import Service, Supervisor
from runtime.clock import SystemClock
from runtime.errors import UserError

# A stand-in for `lockstep`: says it is ready at an address made of its process id, tells what it was given, waits.
PROGRAM = """
import os, signal, sys, time
what = sys.argv[1]
if what == "fail":
    print("lockstep: port 9 is taken"); sys.exit(2)
if what == "once":
    print("migrated"); sys.exit(0)
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what == "publish":
    print(f"ready 127.0.0.1:{os.getpid()}", flush=True)
print("given", os.environ.get("ADDRESS"), flush=True)
while True:
    time.sleep(0.05)
"""


def supervisor(tmp_path: Path, *services: Service) -> Supervisor:
    program = (sys.executable, "-c", PROGRAM)
    return Supervisor(services, os.environ, tmp_path / "log", SystemClock(), program=program)


def wait_for(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.05)


PUBLISHER = Service(name="broker", arguments=("publish",), publishes=True)
USER = Service(
    name="user",
    arguments=("use",),
    needs=("broker",),
    environment=lambda addresses: {"ADDRESS": addresses["broker"]},
)


def test_an_address_reaches_who_needs_it_and_all_lines_reach_the_log(tmp_path: Path) -> None:
    once = Service(name="migrate", arguments=("once",), once=True)
    running = supervisor(tmp_path, PUBLISHER, once, USER)
    try:
        running.start()
        log = tmp_path / "log"
        wait_for(lambda: f"user      given {running.addresses['broker']}" in log.read_text())
        assert "migrate   migrated" in log.read_text()
    finally:
        running.stop()
    assert not running.running("broker")
    assert not running.running("user")


def test_what_dies_is_started_again_and_with_a_new_address_what_needs_it(tmp_path: Path) -> None:
    running = supervisor(tmp_path, PUBLISHER, USER)
    try:
        running.start()
        first, user = running.addresses["broker"], running.pid("user")
        os.kill(running.pid("user"), signal.SIGKILL)
        wait_for(lambda: (running.tend(), running.pid("user") != user)[1])
        assert running.addresses["broker"] == first
        os.kill(running.pid("broker"), signal.SIGKILL)
        wait_for(lambda: (running.tend(), running.addresses["broker"] != first)[1])
        wait_for(lambda: f"user      given {running.addresses['broker']}" in (tmp_path / "log").read_text())
        assert running.restarts == {"user": 1, "broker": 1}
    finally:
        running.stop()


def test_what_cannot_start_is_said_in_its_own_words(tmp_path: Path) -> None:
    running = supervisor(tmp_path, Service(name="database", arguments=("fail",), publishes=True))
    try:
        with pytest.raises(UserError, match="database did not start: port 9 is taken"):
            running.start()
    finally:
        running.stop()


def test_what_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.supervisor.STOP_TIMEOUT_S", 0.5)
    running = supervisor(tmp_path, Service(name="stubborn", arguments=("stubborn",)))
    running.start()
    wait_for(lambda: "given" in (tmp_path / "log").read_text())
    running.stop()
    assert not running.running("stubborn")


def test_children_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from lockstep.supervisor import Service, Supervisor
from runtime.clock import SystemClock
program = (sys.executable, "-c", {PROGRAM!r})
s = Supervisor([Service(name="a", arguments=("use",))], os.environ, Path({str(tmp_path / "log")!r}), SystemClock(),
               program=program)
s.start()
print(s.pid("a"), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()

    def gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    wait_for(gone)


def test_what_keeps_ending_is_named_with_its_last_words_while_the_next_try_is_silent_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.supervisor.LONGEST_PAUSE_S", 0.05)
    running = supervisor(tmp_path, Service(name="writer", arguments=("fail",)))
    try:
        running.start()

        def tried() -> bool:
            running.tend()
            return running.restarts.get("writer", 0) > 2

        wait_for(tried)
        with pytest.raises(UserError, match=r"writer keeps ending: port 9 is taken \(log: .*log\)"):
            running.require_steady()
    finally:
        running.stop()


def test_a_full_disk_or_a_reader_that_went_away_takes_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", gone)
    program = (sys.executable, "-c", PROGRAM.replace('print("given"', 'print("x" * 100_000); print("given"'))
    running = Supervisor((PUBLISHER, USER), os.environ, Path("/dev/full"), SystemClock(), echo=True, program=program)
    try:
        running.start()
        pid = running.pid("broker")
        running.tend()
        assert (running.running("broker"), running.pid("broker")) == (True, pid)
    finally:
        running.stop()
        with contextlib.suppress(OSError):
            gone.close()


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(UserError, match=r"log .*: Is a directory; choose another --data"):
        supervisor(tmp_path, PUBLISHER)
