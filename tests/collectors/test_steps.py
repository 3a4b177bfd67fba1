"""Step lines: the columns of the contract, tolerant of everything around them."""

import contextlib
import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.agent.delivery import MOST_BYTES
from collectors.base import NoData
from collectors.datagrams import DatagramLines
from collectors.job.processes import Processes
from collectors.job.steps import (
    FRAME_STEPS,
    LOOK_AGAIN,
    MOST_JOBS,
    BadStep,
    StepsCollector,
    Writers,
    _Together,
    from_row,
    parse_line,
)
from collectors.lines import FolderLines
from lockstep.reporter import Step, _Reporter
from runtime.health import Counters
from schemas import codec
from schemas.step import StepFrame


def test_all_columns_of_a_line_are_read() -> None:
    row = {
        "step": 3, "rank": 1, "data_us": 10, "compute_us": 70.5, "comm_us": 5, "wait_us": 2, "step_us": 90,
        "ts_ms": 1_796_000_000_000, "node": "n1", "job": "j", "run_idx": 4, "shape_seq": 1024, "frag_stall_us": 7,
        "gpu": "GPU-1",
    }  # fmt: skip
    parsed = parse_line(json.dumps(row).encode())
    assert (parsed.job, parsed.node, parsed.run) == ("j", "n1", 4)
    s = parsed.step
    assert (s.step, s.rank, s.data_us, s.compute_us, s.comm_us, s.wait_us, s.step_us) == (3, 1, 10, 70.5, 5, 2, 90)
    assert (s.end_ms, s.shape, s.allocator_stall_us, s.gpu) == (1_796_000_000_000, 1024, 7, "GPU-1")
    assert math.isnan(s.work)


def test_missing_is_not_zero() -> None:
    s = from_row({"step": "3", "rank": "1", "step_us": "90", "comm_us": "", "wait_us": None, "data_us": -1}).step
    assert s.step_us == 90
    assert all(math.isnan(v) for v in (s.comm_us, s.wait_us, s.data_us, s.compute_us))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"rank": 1, "step_us": 5}, "no_step"),
        ({"step": 1, "step_us": 5}, "no_rank"),
        ({"step": 1, "rank": 0}, "no_time"),
        ({"step": 1.5, "rank": 0, "step_us": 5}, "no_step"),
        ({"step": 1, "rank": 2**40, "step_us": 5}, "no_rank"),
        ({"step": 1, "rank": 0, "step_us": float("inf")}, "no_time"),
        ({"step": 1, "rank": 0, "step_us": 5, "ts_ms": 1e17}, "bad_field"),
    ],
)
def test_what_is_no_step_says_why(row: dict[str, object], reason: str) -> None:
    with pytest.raises(BadStep) as raised:
        from_row(row)
    assert raised.value.reason == reason


@given(st.binary(max_size=100))
def test_no_bytes_do_more_than_be_refused(junk: bytes) -> None:
    with pytest.raises(BadStep):
        parse_line(junk)


class Lines:
    def __init__(self, *lines: tuple[str, bytes]) -> None:
        self.lines = list(lines)

    def read(self) -> list[tuple[str, bytes]]:
        out, self.lines = self.lines, []
        return out


def test_the_collector_makes_one_frame_per_job() -> None:
    named = b'{"step": 1, "rank": 0, "step_us": 5, "job": "a"}'
    unnamed = b'{"step": 1, "rank": 1, "step_us": 5}'
    source = Lines(("x.jsonl", named), ("b.jsonl", unnamed), ("?", unnamed), ("x.jsonl", b"{"))
    collector = StepsCollector(source, {"b.jsonl": "b"}.get)
    reading = collector.collect(1000)
    frames = [d for d in reading.drafts if isinstance(d, StepFrame)]
    assert [(f.job, len(f.steps)) for f in frames] == [("a", 1), ("b", 1)]
    assert reading.missing == {"steps_no_job": 1, "steps_broken": 1}
    with pytest.raises(NoData):
        collector.collect(2000)


def _process(proc: Path, pid: int, namespace: int, inside: int, job: str) -> None:
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "ns/pid").symlink_to(f"pid:[{namespace}]")
    (folder / "status").write_text(f"Name:\tpython\nNSpid:\t{pid}\t{inside}\n")
    (folder / "stat").write_text(f"{pid} (python) S " + "1 " * 18 + "100 0 0\n")
    (folder / "environ").write_bytes(f"TORCHELASTIC_RUN_ID={job}\0".encode())


def test_a_containers_process_number_is_looked_up_in_its_own_namespace(tmp_path: Path) -> None:
    _process(tmp_path, 17, 4026531836, 17, "ours")
    _process(tmp_path, 900, 4026532000, 17, "a")
    _process(tmp_path, 901, 4026532001, 17, "b")
    (tmp_path / "self").symlink_to("17")
    writers = Writers(Processes(tmp_path))
    assert writers.job("steps-h-pid17-ns4026531836.jsonl") == "torchelastic:ours"
    assert writers.job("steps-h-pid17-ns4026532000.jsonl") == "torchelastic:a"
    assert writers.job("steps-h-pid17-ns4026532001.jsonl") == "torchelastic:b"
    assert writers.job("steps-h-pid17-ns4026532002.jsonl") is None
    assert writers.job("pid901") == "torchelastic:b"
    assert writers.job("nobody.jsonl") is None
    _process(tmp_path, 902, 4026532002, 17, "c")
    asked = [writers.job("steps-h-pid17-ns4026532002.jsonl") for _ in range(LOOK_AGAIN)]
    assert asked[0] is None, "the search through all processes is not made for every line"
    assert asked[-1] == "torchelastic:c"


