"""`lockstep analyze` on pipeline traces and batch times: forms, orders, nonsense, and the real recordings."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_steps import pipeline_steps

from lockstep.analyze import analyze, events
from lockstep.analyze.recognise import recognise
from runtime.errors import UserError

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the project")
NAMES = {0: "forward-compute", 1: "backward-compute"}


def trace(slow: tuple[int, int] | None = (1, 2), steps: int = 8, dp: int = 3, pp: int = 3) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step, ops in pipeline_steps(
        lambda step, d, s, kind, k: 1.5 if (d, s) == slow else 1.0, dp=dp, pp=pp, microbatches=6, steps=steps
    ):
        for d, s, rank, kind, start, took in zip(*(column.tolist() for column in ops), strict=True):
            place = {"dp_rank": d, "stage": s, "rank": 100 + rank, "step": step}
            rows.append(place | {"optype": NAMES[kind], "start_ts": start, "duration": took})
            rows.append(place | {"optype": "forward-recv", "start_ts": start, "duration": 5.0})
    return rows


def batches(slow: int | None = 3, rounds: int = 120) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)

    def took(n: int, w: int) -> int:
        late = 1.6 if w == slow and n >= 80 else 1.0
        return round(400 * (1 + w / 10) * math.exp(rng.normal(0, 0.02)) * late)

    return [
        {"worker": w, "gpu": 8, "time": 10 * n, "batch_time_norm": took(n, w)} for n in range(rounds) for w in range(5)
    ]


def csv_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def jsonl_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("form", [csv_file, jsonl_file, parquet_file])
def test_a_pipeline_trace_is_known_in_every_form(tmp_path: Path, form: Any) -> None:
    path = form(tmp_path / "file", trace())
    assert recognise(path) == "pipeline-trace"
    (incident,) = analyze([path]).to_json()["incidents"]
    assert [(c["rank"], c["group"]) for c in incident["culprits"]] == [(107, "dp 1 stage 2")]
    assert incident["onset"] == {"step": 0, "ts": None}
    assert incident["detected"] == {"step": 3, "ts": None}


def test_rows_in_any_order_give_the_same_answer(tmp_path: Path) -> None:
    rows = trace()
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    here, there = (analyze([csv_file(tmp_path / f"{n}.csv", r)]).to_json() for n, r in enumerate((rows, shuffled)))
    assert [i["culprits"] for i in here["incidents"]] == [i["culprits"] for i in there["incidents"]]


def test_one_file_a_rank_is_one_job_and_two_whole_traces_are_two(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for rank in {row["rank"] for row in trace()}:
        csv_file(tmp_path / "ranks" / f"{rank}.csv", [row for row in trace() if row["rank"] == rank])
    assert len(analyze([tmp_path / "ranks"]).runs) == 1
    (tmp_path / "jobs").mkdir()
    csv_file(tmp_path / "jobs" / "a.csv", trace())
    csv_file(tmp_path / "jobs" / "b.csv", trace(None, pp=2))
    report = analyze([tmp_path / "jobs"])
    assert [(run.job, len(run.incidents)) for run in report.runs] == [("a", 1), ("b", 0)]


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300", "", "abc"])
def test_nonsense_in_a_trace_is_counted_and_left_out(tmp_path: Path, value: str) -> None:
    rows = trace(None)
    for row in rows[::17]:
        row["duration"] = value
    report = analyze([csv_file(tmp_path / "t.csv", rows)])
    assert report.healthy
    assert report.inputs[0].reasons == {"bad_time": len(rows[::17])}


def test_a_trace_that_is_too_short_says_so(tmp_path: Path) -> None:
    report = analyze([csv_file(tmp_path / "t.csv", trace(steps=2))])
    assert "not judged: 2 steps" in report.inputs[0].notes[0]


def test_operations_of_a_trace_are_listed(tmp_path: Path) -> None:
    first = next(events([csv_file(tmp_path / "t.csv", trace())]))
    assert (first["event"], first["line"], first["optype"]) == ("operation", 2, NAMES[1])


@pytest.mark.parametrize("form", [csv_file, jsonl_file, parquet_file])
def test_batch_times_are_known_in_every_form(tmp_path: Path, form: Any) -> None:
    path = form(tmp_path / "file", batches())
    assert recognise(path) == "batch-times"
    (incident,) = analyze([path]).to_json()["incidents"]
    assert [c["rank"] for c in incident["culprits"]] == [3]
    assert incident["onset"]["step"] == 800


def test_workers_one_after_another_are_put_in_order(tmp_path: Path) -> None:
    rows = sorted(batches(), key=lambda row: (row["worker"], row["time"]))
    (incident,) = analyze([csv_file(tmp_path / "b.csv", rows)]).to_json()["incidents"]
    assert [c["rank"] for c in incident["culprits"]] == [3]


def test_moments_are_told_where_times_are_some(tmp_path: Path) -> None:
    rows = [row | {"time": 1_800_000_000 + row["time"], "worker": f"w{row['worker']}"} for row in batches()]
    (incident,) = analyze([csv_file(tmp_path / "b.csv", rows)]).to_json()["incidents"]
    assert [c["group"] for c in incident["culprits"]] == ["w3"]
    assert incident["onset"]["ts"] == "2027-01-15T08:13:20.000Z"


@pytest.mark.parametrize("value", ["nan", "inf", "-5", "0", "1e300", ""])
def test_nonsense_in_batch_times_is_counted_and_left_out(tmp_path: Path, value: str) -> None:
    rows = batches(None)
    for row in rows[::23]:
        row["batch_time_norm"] = value
    report = analyze([csv_file(tmp_path / "b.csv", rows)])
    assert report.healthy
    assert report.inputs[0].reasons == {"bad_batch_time": len(rows[::23])}


def test_batch_times_that_are_too_few_say_so(tmp_path: Path) -> None:
    report = analyze([csv_file(tmp_path / "b.csv", batches(rounds=10))])
    assert "not judged" in report.inputs[0].notes[0]


def test_a_table_without_one_usable_row_is_refused(tmp_path: Path) -> None:
    rows = [row | {"batch_time_norm": "x"} for row in batches()]
    with pytest.raises(UserError, match="no usable batch-times record"):
        analyze([csv_file(tmp_path / "b.csv", rows)])


@needs_real
def test_the_real_pipeline_traces() -> None:
    slow, uneven = (
        analyze([REAL / "bytedance_straggler" / f"trace-{name}.parquet"]).to_json()["incidents"]
        for name in ("AR", "SE")
    )
    assert [(i["kind"], [(c["rank"], c["group"]) for c in i["culprits"]]) for i in slow] == [
        ("straggler", [(0, "dp 0 stage 0")])
    ]
    assert [(i["kind"], i["cause"], i["culprits"]) for i in uneven] == [("imbalance", "sequence_imbalance", [])]


@needs_real
def test_the_real_batch_times() -> None:
    report = analyze([REAL / "alibaba" / f"minibatch_job_{n}_norm.csv.gz" for n in (1, 2)])
    said = [[c.rank for c in i.culprits] for run in report.runs for i in run.incidents]
    assert said == [[6]]
    assert report.runs[0].incidents[0].detected_step == 1841
