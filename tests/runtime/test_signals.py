"""A process is told to end: once, or several times at once, whatever it is doing just then."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading
from runtime.signals import set_on

stop = threading.Event()
set_on(stop, signal.SIGTERM, signal.SIGINT)
with stop._cond:  # as where it is waited for, or set for the signal before
    os.kill(os.getpid(), signal.{name})
    os.kill(os.getpid(), signal.{name})
print(stop.wait(10))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_while_the_event_is_locked_is_heard(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "nothing is set here"
