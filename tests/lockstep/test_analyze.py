"""`lockstep analyze`: own small samples, bad files, and the real recordings where they are at hand."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from inspector_lines import operation

from lockstep.analyze import analyze
from lockstep.analyze.recognise import recognise
from lockstep.analyze.report import Report
from lockstep.cli import main
from lockstep.commands.analyze import command
from runtime.errors import UserError
from schemas.causes import CAUSES

REAL = Path(__file__).parents[2] / ".." / "shared" / "data"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the project")

DUMP_US = 1_796_000_000_000_000


def inspector_files(
    folder: Path, steps: int = 30, late: int | None = None, since: int = 15, factor: float = 1.0
) -> Path:
    """Four processes on two nodes; from step `since` rank `late` comes 3 ms late, or the transfer is slower."""
    rng = np.random.default_rng(1)
    files: dict[int, list[bytes]] = {rank: [] for rank in range(4)}
    for step in range(steps):
        on = step >= since
        wait = 3000.0 if on and late is not None else 0.0
        t = 2600.0 * (factor if on else 1.0)
        for rank in range(4):
            time = t + rng.uniform(0, 60) + (0.0 if rank == late else wait)
            files[rank].append(
                operation(
                    pid=100 + rank, sn=step, time=time, rank=rank, size=4, nodes=2, host=f"node-0{rank // 2 + 1}",
                    dump_us=DUMP_US + step * 50_000,
                )
            )  # fmt: skip
    for rank, rows in files.items():
        (folder / f"node-0{rank // 2 + 1}-pid{100 + rank}.log").write_bytes(b"\n".join(rows) + b"\n")
    return folder


def step_rows(ranks: int = 8, steps: int = 130, late: int | None = 3, since: int = 100) -> list[dict[str, object]]:
    rng, rows = np.random.default_rng(2), []
    for step in range(steps):
        own = 8000 + np.abs(rng.normal(0, 100, ranks))
        if late is not None and step >= since:
            own[late] += 30_000
        total = 70_000 + own.max()
        for rank in range(ranks):
            rows.append(
                {
                    "step": step, "rank": rank, "data_us": 1000, "compute_us": int(total - own[rank]), "comm_us": 40,
                    "wait_us": 10, "step_us": int(total + 50), "ts_ms": DUMP_US // 1000 + step * 100, "node": "n1",
                }
            )  # fmt: skip
    return rows


def csv_file(path: Path, rows: list[dict[str, object]]) -> Path:
    lines = [",".join(rows[0]), *(",".join(str(v) for v in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def verdicts(report: Report) -> list[tuple[str, str, int | None]]:
    found = []
    for incident in report.to_json()["incidents"]:
        rank = incident["culprits"][0]["rank"] if incident["culprits"] else None
        found.append((incident["kind"], incident["scope"], rank))
    return found


def call(*args: str | Path) -> Result:
    return CliRunner().invoke(command, [str(a) for a in args], standalone_mode=False)


def test_healthy_inspector_files_are_healthy(tmp_path: Path) -> None:
    report = analyze([inspector_files(tmp_path)])
    assert report.healthy
    assert [(i.kind, i.records, i.skipped, i.coverage) for i in report.inputs] == [("inspector", 30, 0, 1.0)] * 4


def test_a_late_rank_and_a_slow_transfer_are_told_apart(tmp_path: Path) -> None:
    for name in ("late", "slow"):
        (tmp_path / name).mkdir()
    late = analyze([inspector_files(tmp_path / "late", late=2)])
    assert verdicts(late) == [("straggler", "rank", 2)]
    assert late.to_json()["incidents"][0]["culprits"][0]["node"] == "node-02"
    assert late.to_json()["incidents"][0]["onset"]["ts"] == "2026-11-30T00:53:20.750Z"
    slow = analyze([inspector_files(tmp_path / "slow", factor=3.0)])
    assert verdicts(slow) == [("slow_link", "group", None)]


def test_packed_files_and_torn_ends_are_read(tmp_path: Path) -> None:
    inspector_files(tmp_path, late=2)
    first, second, *_ = sorted(tmp_path.iterdir())
    first.write_bytes(gzip.compress(first.read_bytes()))
    second.write_bytes(second.read_bytes() + operation()[:50])
    report = analyze([tmp_path])
    assert verdicts(report) == [("straggler", "rank", 2)]
    assert [i.skipped for i in report.inputs] == [0, 1, 0, 0]


def test_two_jobs_in_one_folder_are_judged_apart(tmp_path: Path) -> None:
    inspector_files(tmp_path, late=2)
    for step in range(30):
        with (tmp_path / "other.log").open("ab") as file:
            file.write(operation(pid=7, id="0xother", size=1, sn=step, dump_us=DUMP_US + step * 50_000) + b"\n")
    report = analyze([tmp_path])
    assert len(report.runs) == 2
    assert verdicts(report) == [("straggler", "rank", 2)]


@pytest.mark.parametrize("form", ["csv", "jsonl", "csv.gz", "parquet", "shuffled.csv"])
def test_steps_in_every_form_give_the_same_answer(tmp_path: Path, form: str) -> None:
    rows, path = step_rows(), tmp_path / f"steps.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        if form.startswith("shuffled"):
            rows = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
        csv_file(path, rows)
        if form.endswith("gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
    report = analyze([path])
    (incident,) = report.to_json()["incidents"]
    assert (incident["kind"], incident["culprits"][0]["rank"], incident["victims"]) == ("straggler", 3, 7)
    assert (incident["onset"]["step"], incident["detected"]["step"]) == (100, 107)


def test_one_file_per_rank_is_read_side_by_side(tmp_path: Path) -> None:
    rows = step_rows()
    for rank in range(8):
        csv_file(tmp_path / f"rank{rank}.csv", [row for row in rows if row["rank"] == rank])
    assert verdicts(analyze([tmp_path])) == [("straggler", "rank", 3)]


def test_without_times_there_are_steps_and_no_moments(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k not in ("ts_ms", "node")} for row in step_rows()]
    (incident,) = analyze([csv_file(tmp_path / "s.csv", rows)]).to_json()["incidents"]
    assert incident["detected"] == {"step": 107, "ts": None}
    assert incident["culprits"][0] == {"rank": 3, "node": None, "gpu": None, "link": None, "group": None}


def test_runs_in_one_file_are_judged_one_by_one(tmp_path: Path) -> None:
    rows = [{"run_idx": 4} | row for row in step_rows(late=None)] + [{"run_idx": 9} | row for row in step_rows()]
    found = analyze([csv_file(tmp_path / "s.csv", rows)]).to_json()["incidents"]
    assert [incident["run"] for incident in found] == [9]


def test_analysis_never_looks_ahead(tmp_path: Path) -> None:
    short = analyze([csv_file(tmp_path / "a.csv", step_rows(steps=115))]).to_json()["incidents"]
    long = analyze([csv_file(tmp_path / "b.csv", step_rows(steps=200))]).to_json()["incidents"]
    for key in ("id", "onset", "detected"):
        assert short[0][key] == long[0][key]


def test_bad_rows_are_counted_with_their_reason(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "s.csv", step_rows(steps=5))
    path.write_text(path.read_text() + "x,1\n3,1,,,,,,,\n")
    report = analyze([path])
    assert (report.inputs[0].skipped, report.inputs[0].reasons) == (2, {"no_step": 1, "no_time": 1})
    assert "skipped 2 (1 no_step, 1 no_time)" in report.to_text()


def test_what_is_not_recognised_is_listed_not_hidden(tmp_path: Path) -> None:
    inspector_files(tmp_path)
    (tmp_path / "README").write_text("hello")
    report = analyze([tmp_path])
    assert [i.kind for i in report.inputs].count("unknown") == 1
    assert "Not recognised, left out: 1 file (README)" in report.to_text()


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (None, None, "no such file"),
        (b"", None, "known kind"),
        (b"\x00\xff\x00 junk", None, "known kind"),
        (b"hello\n", "steps", "no usable steps record"),
        (b"hello\n", "inspector", "no usable inspector record (1 skipped: 1 "),
        (b"PAR1 not really", None, "no readable Parquet file"),
        (gzip.compress(b"step,rank,step_us\n1,1,1\n", mtime=0)[:-8] + bytes(8), None, "cannot be read: CRC"),
    ],
)
def test_bad_files_get_one_line_and_no_traceback(
    tmp_path: Path, content: bytes | None, kind: str | None, words: str
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        analyze([path], kind)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no files"):
        analyze([tmp_path])


def test_kinds_are_recognised_by_what_is_inside(tmp_path: Path) -> None:
    path = tmp_path / "steps.log"
    path.write_bytes(b"\n" + operation() + b"\n")
    assert recognise(path) == "inspector"
    path.write_text("rank, step, step_us\n0,0,1\n")
    assert recognise(path) == "steps"
    path.write_text("step,rank,colour\n0,0,1\n")
    assert recognise(path) is None


def test_the_json_is_the_contract(tmp_path: Path) -> None:
    result = call(inspector_files(tmp_path, late=2), "--format", "json")
    answer = json.loads(result.output)
    assert set(answer) == {"inputs", "healthy", "incidents"}
    assert set(answer["inputs"][0]) == {"path", "kind", "records", "skipped", "coverage"}
    assert {"id", "kind", "scope", "cause", "confidence", "run", "culprits", "victims", "onset", "detected", "summary",
            "evidence", "action"} <= set(answer["incidents"][0])  # fmt: skip
    assert answer["incidents"][0]["cause"] in CAUSES


def test_the_page_says_who_what_since_why_and_what_to_do(tmp_path: Path) -> None:
    text = call(inspector_files(tmp_path, late=2)).output
    for words in ("1 INCIDENT", "rank 2", "node-02", "2026-11-30 00:53:20 UTC", "came last to", "  do  "):
        assert words in text


def test_exit_status_is_one_only_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = inspector_files(tmp_path, late=2)
    assert call(folder).exit_code == 0
    assert CliRunner().invoke(command, [str(folder), "--fail-on-incident"]).exit_code == 1
    monkeypatch.setattr("sys.argv", ["lockstep", "analyze", str(folder), "--fail-on-incident"])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 1
    assert CliRunner().invoke(command, ["--help"]).output.count("Example:") == 1


@needs_real
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("healthy", []),
        ("straggler_rank5", [("straggler", "rank", 5)]),
        ("slowlink_dp", [("slow_link", "group", None)]),
    ],
)
def test_the_writers_own_scenarios(name: str, expected: list[tuple[str, str, int | None]]) -> None:
    report = analyze([REAL / "nccl" / "inspector" / f"scenario_{name}"])
    assert verdicts(report) == expected
    if name == "straggler_rank5":
        (incident,) = report.to_json()["incidents"]
        assert (incident["culprits"][0]["node"], incident["victims"]) == ("node-02", 7)


def test_a_parquet_file_damaged_in_its_body_is_one_line(tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    path = tmp_path / "steps.parquet"
    numbers = [i % 997 for i in range(20_000)]
    parquet.write_table(arrow.table({"step": numbers, "rank": numbers, "step_us": [float(n) for n in numbers]}), path)
    body = bytearray(path.read_bytes())
    body[100:600] = b"\xff" * 500
    path.write_bytes(body)
    with pytest.raises(UserError, match=r"steps\.parquet") as caught:
        analyze([path])
    assert "\n" not in str(caught.value)


def test_events_are_the_decoded_records_with_path_and_line(tmp_path: Path) -> None:
    inspector_files(tmp_path, steps=2)
    table = tmp_path / "steps.csv"
    table.write_text("step,rank,step_us\n0,1,900\nnonsense,1,900\n1,1,950\n")
    done = call(tmp_path, "--events")
    assert done.exit_code == 0, done.output
    records = [json.loads(line) for line in done.stdout.splitlines()]
    operations = [record for record in records if record["event"] == "operation"]
    assert len(operations) == 8
    assert operations[0]["path"] == str(tmp_path / "node-01-pid100.log")
    assert (operations[0]["line"], operations[0]["sn"], operations[0]["pid"]) == (1, 0, 100)
    steps = [record for record in records if record["event"] == "step"]
    assert [(r["path"], r["line"], r["step"], r["step_us"]) for r in steps] == [
        (str(table), 2, 0, 900),
        (str(table), 4, 1, 950),
    ]
    assert steps[0]["data_us"] is None
