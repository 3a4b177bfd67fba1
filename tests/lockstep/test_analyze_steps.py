"""Step tables as people have them: columns, ranks, rows missing, impossible values, one to many ranks, short runs."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lockstep.analyze import analyze
from lockstep.analyze.report import Report
from runtime.errors import UserError

Row = dict[str, object]


def rows(ranks: int = 8, steps: int = 130, late: int | None = 3, us: float = 30_000, since: int = 100) -> list[Row]:
    rng, out = np.random.default_rng(2), []
    for step in range(steps):
        own = 8000 + np.abs(rng.normal(0, 100, ranks))
        if late is not None and step >= since:
            own[late] += us
        total = 70_000 + own.max()
        out += [
            {
                "step": step, "rank": rank, "data_us": 1000.0, "compute_us": float(total - own[rank]), "comm_us": 40.0,
                "wait_us": 10.0, "step_us": float(total + 50), "ts_ms": 1_796_000_000_000 + step * 100, "node": "n1",
            }
            for rank in range(ranks)
        ]  # fmt: skip
    return out


def write(path: Path, table: list[Row]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in table) + "\n")
    return path


def culprits(report: Report) -> list[tuple[str, int | None]]:
    found = []
    for incident in report.to_json()["incidents"]:
        found.append((incident["scope"], incident["culprits"][0]["rank"] if incident["culprits"] else None))
    return found


@pytest.mark.parametrize(
    "without", [("wait_us",), ("node",), ("ts_ms",), ("ts_ms", "node", "wait_us", "comm_us", "data_us")]
)
def test_optional_columns_may_be_absent(tmp_path: Path, without: tuple[str, ...]) -> None:
    table = [{name: value for name, value in row.items() if name not in without} for row in rows()]
    assert culprits(analyze([write(tmp_path / "s.jsonl", table)])) == [("rank", 3)]


def test_with_nothing_but_step_times_the_job_is_judged_and_nobody_blamed(tmp_path: Path) -> None:
    table = [{name: row[name] for name in ("step", "rank", "step_us")} for row in rows(steps=160)]
    report = analyze([write(tmp_path / "s.jsonl", table)])
    assert culprits(report) == [("job", None)]
    assert "there is no column data_us" in report.to_text()


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_few_ranks(tmp_path: Path, ranks: int) -> None:
    assert culprits(analyze([write(tmp_path / "s.jsonl", rows(ranks, late=1))])) == [("rank", 1)]


def test_one_rank_has_no_peers(tmp_path: Path) -> None:
    report = analyze([write(tmp_path / "s.jsonl", rows(1, late=None))])
    assert report.inputs[0].notes == [
        "not judged: who is slow: there is only one rank, and blame needs peers that wait"
    ]
    assert "HEALTHY" not in report.to_text()


@pytest.mark.parametrize(
    ("steps", "words"), [(1, "1 step, at least 28"), (3, "3 steps, at least 28"), (27, "27 steps")]
)
def test_a_run_too_short_to_be_judged_says_so(tmp_path: Path, steps: int, words: str) -> None:
    report = analyze([write(tmp_path / "s.jsonl", rows(steps=steps))])
    assert words in report.to_json()["inputs"][0]["notes"][0]
    assert "not judged" in report.to_text()
    assert "HEALTHY" not in report.to_text()


def test_of_several_runs_the_short_one_is_named(tmp_path: Path) -> None:
    table = [{"run_idx": 4} | row for row in rows(steps=5)] + [{"run_idx": 9} | row for row in rows()]
    report = analyze([write(tmp_path / "s.jsonl", table)])
    assert report.inputs[0].notes == ["not judged in run 4: 5 steps, at least 28 are needed"]
    assert culprits(report) == [("rank", 3)]


def test_a_noisy_job_needs_more(tmp_path: Path) -> None:
    table = rows(steps=60)
    for row in table:
        row["step_us"] = float(str(row["step_us"])) * (1 + int(str(row["step"])) % 2)
    assert "60 steps, at least 98" in analyze([write(tmp_path / "s.jsonl", table)]).inputs[0].notes[0]


def test_ranks_missing_in_some_steps_and_repeated_rows_change_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    table = [row for row in rows() if rng.random() > 0.05]
    table += [table[i] for i in rng.integers(0, len(table), 40).tolist()]
    report = analyze([write(tmp_path / "s.jsonl", table)])
    assert culprits(report) == [("rank", 3)]
    assert report.inputs[0].reasons == {"repeated": 40}
    assert "lack steps" in report.inputs[0].notes[0]


def test_a_rank_that_stops_reporting_does_not_hide_the_slow_one(tmp_path: Path) -> None:
    table = [row for row in rows(16, steps=200, since=150) if not (row["rank"] == 9 and int(str(row["step"])) > 60)]
    assert culprits(analyze([write(tmp_path / "s.jsonl", table)])) == [("rank", 3)]


@pytest.mark.parametrize("value", [-5, math.inf, -math.inf, 1e300, "-1e300", "abc", "1.5s"])
@pytest.mark.parametrize("column", ["step_us", "compute_us", "wait_us"])
def test_impossible_times_are_counted_and_blame_nobody(tmp_path: Path, value: object, column: str) -> None:
    table = rows(late=None)
    for row in table:
        if row["rank"] == 2 and int(str(row["step"])) % 3 == 0:
            row[column] = value
    path = tmp_path / "s.csv"
    lines = [",".join(table[0]), *(",".join(str(v) for v in row.values()) for row in table)]
    path.write_text("\n".join(lines) + "\n")
    report = analyze([path])
    assert (report.inputs[0].skipped, report.inputs[0].reasons) == (44, {"bad_time": 44})
    assert report.healthy


@pytest.mark.parametrize("value", ["abc", True, [1], {"us": 1}])
def test_a_time_in_json_that_is_no_number_is_counted(tmp_path: Path, value: object) -> None:
    table = rows(late=None)
    table[7]["compute_us"] = value
    assert analyze([write(tmp_path / "s.jsonl", table)]).inputs[0].reasons == {"bad_time": 1}


@pytest.mark.parametrize("value", ["", "-", "NA", "n/a", "null", "None", "\\N", "NaN"])
def test_what_tables_write_for_nothing_is_a_missing_time(tmp_path: Path, value: str) -> None:
    table = rows(late=None)
    for row in table[::3]:
        row["wait_us"] = value
    path = tmp_path / "s.csv"
    lines = [",".join(table[0]), *(",".join(str(v) for v in row.values()) for row in table)]
    path.write_text("\n".join(lines) + "\n")
    report = analyze([path])
    assert report.inputs[0].reasons == {}
    assert report.healthy


def test_nan_is_a_missing_time(tmp_path: Path) -> None:
    table = rows(late=None)
    for row in table:
        if row["rank"] == 2 and int(str(row["step"])) >= 100:
            row["compute_us"] = "NaN"
    report = analyze([write(tmp_path / "s.jsonl", table)])
    assert (report.inputs[0].skipped, report.healthy) == (0, True)


def test_columns_that_are_needed_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("step,colour,step_us\n1,red,5\n")
    with pytest.raises(UserError, match=r"no column rank; it has colour, step, step_us"):
        analyze([path], "steps")
    path.write_text("")
    with pytest.raises(UserError, match="there is nothing in it"):
        analyze([path], "steps")


def test_one_record_is_one(tmp_path: Path) -> None:
    assert "Read 1 record of 1 steps file" in analyze([write(tmp_path / "s.jsonl", rows(1, 1))]).to_text()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(("make", "words"), [(_fifo, "a pipe"), (_device, "device"), (_loop, "cannot be read")])
def test_what_is_no_file_gets_one_line(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(UserError, match=words) as raised:
        analyze([path])
    assert "\n" not in str(raised.value)


def folder(path: Path, table: list[Row], *ranks: int) -> Path:
    path.mkdir(parents=True)
    return write(path / "steps.jsonl", [row for row in table if not ranks or row["rank"] in ranks])


@pytest.mark.parametrize("numbered", [False, True])
def test_folders_are_runs_of_their_own_whatever_number_they_give(tmp_path: Path, numbered: bool) -> None:
    for name, late in (("monday", 3), ("tuesday", None), ("wednesday", 6)):
        table = rows(late=late)
        folder(tmp_path / name, [row | {"run_idx": 0} for row in table] if numbered else table)
    report = analyze([tmp_path])
    found = [(i["where"], i["run"], i["culprits"][0]["rank"]) for i in report.to_json()["incidents"]]
    run = 0 if numbered else None
    assert found == [("monday", run, 3), ("wednesday", run, 6)]
    assert "2 INCIDENTS in 2 of 3 runs" in report.to_text()
    assert ("monday, run 0: " if numbered else "monday: ") in report.to_text()


def test_files_of_one_folder_that_repeat_each_others_ranks_are_runs_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "first.jsonl", rows(late=3))
    write(tmp_path / "second.jsonl", rows(late=None))
    report = analyze([tmp_path])
    assert [i["where"] for i in report.to_json()["incidents"]] == ["first.jsonl"]
    assert len(report.runs) == 2


def test_files_of_ranks_and_pieces_of_a_log_are_one_run(tmp_path: Path) -> None:
    table = rows()
    for rank in range(8):
        for part, steps in (("1", range(70)), ("2", range(70, 130))):
            mine = [row for row in table if row["rank"] == rank and row["step"] in steps]
            write(tmp_path / f"rank{rank}.{part}.jsonl", mine)
    report = analyze([tmp_path])
    assert culprits(report) == [("rank", 3)]
    assert [run.where for run in report.runs] == [""]


def test_a_folder_for_each_node_of_one_run_is_one_run(tmp_path: Path) -> None:
    table = rows()
    folder(tmp_path / "node-a", table, 0, 1, 2, 3)
    folder(tmp_path / "node-b", table, 4, 5, 6, 7)
    report = analyze([tmp_path])
    assert culprits(report) == [("rank", 3)]
    assert len(report.runs) == 1


def test_folders_of_other_ranks_at_another_time_are_no_one_run(tmp_path: Path) -> None:
    table = rows()
    later = [row | {"ts_ms": int(str(row["ts_ms"])) + 3_600_000} for row in table]
    folder(tmp_path / "node-a", table, 0, 1, 2, 3)
    folder(tmp_path / "node-b", later, 4, 5, 6, 7)
    assert len(analyze([tmp_path]).runs) == 2


def test_a_thousand_ranks(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    steps, ranks = 60, 1024
    rng = np.random.default_rng(1)
    own = 8000 + np.abs(rng.normal(0, 100, (steps, ranks)))
    own[40:, 700] += 5_000
    total = (70_000 + own.max(axis=1))[:, None]
    table = {
        "step": np.repeat(np.arange(steps), ranks),
        "rank": np.tile(np.arange(ranks), steps),
        "compute_us": (total - own).ravel(),
        "step_us": np.repeat(total, ranks, axis=1).ravel(),
        "node": [f"n{rank // 8:03}" for rank in range(ranks)] * steps,
    }
    path = tmp_path / "s.parquet"
    parquet.write_table(pyarrow.table(table), path)
    (incident,) = analyze([path]).to_json()["incidents"]
    assert (incident["culprits"][0]["rank"], incident["culprits"][0]["node"]) == (700, "n087")
    assert incident["detected"]["step"] == 47