@pytest.mark.parametrize("place", ["socket", "folder"])
def test_what_a_training_process_reports_becomes_a_step_frame(place: str, tmp_path: Path) -> None:
    counters = Counters()
    socket = DatagramLines(tmp_path / "s", counters)
    files = FolderLines(tmp_path, counters, "*.jsonl", "beginning")
    reporter = _Reporter({"RANK": "3"})
    reporter.configure(job="mine", **{place: str(tmp_path / "s" if place == "socket" else tmp_path)})
    with Step(reporter, {"tokens": 4096}) as step, step.phase("data"):
        pass
    reporter.leave()
    collector, frames = StepsCollector(_Together([files, socket])), []
    deadline = time.monotonic() + 5
    while not frames and time.monotonic() < deadline:
        with contextlib.suppress(NoData):
            frames = [draft for draft in collector.collect(5000).drafts if isinstance(draft, StepFrame)]
    socket.close()
    (frame,) = frames
    (told,) = frame.steps
    assert (frame.job, told.rank, told.step, told.work) == ("mine", 3, 0, 4096)
    assert 0 <= told.data_us <= told.step_us


class _Flood:
    def __init__(self, lines: list[tuple[str, bytes]]) -> None:
        self.lines = lines

    def read(self) -> list[tuple[str, bytes]]:
        return self.lines


def test_a_flood_without_a_job_looks_its_process_up_once_and_is_counted() -> None:
    counters, looked = Counters(), []
    line = b'{"step": 1, "rank": 0, "step_us": 5}'
    source = _Flood([("pid7", line)] * 1000 + [("pid8", b"junk")])
    collector = StepsCollector(source, lambda name: looked.append(name), counters=counters, now=lambda: 0.0)
    reading = collector.collect(1000)
    assert looked == ["pid7"]
    assert reading.missing == {"steps_no_job": 1000, "steps_broken": 1}
    assert counters.totals()["dropped{steps_no_job}"] == 1000
    assert counters.totals()["dropped{steps_broken}"] == 1


def test_a_tick_gives_up_the_lines_it_has_no_time_for() -> None:
    seconds = iter(range(1000))
    source = _Flood([("pid7", b'{"step": 1, "rank": 0, "step_us": 5, "job": "j"}')] * 5000)
    reading = StepsCollector(source, now=lambda: float(next(seconds))).collect(1000)
    (frame,) = reading.drafts
    assert isinstance(frame, StepFrame)
    assert len(frame.steps) == 255
    assert reading.missing == {"steps_flood": 4745}


def test_a_flood_of_one_rank_in_the_longest_texts_costs_the_others_no_step() -> None:
    long = json.dumps({"step": 1, "rank": 0, "job": "j" * 256, "gpu": "😀" * 256, "phase": "😀" * 256} | dict.fromkeys(
        ("step_us", "data_us", "compute_us", "comm_us", "wait_us", "work", "shape", "flops", "frag_stall_us"), 1 / 3
    ), ensure_ascii=False).encode()  # fmt: skip
    other = b'{"step": 7, "rank": 1, "step_us": 5, "job": "' + b"j" * 256 + b'"}'
    reading = StepsCollector(_Flood([("", long)] * (3 * FRAME_STEPS) + [("", other)]), now=lambda: 0.0).collect(1000)
    frames = [draft for draft in reading.drafts if isinstance(draft, StepFrame)]
    assert all(len(codec.encode(frame)) + len(frame.key) < MOST_BYTES for frame in frames)
    assert sum(len(frame.steps) for frame in frames) == 3 * FRAME_STEPS + 1
    assert frames[-1].steps[-1].step == 7


def test_a_process_that_makes_up_jobs_is_bounded_and_counted() -> None:
    lines = [("", b'{"step": 1, "rank": 0, "step_us": 5, "job": "j-%d"}' % number) for number in range(1000)]
    reading = StepsCollector(_Flood(lines * 2), now=lambda: 0.0).collect(1000)
    assert len(reading.drafts) == MOST_JOBS
    assert reading.missing == {"steps_many_jobs": 2 * (1000 - MOST_JOBS)}


@pytest.mark.parametrize("job", [r'"\ud800"', '"\\u0000\\u202e"', '["a"]', "1e999", '"' + "x" * 60_000 + '"'])
def test_an_odd_job_can_be_sent(job: str) -> None:
    line = b'{"step": 1, "rank": 0, "step_us": 5, "job": %s}' % job.encode()
    reading = StepsCollector(_Flood([("", line)]), now=lambda: 0.0).collect(1000)
    for draft in reading.drafts:
        codec.encode(draft)
    assert len(reading.drafts) + sum(reading.missing.values()) == 1
