"""The command line as a person meets it: help with an example, one clear line where something is wrong."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from alerts.service import AlertsSettings
from collectors.agent.settings import AgentSettings
from lockstep.cli import COMMANDS, group, main
from lockstep.options import Number
from lockstep.variables import KNOWN, from_file, known, warn_of_unknown
from runtime.errors import UserError
from runtime.settings import ClickHouse, Connection
from simulator.settings import FleetSettings
from storage.engine.settings import EngineSettings
from storage.service import WriterSettings
from streams.settings import WorkerSettings


def lockstep(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    return subprocess.run(
        [sys.executable, "-m", "lockstep", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [*COMMANDS, "topics create", "topics tail", "storage migrate", "storage serve"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = CliRunner().invoke(group, [*command.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output
    if command not in ("topics", "storage", "models"):
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
        (["query", "SELECT 1", "--clickhouse-port", "1"], {}, "127.0.0.1:1 does not answer (Connection refused)"),
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
    assert done.stderr.count("\n") == 1, done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["storage", "migrate", "--clickhouse-port", "1"], {}, "127.0.0.1:1 does not answer (Connection refused)"),
        (["query", "SELECT 1", "--clickhouse-host", "none.invalid"], {}, "none.invalid:8123 does not answer"),
        (["query", ""], {}, "the statement is empty: give SQL"),
        (["storage", "copy", "--from", "h:" + "9" * 5000], {}, "give HOST:PORT"),
        (["storage", "copy", "--from", "h:²"], {}, "give HOST:PORT"),
        (["query", "-"], {}, "standard input is empty: give SQL"),
        (["replay", "--speed", "nan", "x.csv"], {}, "nan is not a finite number"),
        (["replay", "--speed", "inf", "x.csv"], {}, "inf is not a finite number"),
        (["replay", "/dev/null"], {}, "/dev/null: neither a file nor a folder"),
        (["replay", __file__], {}, "neither a recording (.records) nor a table"),
        (["demo", "--speed", "nan"], {}, "--speed='nan'"),
        (["simulate", "--onset-s", "inf"], {}, "--onset-s='inf': give a finite number"),
        (["agent"], {"LOCKSTEP_SPOOL_MIB": "Infinity"}, "LOCKSTEP_SPOOL_MIB='Infinity': give a finite number"),
        (["topics", "create", "--broker-sasl-mechanism", "FOO"], {}, "give one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["agent"], {"LOCKSTEP_BROKER_SASL_MECHANISM": "FOO"}, "give one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["agent", "--broker-tls", "perhaps"], {}, "--broker-tls='perhaps': give yes or no"),
        (["analyze"], {}, "Missing argument 'PATHS...'; see `lockstep analyze --help`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line_and_exit_status_2(
    arguments: list[str],
    environment: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for variable in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "argv", ["lockstep", *arguments])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed, complained = capfd.readouterr()
    assert said in complained
    assert complained.startswith("lockstep: ")
    assert complained.count("\n") == 1, complained
    assert printed == ""


@pytest.mark.parametrize("command", ["topics tail events", "topics create", "replay TABLE"])
def test_a_broker_that_is_not_there_is_waited_for_aloud_and_not_for_long(command: str, tmp_path: Path) -> None:
    table = tmp_path / "power.csv"
    table.write_text("ts,node,power_w\n1,n1,400\n")
    begun = time.monotonic()
    arguments = command.replace("TABLE", f"{table} --map power_w=node_power_w").split()
    done = lockstep(*arguments, LOCKSTEP_BROKER="127.0.0.1:1")
    assert time.monotonic() - begun < 30
    assert done.returncode == 2
    waiting, said = done.stderr.splitlines()
    assert waiting == "waiting for the broker at 127.0.0.1:1 ..."
    assert said.startswith("lockstep: no broker at 127.0.0.1:1: Connection refused; ")


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("ts,node,power_w\n1,n1,400\n", ["--map", "power_w=watts"], "no metric watts"),
        ("ts,node,power_w\n1,n1,400\n", ["--map", "watts=node_power_w"], "has no column watts"),
        ("power_w\n400\n", [], "no time column"),
        ("ts,node,node_power_w\n", [], "no "),
        ("", [], "power.csv"),
    ],
)
def test_replay_looks_at_its_files_before_it_looks_for_a_broker(
    content: str,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "power.csv"
    table.write_text(content)
    monkeypatch.setattr(sys, "argv", ["lockstep", "replay", str(table), *arguments, "--broker", "127.0.0.1:1"])
    with pytest.raises(SystemExit, match="2"):
        main()
    complained = capfd.readouterr().err
    assert said in complained
    assert complained.count("\n") == 1
    assert "broker" not in complained


def test_sql_from_standard_input_that_is_no_text_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "query", "-"],
        input=b"\xff\xfe",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == b"lockstep: standard input is no UTF-8 text (byte 0): give SQL\n"


def test_every_float_option_refuses_what_is_not_finite() -> None:
    plain = [
        f"{name} --{parameter.name}"
        for name in COMMANDS
        for parameter in _parameters(group.get_command(click.Context(group), name))
        if isinstance(parameter.type, click.types.FloatParamType) and not isinstance(parameter.type, Number)
    ]
    assert plain == []


def _parameters(command: click.Command | None) -> list[click.Parameter]:
    assert command is not None
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return [*command.params, *(parameter for one in inner for parameter in _parameters(one))]


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("query", "clickhouse_connect", "storage"),
        ("worker", "faust", "worker"),
        ("demo", "clickhouse_connect", "all"),
        ("up", "chdb", "all"),
    ],
)
def test_without_an_extra_a_command_names_it_in_one_line(command: str, module: str, extra: str) -> None:
    arguments = {"query": ["query", "SELECT 1"]}.get(command, [command])
    block = f"import sys; sys.modules[{module!r}] = None; sys.argv[1:] = {arguments!r}"
    run = f"{block}; from lockstep.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        f"lockstep: `lockstep {command}` needs {module}, which is not installed: pip install 'gpu-lockstep[{extra}]'\n"
    )


def test_a_failed_demo_keeps_the_log_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(fleet: object, truth: object, folder: Path, *rest: object) -> None:
        (folder / "clickhouse").mkdir()
        (folder / "log" / "lockstep.log").write_text("writer    no disk\n")
        raise UserError(f"writer keeps ending (log: {folder / 'log' / 'lockstep.log'})")

    monkeypatch.setattr("lockstep.commands.demo._run", run)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert isinstance(CliRunner().invoke(group, ["demo", "--once"]).exception, UserError)
    (folder,) = tmp_path.iterdir()
    assert (folder / "log" / "lockstep.log").read_text() == "writer    no disk\n"
    assert not (folder / "clickhouse").exists()


def test_a_demo_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockstep", "demo", "--racks", "1", "--job-size", "16"]
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        while not (line := demo.stderr.readline()).startswith("starting"):
            assert line, "it ended by itself"
        assert len(list(tmp_path.iterdir())) == 1
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
        assert demo.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_variable_is_named_once_with_the_one_that_was_meant() -> None:
    environment = {"LOCKSTEP_BROKR": "kafka-1:9092", "LOCKSTEP_TEST_KAFKA": "", "LOCKSTEP_NODE": "n1"}
    done = lockstep("demo", "--list-faults", **environment)
    assert done.returncode == 0
    assert done.stderr == (
        "lockstep: LOCKSTEP_BROKR is no setting of Lockstep and is ignored; did you mean LOCKSTEP_BROKER?\n"
    )


def test_processes_started_from_here_do_not_repeat_the_warning() -> None:
    environment = {"LOCKSTEP_SPEEED": "2", "LOCKSTEP_SPEED": "2", "PATH": "/bin"}
    said: list[str] = []
    warn_of_unknown(environment, said.append)
    assert len(said) == 1
    assert environment == {"LOCKSTEP_SPEED": "2", "PATH": "/bin"}


def test_options_go_before_variables_and_variables_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "lockstep.toml"
    config.write_text('broker = "127.0.0.1:1"\ninterval_s = 0\nbroker_tls = false\nclickhouse_port = 1\n')
    arguments = ["--config", str(config), "agent"]
    assert "LOCKSTEP_INTERVAL_S='0'" in lockstep(*arguments).stderr
    assert "LOCKSTEP_INTERVAL_S='-1'" in lockstep(*arguments, LOCKSTEP_INTERVAL_S="-1").stderr
    assert "--interval-s='-2'" in lockstep(*arguments, "--interval-s", "-2", LOCKSTEP_INTERVAL_S="-1").stderr
    assert "ClickHouse at 127.0.0.1:1 " in lockstep("query", "SELECT 1", LOCKSTEP_CONFIG=str(config)).stderr


@pytest.mark.parametrize("given", [("--interval-s", "1e308"), ("--interval-s", "3601"), ("--tray", "9" * 30)])
def test_a_number_that_no_record_or_clock_takes_is_one_line(given: tuple[str, str], tmp_path: Path) -> None:
    done = lockstep("agent", "--once", "--spool-dir", str(tmp_path), *given)
    assert done.returncode == 2
    assert done.stderr.startswith(f"lockstep: {given[0]}='")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"brokr = 'x:1'", "no setting brokr; did you mean broker?"),
        (b"config = 'x'", "no setting config"),
        (b"broker = ['a:1', 'b:1']", "broker must be a text, a number, true or false"),
        (b"[agent]\nnode = 'n'", "no setting agent"),
        (b"broker: x", "at line 1"),
        (b"\xff", "invalid start byte"),
        (b'node = "a\\u0000b"', "node has a zero character in it"),
        (b"tray = " + b"9" * 5000, "4300 digits"),
        (b"tray = 0x" + b"f" * 5000, "tray must be a text, a number"),
        (b"tray = " + b"[" * 5000, "nested too deep"),
    ],
)
def test_a_file_of_settings_that_cannot_be_meant_is_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(f"--config {config}: ")) as caught:
        from_file(str(config))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="No such file"):
        from_file(f"{config}.none")


def test_every_setting_of_every_process_is_a_known_variable() -> None:
    """Add the name to `lockstep/variables.py` where this fails."""
    classes = (
        Connection,
        ClickHouse,
        AgentSettings,
        WorkerSettings,
        WriterSettings,
        EngineSettings,
        AlertsSettings,
        FleetSettings,
    )
    declared = {field.name.upper() for cls in classes for field in msgspec.structs.fields(cls)}
    assert declared | {"CONFIG", "DATA", "POD_GROUP_UID"} == known()
    assert len(KNOWN) == len(set(KNOWN))


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


def test_list_faults_for_people_stands_in_columns() -> None:
    lines = lockstep("demo", "--list-faults").stdout.splitlines()
    assert lines[0].split() == ["FAULT", "TARGET", "WHAT", "IT", "IS"]
    at = lines[0].index("WHAT")
    assert [line for line in lines if line[at - 1] != " " or line[at] == " "] == []
    assert [line for line in lines if "not used" in line] == []


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


def _commands(command: click.Command | None, path: str) -> list[tuple[str, click.Command]]:
    assert command is not None
    inner = command.commands.items() if isinstance(command, click.Group) else ()
    return [(path, command), *(found for name, one in inner for found in _commands(one, f"{path} {name}"))]


EVERY = [found for name in COMMANDS for found in _commands(group.get_command(click.Context(group), name), name)]


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[path for path, _ in EVERY])
def test_every_option_says_what_it_is_for(path: str, command: click.Command) -> None:
    """A setting's words are the `description` of its Meta."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    mute = [option.opts[0] for option in options if not re.sub(r"\[[^]]*\]", "", option.help or "").strip(" .")]
    assert mute == []


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[path for path, _ in EVERY])
def test_no_list_of_commands_is_cut_off(path: str, command: click.Command) -> None:
    said = CliRunner().invoke(group, [*path.split(), "--help"], terminal_width=80).output
    assert "..." not in said.partition("\nCommands:")[2].partition("\n  Example:")[0]


def test_a_number_is_asked_for_as_a_number() -> None:
    said = CliRunner().invoke(group, ["agent", "--help"]).output
    assert "--tray N " in said
    assert "--interval-s X " in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["analyse"], "No such command 'analyse', did you mean analyze?; see `lockstep --help`"),
        (["topics", "tial"], "No such command 'tial', did you mean tail?; see `lockstep topics --help`"),
        (["simulate", "--tick", "3"], "No such option: --tick, did you mean --ticks?; see `lockstep simulate --help`"),
        (["xyzzy"], "No such command 'xyzzy'; see `lockstep --help`"),
    ],
)
def test_what_was_probably_meant_is_named(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lockstep", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capfd.readouterr().err == f"lockstep: {said}\n"
