"""The command line as a person meets it: help with an example, one clear line where something is wrong."""

import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from lockstep.cli import COMMANDS, group


def lockstep(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    return subprocess.run(
        [sys.executable, "-m", "lockstep", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [*COMMANDS, "topics create", "topics tail", "storage migrate", "storage serve"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = CliRunner().invoke(group, [*command.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output
    if command not in ("topics", "storage"):
        assert "Example: lockstep" in done.output or "Example: LOCKSTEP_" in done.output


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["agent", "--interval-s", "0"], {}, "--interval-s='0'"),
        (["agent"], {"LOCKSTEP_BROKER": "nowhere"}, "LOCKSTEP_BROKER='nowhere'"),
        (["worker", "--slot", "-1"], {}, "--slot='-1'"),
        (["alerts"], {}, "no receiver is configured"),
        (["alerts"], {"LOCKSTEP_PAGERDUTY_ROUTING_KEY": "secret-but-short"}, "LOCKSTEP_PAGERDUTY_ROUTING_KEY=***"),
        (["topics", "tail", "gossip"], {}, "no topic 'gossip'; there are: node-frames"),
        (["demo", "--fault", "gremlins"], {}, "gremlins"),
        (["demo", "--target", "9999"], {}, "--target 9999"),
        (["replay", "/no/such/file.parquet"], {}, "/no/such/file.parquet"),
        (["analyze", "/no/such/file"], {}, "/no/such/file"),
        (["storage", "serve", "--host", "0.0.0.0"], {}, "without a password"),
        (["query", "SELECT 1", "--clickhouse-port", "1"], {}, "does not answer"),
        (["nonsense"], {}, "No such command 'nonsense'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_one_line_and_exit_status_2(
    arguments: list[str], environment: dict[str, str], said: str
) -> None:
    done = lockstep(*arguments, **environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("arguments", [["topics", "tail", "events"], ["topics", "create"]])
def test_a_broker_that_is_not_there_is_one_line(arguments: list[str]) -> None:
    done = lockstep(*arguments, LOCKSTEP_BROKER="127.0.0.1:1")
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_one_line(tmp_path: object) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments in (
            ["up", "--data", f"{tmp_path}/up", "--http-port", port],
            ["storage", "serve", "--data", f"{tmp_path}/ch", "--port", port],
        ):
            done = lockstep(*arguments)
            assert done.returncode == 2, done.stderr
            assert f"127.0.0.1:{port}" in done.stderr
            assert "Traceback" not in done.stderr


def test_list_faults_for_machines() -> None:
    done = lockstep("demo", "--list-faults", "--format", "json")
    assert done.returncode == 0, done.stderr
    faults = json.loads(done.stdout)
    assert faults["gpu_degraded"]["scope"] == "rank"
    assert set(faults["leak"]) == {"scope", "severity", "meaning"}


def test_the_agent_imports_nothing_that_only_others_need() -> None:
    code = (
        "import sys; sys.argv = ['lockstep', 'agent', '--help']\n"
        "from lockstep.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'sklearn', 'faust', 'clickhouse_connect', 'chdb', 'pyarrow', 'aiohttp', 'pandas'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("heavy: []\n")
