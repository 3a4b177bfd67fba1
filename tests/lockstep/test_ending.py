"""How the command line ends where somebody or something ends it: Ctrl-C at once, a full disk, a closed terminal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.group import in_one_line

LOADING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background has it ignored
import lockstep.__main__

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "lockstep.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
lockstep.__main__.main()
"""


def test_ctrl_c_while_it_is_being_loaded_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_full_disk_under_the_output_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lockstep", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "lockstep: cannot write: No space left on device\n"


def test_a_closed_standard_error_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "nothing.log"
    log.write_text("nothing of note\n")
    command = 'exec "$@" 2>&-'
    done = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "lockstep", "analyze", "--kind", "kernel-log", str(log)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_waits_for_its_broker_ends_when_told(told: signal.Signals) -> None:
    command = [sys.executable, "-m", "lockstep", "simulate", "--broker", "127.0.0.1:1"]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        assert "waiting for the broker" in service.stderr.readline()
        service.send_signal(told)
        _, said = service.communicate(timeout=15)
    assert (service.returncode, said) == (0, "")


@pytest.mark.parametrize(("said", "shown"), [("a\nb\x1b[2J", "a\\nb\\x1b[2J"), ("né\udcff", "né\\udcff")])
def test_a_message_moves_no_cursor(said: str, shown: str) -> None:
    assert in_one_line(said) == shown
