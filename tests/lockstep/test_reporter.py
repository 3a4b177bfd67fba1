"""The reporter in a training process: it never raises, never blocks, survives forks, and keeps little."""

import ast
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.job.steps import parse_line
from lockstep import reporter
from lockstep.reporter import PENDING, Step, _File, _Reporter

SOURCE = Path(reporter.__file__)


class Listener:
    """An agent's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(5)

    def lines(self) -> list[dict[str, Any]]:
        data = self._socket.recv(1 << 16)
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        self._socket.close()
        self.path.unlink()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    one = Listener(tmp_path / "steps.sock")
    yield one
    if one.path.exists():
        one.close()


made: list[_Reporter] = []


@pytest.fixture(autouse=True)
def _leave() -> Iterator[None]:
    yield
    while made:
        made.pop().leave()


def a_reporter(**environment: str) -> _Reporter:
    made.append(_Reporter(environment))
    return made[-1]


def to(listener: Listener) -> _Reporter:
    return a_reporter(RANK="3", LOCKSTEP_STEPS_SOCKET=str(listener.path))


def in_folder(folder: Path) -> _Reporter:
    return a_reporter(RANK="3", LOCKSTEP_STEPS_DIR=str(folder))


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


def test_a_step_with_phases_is_a_line_that_the_agent_reads(listener: Listener) -> None:
    with Step(to(listener), {"tokens": 8192, "kind": "eval"}) as step:
        for _ in range(2):
            with step.phase("data"):
                pass
        with step.phase("compute"):
            pass
    (row,) = listener.lines()
    parsed = parse_line(json.dumps(row).encode()).step
    assert (parsed.rank, parsed.step, parsed.phase, parsed.work) == (3, 0, "eval", 8192)
    assert 0 < parsed.data_us + parsed.compute_us < parsed.step_us
    assert abs(parsed.end_ms - time.time() * 1000) < 10_000


def test_steps_count_on_from_a_number_that_was_given(listener: Listener) -> None:
    told = to(listener)
    for fields in ({}, {"step": 17}, {}):
        told.report({"step_us": 1.0, **fields})
    assert [listener.lines()[0]["step"] for _ in range(3)] == [0, 17, 18]


def test_a_loop_over_a_loader_is_timed_with_its_waiting(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_reporter", to(listener))

    def loader() -> Iterator[int]:
        yield 1
        time.sleep(0.05)
        yield 2

    assert list(reporter.steps(loader(), tokens=5)) == [1, 2]
    first, second = listener.lines()[0], listener.lines()[0]
    assert first["data_us"] < 50_000 <= second["data_us"] <= second["step_us"]
    assert second["tokens"] == 5


def test_a_step_that_raises_raises_and_is_not_reported(listener: Listener) -> None:
    told = to(listener)
    with pytest.raises(KeyError), Step(told, {}):
        raise KeyError("the job's own")
    assert told.reported == 0


class Tensor:
    """A value that would wait for its GPU if it were asked."""

    def __float__(self) -> float:
        raise AssertionError("asked")

    item = __int__ = __float__


def test_values_that_are_no_plain_numbers_are_left_out(listener: Listener) -> None:
    numpy = pytest.importorskip("numpy")
    odd = {
        "tokens": Tensor(),
        "flops": float("nan"),
        "shape": numpy.int64(4),
        "wait_us": numpy.float32(2),
        "gpu": "x" * 999,
    }
    to(listener).report({"step_us": 1.0, "comm_us": float("inf"), "data_us": None, "step": object(), **odd})
    (row,) = listener.lines()
    assert row.keys() == {"step", "rank", "ts_ms", "step_us", "shape", "wait_us", "gpu"}
    assert (row["shape"], row["wait_us"], len(row["gpu"])) == (4, 2, 200)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "rank unknown"),
        ({"RANK": "0"}, "neither LOCKSTEP_STEPS_SOCKET nor LOCKSTEP_STEPS_DIR is set"),
        ({"RANK": "x", "LOCKSTEP_STEPS_DIR": "/tmp"}, "rank unknown"),
        ({"RANK": "0", "LOCKSTEP_STEPS_DIR": "/proc/none"}, "off: FileNotFoundError"),
        ({"RANK": "0", "LOCKSTEP_STEPS_DIR": "/etc/passwd/x"}, "off: "),
    ],
)
def test_without_a_place_or_a_rank_nothing_happens_and_status_says_why(environment: dict[str, str], why: str) -> None:
    told = a_reporter(**environment)
    told.report({"step_us": 1.0})
    assert why in told.status()
    assert told.reported == 0


def test_reader_gone_and_back_finds_the_newest_lines(listener: Listener) -> None:
    told = to(listener)
    listener.close()
    begun = time.perf_counter()
    for _ in range(4 * PENDING):
        told.report({"step_us": 1.0})
    assert (time.perf_counter() - begun) / (4 * PENDING) < 0.005
    assert len(told._pending) == PENDING
    back = Listener(listener.path)
    told.report({"step_us": 1.0})
    found = [row["step"] for row in back.lines()]
    while found[-1] != 4 * PENDING:
        found += [row["step"] for row in back.lines()]
    back.close()
    assert found == list(range(3 * PENDING + 1, 4 * PENDING + 1))


def test_a_reader_that_does_not_read_holds_nobody_up(listener: Listener) -> None:
    told = to(listener)
    begun = time.perf_counter()
    for _ in range(2000):
        told.report({"step_us": 1.0})
    assert time.perf_counter() - begun < 5
    assert len(told._pending) == PENDING


def test_lines_in_a_file_named_for_the_process_and_its_namespace(tmp_path: Path) -> None:
    told = in_folder(tmp_path / "steps")
    for number in range(50):
        told.report({"step_us": number})
    told.leave()
    rows = written(tmp_path / "steps")
    assert [row["step_us"] for row in rows] == list(range(50))
    (file,) = (tmp_path / "steps").iterdir()
    assert f"-pid{os.getpid()}-ns" in file.name
    assert "50 steps, 0 not taken yet" in told.status()


def test_a_full_disk_loses_lines_but_neither_time_nor_the_job(tmp_path: Path) -> None:
    full = True
    path = tmp_path / "s.jsonl"

    def opener(name: str, flags: int, mode: int) -> int:
        return os.open("/dev/full", os.O_WRONLY) if full else os.open(path, flags, mode)

    told = in_folder(tmp_path)
    file = told._transport = _File(str(tmp_path), told._pending, opener)
    told._rank, told._started = 3, True
    for _ in range(PENDING + 10):
        told.report({"step_us": 1.0})
    assert len(told._pending) == PENDING
    assert until(lambda: file._descriptor >= 0)
    full = False
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), file._descriptor)  # somebody made room
    told.report({"step_us": 1.0})
    assert until(lambda: not told._pending)
    told.leave()
    assert [json.loads(line)["step"] for line in path.read_bytes().splitlines()][-1] == PENDING + 10


def test_a_line_that_was_cut_off_by_a_full_disk_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = in_folder(tmp_path)
    told.report({"step_us": 1.0})
    assert until(lambda: not told._pending)
    write, cut = os.write, [7]

    def short(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[: cut.pop()] if cut else data)

    monkeypatch.setattr(reporter.os, "write", short)
    told.report({"step_us": 2.0})
    assert until(lambda: not cut)
    told.report({"step_us": 3.0})
    assert until(lambda: not told._pending)
    told.leave()
    (file,) = tmp_path.glob("*.jsonl")
    first, torn, *rest = file.read_bytes().splitlines()
    assert (json.loads(first)["step_us"], len(torn)) == (1, 7)
    assert [json.loads(line)["step_us"] for line in rest] == [2, 3]


def test_a_file_that_grew_is_begun_anew_and_at_most_one_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "FILE_BYTES", 1000)
    told = in_folder(tmp_path)
    for _ in range(100):
        told.report({"step_us": 1.0})
        assert until(lambda: not told._pending)
    told.leave()
    assert sorted(file.name.rpartition(".")[2] for file in tmp_path.iterdir()) == ["jsonl", "old"]
    assert all(file.stat().st_size < 1200 for file in tmp_path.iterdir())


def test_a_folder_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    told = in_folder(tmp_path / "steps")
    told.report({"step_us": 1.0})
    assert until(lambda: len(written(tmp_path / "steps")) == 1)
    shutil.rmtree(tmp_path / "steps")
    told.report({"step_us": 2.0})
    told.leave()
    assert [row["step_us"] for row in written(tmp_path / "steps")] == [2]


def test_many_threads_report_each_step_once(listener: Listener) -> None:
    told = to(listener)

    def work(number: int) -> None:
        for step in range(20):
            told.report({"step_us": 1.0, "tokens": 20 * number + step})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    found: list[int] = []
    deadline = time.monotonic() + 20
    while len(found) < 160 and time.monotonic() < deadline:
        told.report({"step_us": 1.0, "kind": "nudge"})  # takes along what waited while the queue was full
        with contextlib.suppress(TimeoutError):  # another thread had the turn: what was told goes with the next report
            found += [row["tokens"] for row in listener.lines() if "tokens" in row]
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(160))


PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from reporter import report, status, step
report(1.0)                      # the parent's, before the fork
if os.fork() == 0:
    os.environ["RANK"] = "9"
    for number in range(3):
        with step():
            pass
    raise SystemExit
os.wait()
report(2.0)
assert not {"numpy", "msgspec", "click", "lockstep"} & set(sys.modules), sys.modules
print(status())
"""


