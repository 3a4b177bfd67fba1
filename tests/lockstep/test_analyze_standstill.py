"""`lockstep analyze` on what says where a job hangs: own samples, and the real ones where they are at hand."""

import itertools
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from collectors.nccl.flight_recorder import parse
from detectors.hang.flight import judge
from lockstep.analyze import analyze
from lockstep.commands.analyze import command
from runtime.errors import UserError

NCCL = Path(__file__).parents[2] / ".." / "shared" / "data" / "nccl"
needs_real = pytest.mark.skipif(not NCCL.is_dir(), reason="shared/data is not beside the project")
NS = 1_758_580_156_000_000_000


def dump(size: int, enqueued: int, completed: int, name: str = "all_reduce") -> dict[str, Any]:
    entries = [
        {
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": seq,
            "profiling_name": f"nccl:{name}",
            "time_created_ns": NS + seq * 1_000_000,
            "input_sizes": [[8]],
            "state": "scheduled",
            "is_p2p": False,
        }
        for seq in range(completed + 1, enqueued + 1)
    ]
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}},
        "pg_status": {"0": {"last_enqueued_collective": enqueued, "last_completed_collective": completed}},
        "entries": entries,
    }


def dumps(folder: Path, size: int = 6, late: int = 4) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(size):
        (folder / f"_dump_{rank}").write_bytes(pickle.dumps(dump(size, 7 if rank == late else 8, 7), 2))
    return folder


def answer(*paths: Path) -> dict[str, Any]:
    return analyze(paths).to_json()


def blamed(report: dict[str, Any]) -> dict[str, set[int | None]]:
    return {i["cause"]: {c["rank"] for c in i["culprits"]} for i in report["incidents"]}


def test_the_rank_that_never_came(tmp_path: Path) -> None:
    report = answer(dumps(tmp_path / "job"))
    (incident,) = report["incidents"]
    assert (incident["kind"], incident["scope"], incident["cause"]) == ("hang", "rank", "not_entered")
    assert [c["rank"] for c in incident["culprits"]] == [4]
    assert incident["victims"] == 5
    assert incident["onset"]["ts"] == incident["detected"]["ts"] == "2025-09-22T22:29:16.008Z"


def test_dumps_of_two_nodes_in_two_folders_are_one_job(tmp_path: Path) -> None:
    whole = dumps(tmp_path / "all")
    for node, ranks in (("a", (0, 1, 2)), ("b", (3, 4, 5))):
        (tmp_path / node).mkdir()
        for rank in ranks:
            shutil.move(whole / f"_dump_{rank}", tmp_path / node / f"_dump_{rank}")
    assert blamed(answer(tmp_path)) == {"not_entered": {4}}


def test_of_several_jobs_each_incident_names_its_folder(tmp_path: Path) -> None:
    dumps(tmp_path / "monday")
    dumps(tmp_path / "tuesday")
    assert {i.get("where") for i in answer(tmp_path)["incidents"]} == {"monday", "tuesday"}
    assert "where" not in answer(tmp_path / "monday")["incidents"][0]


def test_of_two_dumps_of_one_rank_the_newer_counts(tmp_path: Path) -> None:
    folder = dumps(tmp_path / "job")
    (folder / "_dump_4.json").write_text(json.dumps(dump(6, 8, 7)))
    (folder / "_dump_2.json").write_text(json.dumps(dump(6, 3, 3)))
    assert blamed(answer(folder)) == {"transport_stalled": {None}}


