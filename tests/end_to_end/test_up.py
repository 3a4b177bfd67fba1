"""`lockstep up` as a newcomer meets it: what it prints can be copied, and it ends in order."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

READY_S, STOP_S = 90, 60


def test_the_agents_command_that_it_prints_works_and_ctrl_c_ends_all_in_order(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    program = [sys.executable, "-m", "lockstep"]
    arguments = ["up", "--data", str(tmp_path), "--http-port", "0"]
    said: list[str] = []
    ready = threading.Event()
    with subprocess.Popen(
        [*program, *arguments], env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as up:

        def read() -> None:
            assert up.stdout is not None
            for line in up.stdout:
                said.append(line)
                if line.startswith("ask "):
                    ready.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert ready.wait(READY_S), said
            assert any(line.startswith("all ready: broker 127.0.0.1:") for line in said), said
            words = shlex.split(next(line for line in said if line.startswith("watch ")))[1:]
            agent = subprocess.run(
                [*program, *words[1:], "--once"], env=clean, capture_output=True, text=True, timeout=60, check=False
            )
            assert words[0] == "lockstep"
            assert agent.returncode == 0, agent.stderr
            assert "does not go on" not in agent.stderr
            assert (tmp_path / "agent").is_dir()
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(STOP_S)
            reader.join(10)
    assert up.returncode == 0, said
    assert said[-1].startswith(f"stopped; the history is in {tmp_path}")
    assert [line for line in said if "[^" in line] == [], "Faust's own talk"