@pytest.mark.parametrize("place", ["LOCKSTEP_STEPS_DIR", "LOCKSTEP_STEPS_SOCKET"])
def test_a_copied_file_serves_alone_and_a_fork_has_lines_of_its_own(place: str, tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path / "reporter.py")
    folder = tmp_path / "steps"
    listener = Listener(tmp_path / "s") if place.endswith("SOCKET") else None
    environment = {"RANK": "3", place: str(tmp_path / "s" if listener else folder)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 3 to" in done.stdout
    if listener is None:
        rows = written(folder)
        assert len(list(folder.iterdir())) == 2
    else:
        rows = [row for _ in range(5) for row in listener.lines()]
        listener.close()
    assert sorted((row["rank"], row["step"]) for row in rows) == [(3, 0), (3, 1), (9, 0), (9, 1), (9, 2)]


def test_importing_lockstep_for_the_reporter_brings_nothing_else() -> None:
    heavy = "{'numpy', 'msgspec', 'click', 'runtime', 'schemas'}"
    code = f"import sys, lockstep; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


def test_the_file_is_written_in_the_grammar_of_older_pythons() -> None:
    ast.parse(SOURCE.read_text(), feature_version=(3, 8))


def test_configure_says_what_the_environment_does_not(listener: Listener) -> None:
    told = a_reporter()
    told.report({"step_us": 1.0})
    told.configure(rank=7, job="mine", node=None, socket=str(listener.path))
    told.report({"step_us": 1.0})
    (row,) = listener.lines()
    assert (row["rank"], row["job"], row["step"]) == (7, "mine", 0)
