"""Flight Recorder dumps that appear in a folder while the agent runs."""

import contextlib
import os
import pickle
import time
from pathlib import Path
from typing import Any

from collectors.base import NoData
from collectors.job.processes import Work
from collectors.nccl.flight_dumps import FlightDumpsCollector
from runtime.health import Counters
from schemas.event import Event

NOW_S = 1_758_580_756


def dump(size: int, enqueued: int) -> dict[str, Any]:
    entries = [
        {
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 8,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": (NOW_S - 600) * 1_000_000_000,
            "state": "scheduled",
        }
    ]
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}},
        "pg_status": {"0": {"last_enqueued_collective": enqueued, "last_completed_collective": 7}},
        "entries": entries if enqueued > 7 else [],
    }


def write(folder: Path, rank: int, late: int | None = 2, data: bytes | None = None) -> None:
    path = folder / f"nccl_trace_rank_{rank}"
    path.write_bytes(pickle.dumps(dump(4, 7 if rank == late else 8), 2) if data is None else data)
    os.utime(path, (NOW_S, NOW_S))


class Bed:
    def __init__(self, folder: Path) -> None:
        self.counters = Counters()
        ranks = {100 + rank: Work("j", rank) for rank in range(4)}
        self.ranks = ranks
        self.collector = FlightDumpsCollector(folder, lambda: ranks, "c", self.counters)

    def turns(self, count: int = 3) -> list[Event]:
        """The events of some turns, each waited for."""
        events: list[Event] = []
        end = time.monotonic() + 20
        while count > 0 and time.monotonic() < end:
            with contextlib.suppress(NoData):
                events += [draft for draft in self.collector.collect(0).drafts if isinstance(draft, Event)]
            count -= not self.collector._work.busy
        return events


def test_dumps_that_appear_are_told_and_judged(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    assert bed.turns() == []
    for rank in range(4):
        write(tmp_path, rank)
    events = bed.turns()
    assert [(e.kind, e.rank, e.job) for e in events[:4]] == [("flight_dump", rank, "j") for rank in range(4)]
    (hang,) = events[4:]
    assert (hang.kind, hang.severity, hang.job, hang.rank) == ("hang", "critical", "j", 2)
    assert hang.detail["cause"] == "not_entered"
    assert bed.turns() == []


def test_when_the_job_is_gone_its_standstill_is_over(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    bed.turns(1)
    for rank in range(4):
        write(tmp_path, rank)
    bed.turns()
    bed.ranks.clear()
    assert [(e.kind, e.job) for e in bed.turns(1)] == [("hang_over", "j")]
    assert bed.turns(1) == []


def test_what_was_there_before_is_history(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, rank)
    assert Bed(tmp_path).turns() == []


def test_a_folder_that_comes_later(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    bed = Bed(folder)
    assert bed.turns() == []
    folder.mkdir()
    for rank in range(4):
        write(folder, rank)
    assert [e.kind for e in bed.turns()].count("hang") == 1


def test_a_file_that_grows_is_waited_for(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    bed.turns(1)
    whole = pickle.dumps(dump(4, 8), 2)
    for end in (100, 200, 300):
        (tmp_path / "nccl_trace_rank_1").write_bytes(whole[:end])
        assert bed.turns(1) == []
    (tmp_path / "nccl_trace_rank_1").write_bytes(whole)
    assert [(e.kind, e.rank) for e in bed.turns(3)] == [("flight_dump", 1)]


def test_refused_dumps_are_counted_and_the_rest_is_used(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    bed.turns(1)
    for rank in (0, 1, 2):
        write(tmp_path, rank)
    write(tmp_path, 3, data=b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
    (tmp_path / "link").symlink_to("/etc/passwd")
    events = bed.turns()
    assert [e.rank for e in events if e.kind == "hang"] == [2]
    assert bed.counters.labelled()["dropped", "flight_unsafe"] == 1
