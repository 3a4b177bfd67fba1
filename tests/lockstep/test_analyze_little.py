"""What too little is there for is said to be "not judged" and never called healthy; unlike logs are unlike jobs."""

import json
from pathlib import Path

import pytest

from lockstep.analyze import analyze
from lockstep.analyze.report import Report
from lockstep.replay.recording import frame
from schemas import NodeFrame
from schemas.codec import encode


def notes(report: Report) -> list[str]:
    return [note for i in report.inputs for note in i.notes]


def snapshot(at: str) -> str:
    ranks = [
        {"rank": r, "host": "h", "pid": r, "status": {"init_state": 0}, "collective_counts": {"AllReduce": 7}}
        for r in range(4)
    ]
    communicator = {"hash": "0xa", "size": 4, "ranks": ranks, "missing_ranks": []}
    return json.dumps({"timestamp": at, "communicators_count": 1, "communicators": [communicator]})


def test_one_ras_snapshot_is_not_called_healthy(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(snapshot("2025-09-22 22:00:00"))
    report = analyze([tmp_path])
    assert notes(report) == ["not judged: standstills: one snapshot; two at least 10 s apart show whose count stands"]
    assert "HEALTHY" not in report.to_text()
    (tmp_path / "2.json").write_text(snapshot("2025-09-22 22:00:01"))
    assert not notes(analyze([tmp_path]))


def test_recorded_node_frames_alone_do_not_tell_of_stragglers(tmp_path: Path) -> None:
    path = tmp_path / "node-frames.records"
    path.write_bytes(
        b"".join(
            frame(encode(NodeFrame(cluster="c", node="n", run_id=1, seq=n, ts_ms=1_800_000_000_000 + n * 1000)))
            for n in range(3)
        )
    )
    report = analyze([path])
    assert notes(report) == ["not judged: stragglers and hangs (no collectives or steps)"]
    assert "HEALTHY" not in report.to_text()


def timed_out(rank: int, group: str = "PG 1", seq: int = 8, day: str = "E321") -> str:
    return (
        f"[rank{rank}]:[{day} 02:07:08.4 ProcessGroupNCCL.cpp:1664] [{group} Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran\n"
    )


def complete(rank: int, world: int, id_: str) -> str:
    return f"n1:1:2 [0] NCCL INFO comm 0x5 rank {rank} nranks {world} cudaDev 0 busId 9b commId {id_} - Init COMPLETE\n"


@pytest.mark.parametrize(
    ("first", "second", "jobs"),
    [
        (timed_out(0), timed_out(1), 1),
        (timed_out(0, "PG 1"), timed_out(1, "PG 2", seq=3), 1),
        (timed_out(0), timed_out(0, seq=900), 2),
        (timed_out(0, "PG 1"), timed_out(1, "PG 2", seq=3, day="E429"), 2),
        (timed_out(0), timed_out(1, seq=5, day="E429"), 2),
        (complete(0, 8, "0xa") + timed_out(0), timed_out(65, seq=5), 2),
        (complete(0, 8, "0xa") + timed_out(0), complete(0, 16, "0xb") + timed_out(1, seq=9), 2),
        (complete(0, 8, "0xa") + timed_out(0), complete(1, 8, "0xa") + timed_out(1, seq=9), 1),
    ],
)
def test_logs_of_one_folder_are_one_job_unless_they_contradict_each_other(
    tmp_path: Path, first: str, second: str, jobs: int
) -> None:
    (tmp_path / "a.log").write_text(first)
    (tmp_path / "b.log").write_text(second)
    report = analyze([tmp_path])
    assert len(report.runs) == jobs
    assert any("several jobs in one folder" in note for note in notes(report)) == (jobs > 1)
    assert {i.get("where") for i in report.to_json()["incidents"]} == ({"a.log", "b.log"} if jobs > 1 else {None})