def test_a_refused_dump_is_reported_and_the_rest_is_used(tmp_path: Path) -> None:
    folder = dumps(tmp_path / "job")
    whole = (folder / "_dump_0").read_bytes()
    (folder / "_dump_0").write_bytes(whole[: len(whole) // 2])
    (folder / "evil.pickle").write_bytes(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
    report = answer(folder)
    assert blamed(report) == {"not_entered": {4}}
    reasons = {Path(i["path"]).name: i["reasons"] for i in report["inputs"] if i["skipped"]}
    assert reasons == {"_dump_0": {"truncated": 1}, "evil.pickle": {"unsafe": 1}}
    assert all(i["notes"] for i in report["inputs"] if i["skipped"])


def test_an_unsafe_pickle_alone_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
    with pytest.raises(UserError, match="only plain data is read") as caught:
        analyze([path])
    assert "\n" not in str(caught.value)
    done = CliRunner().invoke(command, [str(path), "--events"])
    assert isinstance(done.exception, UserError)


def test_events_of_a_dump_are_its_groups_and_operations(tmp_path: Path) -> None:
    path = dumps(tmp_path / "job") / "_dump_0"
    done = CliRunner().invoke(command, [str(path), "--events"])
    group, operation = map(json.loads, done.output.splitlines())
    assert (group["event"], group["rank"], group["enqueued"]) == ("process_group", 0, 8)
    assert (operation["event"], operation["seq"], operation["name"]) == ("operation", 8, "all_reduce")


@needs_real
@pytest.mark.parametrize(
    ("folder", "truth"),
    [
        ("nvrx_real_gpu_error_2nd", {"gpu_stuck": {9, 14}}),
        ("nvrx_real_lock_gil_1st", {"not_entered": {9, 14}}),
        ("gloo_real_missing_rank2", {"not_entered": {2}}),
        ("gloo_real_healthy", {}),
        ("nccl_constructed_type_mismatch", {"collective_mismatch": {3}}),
    ],
)
def test_the_real_dumps(folder: str, truth: dict[str, set[int]]) -> None:
    assert blamed(answer(NCCL / "flight_recorder" / folder)) == truth


@needs_real
@pytest.mark.parametrize("form", ["*[0-9]", "*.json"])
def test_pickles_alone_and_json_alone_give_the_same(form: str) -> None:
    for folder, truth in (("gloo_real_missing_rank2", {"not_entered": {2}}), ("gloo_real_healthy", {})):
        files = sorted((NCCL / "flight_recorder" / folder).glob(form))
        assert len(files) == 4
        assert blamed(answer(*files)) == truth


@needs_real
@pytest.mark.parametrize("absent", [0, 3, 8, 15])
def test_the_real_dumps_with_one_victim_s_missing(absent: int) -> None:
    for folder, cause in (("nvrx_real_gpu_error_2nd", "gpu_stuck"), ("nvrx_real_lock_gil_1st", "not_entered")):
        files = [f for f in (NCCL / "flight_recorder" / folder).glob("_dump_*") if f.name != f"_dump_{absent}"]
        assert len(files) == 15
        assert blamed(answer(*files)) == {cause: {9, 14}}


@needs_real
def test_any_one_or_two_of_the_real_dumps_may_be_missing() -> None:
    """The ranks at fault that left a dump are named and nobody else; both only where both of them left none."""
    for folder in ("nvrx_real_gpu_error_2nd", "nvrx_real_lock_gil_1st"):
        found = {
            int(f.name[6:]): parse(f.read_bytes(), f.name) for f in (NCCL / "flight_recorder" / folder).glob("_dump_*")
        }
        for gone in itertools.chain.from_iterable(itertools.combinations(range(16), count) for count in (0, 1, 2)):
            hangs = judge([dump for rank, dump in found.items() if rank not in gone])
            assert {rank for hang in hangs for rank in hang.ranks} == ({9, 14} - set(gone) or {9, 14}), gone


@needs_real
def test_all_real_dumps_in_one_call_stay_apart() -> None:
    report = answer(NCCL / "flight_recorder")
    assert len(report["incidents"]) == 4
    assert len({i["where"] for i in report["incidents"]}) == 4
    skipped = {Path(i["path"]).name: i["reasons"] for i in report["inputs"] if i["skipped"]}
    assert skipped["reject_me_reduce_opcode.pickle"] == {"unsafe": 1}
    assert skipped["truncated_nccl_trace_rank_0"] == {"truncated": 1}


WATCHDOG = (
    "[rank{rank}]:[E321 02:07:08.414640780 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600067 "
    "milliseconds before timing out.\n"
)


def test_a_log_beside_the_dumps_makes_the_verdict_surer(tmp_path: Path) -> None:
    folder = dumps(tmp_path / "job")
    alone = answer(folder)["incidents"][0]
    (folder / "train.log").write_text("".join(WATCHDOG.format(rank=rank) for rank in (0, 1, 2, 3, 5)))
    (both,) = answer(folder)["incidents"]
    assert [c["rank"] for c in both["culprits"]] == [4]
    assert both["confidence"] > alone["confidence"]
    assert any("log: ALLREDUCE number 8" in text for text in both["evidence"])


def ras_status(at: str, late: int | None) -> str:
    ranks = [
        {
            "rank": r, "host": "192.0.2.11", "pid": 100 + r, "status": {"init_state": 0},
            "collective_counts": {"AllReduce": 7 if r == late else 8},
        }
        for r in range(6)
    ]  # fmt: skip
    communicator = {"hash": "0xa", "size": 6, "ranks": ranks, "missing_ranks": []}
    return json.dumps({"timestamp": at, "communicators_count": 1, "communicators": [communicator]})


def test_ras_dumps_and_log_of_one_job_are_one_incident(tmp_path: Path) -> None:
    """RAS sees it within half a minute, PyTorch writes its dumps half an hour later."""
    folder = dumps(tmp_path / "job")
    for number, second in enumerate(("00", "15", "30")):
        (folder / f"ras-{number}.json").write_text(ras_status(f"2025-09-22 22:00:{second}", 4 if number else None))
    (folder / "train.log").write_text("".join(WATCHDOG.format(rank=rank) for rank in (0, 1, 2, 3, 5)))
    report = answer(tmp_path)
    (incident,) = report["incidents"]
    assert [(c["rank"], c["node"]) for c in incident["culprits"]] == [(4, "192.0.2.11")]
    assert incident["detected"]["ts"] == "2025-09-22T22:00:30.000Z"
    assert any("no count of the job has moved" in text for text in incident["evidence"])
    assert any("log: " in text for text in incident["evidence"])


def test_a_stuck_watchdog_beside_the_dumps_explains_the_rank(tmp_path: Path) -> None:
    folder = dumps(tmp_path / "job")
    (folder / "train.log").write_text(
        "[rank4]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 4] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"
    )
    (incident,) = answer(folder)["incidents"]
    assert (incident["cause"], incident["runner_up"]) == ("python_stall", "not_entered")


def test_a_log_alone_names_the_silent_rank_with_little_confidence(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("x\n" * 40_000 + "[rank3]: hello\n" + "".join(WATCHDOG.format(rank=r) for r in (0, 1, 2, 4, 5)))
    report = answer(path)
    (incident,) = report["incidents"]
    assert [c["rank"] for c in incident["culprits"]] == [3]
    assert incident["confidence"] < 0.8
    assert incident["detected"]["ts"] is None
    done = CliRunner().invoke(command, [str(path), "--events"])
    first = json.loads(done.output.splitlines()[0])
    assert (first["line"], first["event"], first["rank"], first["seq"]) == (40_002, "nccl_watchdog", 0, 8)


def test_a_log_of_a_healthy_job_is_healthy_or_none(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "node-01:984:1257 [4] NCCL INFO comm 0x5 rank 3 nranks 4 cudaDev 4 nvmlDev 4 busId 9b000 commId 0x5a - Init "
        "COMPLETE\n"
    )
    assert answer(path)["healthy"]


@needs_real
@pytest.mark.parametrize(("upto", "ranks"), [(1, set()), (2, set()), (3, {2}), (4, {2}), (5, {2})])
def test_ras_says_rank_2_at_t2_and_not_before(upto: int, ranks: set[int]) -> None:
    files = sorted((NCCL / "ras").glob("hang_rank2_t*.json"))[:upto]
    report = answer(*files)
    assert {c["rank"] for i in report["incidents"] for c in i["culprits"]} == ranks
    if ranks:
        (incident,) = report["incidents"]
        assert incident["detected"]["ts"] == "2026-11-30T10:50:30.000Z"
        assert incident["onset"]["ts"] == "2026-11-30T10:50:15.000Z"


@needs_real
def test_ras_of_every_real_file() -> None:
    truth: dict[str, set[int | None]] = {
        "ray_healthy_2.28.9.json": set(),
        "ray_dead_rank_2.28.9_INVALID_JSON.json": {1},
        "nvidia_docs_missing_rank_2.29.1.json": {1},
        "text_issue1911_mismatch_2.26.2.txt": set(),
        "text_issue1762_incomplete_garbage_2.27.3_excerpt.txt": {1},
        "text_docs_excerpts.txt": {21},
        "diagnostics_docs_2.31.txt": set(),
        "monitor_text_docs.txt": {None},
    }
    for name, ranks in truth.items():
        report = answer(NCCL / "ras" / name)
        assert {c["rank"] for i in report["incidents"] for c in i["culprits"]} == ranks, name


@needs_real
def test_nccl_tests_of_every_real_file() -> None:
    for path in sorted((NCCL / "nccl_tests").iterdir()):
        if "failure" in path.name or "truncated" in path.name:
            with pytest.raises(UserError) as caught:
                analyze([path])
            assert "\n" not in str(caught.value)
            continue
        report = answer(path)
        assert report["inputs"][0]["kind"] == "nccl-tests", path.name
        ranks = {c["rank"] for i in report["incidents"] for c in i["culprits"]}
        assert ranks == ({5} if "periter" in path.name else set()), path.name
        assert any("not judged" in note for note in report["inputs"][0]["notes"]), path.name


@needs_real
def test_a_folder_of_everything_is_sorted_by_kind() -> None:
    kinds = {Path(i["path"]).parent.name: i["kind"] for i in answer(NCCL)["inputs"]}
    assert kinds["ras"] == "ras"
    assert kinds["logs"] == "job-log"
    assert kinds["nvrx_real_gpu_error_2nd"] in ("flight-recorder", "unknown")


@needs_real
def test_files_that_blame_nobody_say_so() -> None:
    files = [*sorted((NCCL / "inspector").glob("*.prom")), *sorted((NCCL / "comma").iterdir())]
    assert len(files) == 4
    report = answer(*files)
    assert {i["kind"] for i in report["inputs"]} == {"inspector-metrics", "comma"}
    assert all(i["records"] and i["notes"][0].startswith("not judged") for i in report["inputs"])
    assert report["incidents"] == []


@needs_real
def test_inspector_files_of_every_version_are_read() -> None:
    records = {path.name: answer(path)["inputs"][0] for path in sorted((NCCL / "inspector").glob("*.[jl]*"))}
    assert {name: i["records"] for name, i in records.items()} == {
        "datadog_real_line.jsonl": 1,
        "nvidia_readme_examples.jsonl": 3,
        "truncated_tail.log": 6,
        "v4.1_constructed.jsonl": 3,
        "v4.2_constructed.jsonl": 3,
        "writer_v2.30.7_basic_and_edges.jsonl": 7,
        "writer_v2.30.7_ring_overflow_excerpt.jsonl": 5,
        "writer_v2.30.7_verbose.jsonl": 4,
    }
    edges = records["writer_v2.30.7_basic_and_edges.jsonl"]
    assert edges["reasons"] == {"absurd_size": 1, "unknown_function": 1}
    assert records["truncated_tail.log"]["reasons"]["broken"] == 1
    assert records["writer_v2.30.7_ring_overflow_excerpt.jsonl"]["coverage"] < 0.9
