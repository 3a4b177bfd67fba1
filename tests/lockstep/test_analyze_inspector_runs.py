"""NCCL Inspector's files of several runs: kept apart where they cannot be one, joined where they complete each other,
and silent about what too little is there for."""

from pathlib import Path

import numpy as np
import pytest
from inspector_lines import operation

from lockstep.analyze import analyze
from lockstep.analyze.report import Report

START_US = 1_796_000_000_000_000


def write(
    folder: Path,
    ranks: range = range(8),
    rounds: int = 30,
    late: int | None = None,
    pid: int = 100,
    start_us: int = START_US,
    first: int = 0,
    every: int = 1,
) -> Path:
    """One file a rank, all of one communicator of eight; from half of it on rank `late` comes 3 ms late."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for rank in ranks:
        rows = []
        for step in range(rounds):
            wait = 3000.0 if step >= rounds // 2 and late not in (None, rank) else 0.0
            rows.append(
                operation(
                    pid=pid + rank, sn=first + step * every, time=2600.0 + rng.uniform(0, 60) + wait, rank=rank, size=8,
                    nodes=2, host=f"node-0{rank // 4 + 1}", dump_us=start_us + step * 50_000,
                )
            )  # fmt: skip
        with (folder / f"pid{pid + rank}.log").open("ab") as file:
            file.write(b"\n".join(rows) + b"\n")
    return folder


def blamed(report: Report) -> list[tuple[str, int | None]]:
    return [(i.get("where", ""), i["culprits"][0]["rank"]) for i in report.to_json()["incidents"]]


def notes(report: Report) -> list[str]:
    return [note for i in report.inputs for note in i.notes]


@pytest.mark.parametrize("pid", [100, 900])
def test_runs_in_two_folders_with_the_same_communicator_are_judged_apart(tmp_path: Path, pid: int) -> None:
    write(tmp_path / "good")
    write(tmp_path / "bad", late=5, pid=pid)
    for report in (analyze([tmp_path]), analyze([tmp_path / "good", tmp_path / "bad"])):
        assert len(report.runs) == 2
        assert blamed(report) == [("bad", 5)]
        assert "bad" in report.to_text().split("INCIDENT", 1)[1]


def test_folders_of_one_job_a_node_are_one_run(tmp_path: Path) -> None:
    write(tmp_path / "node-01", range(4), late=5)
    write(tmp_path / "node-02", range(4, 8), late=5)
    report = analyze([tmp_path])
    assert (len(report.runs), blamed(report)) == (1, [("", 5)])


def test_two_runs_of_two_nodes_each_find_their_own_half(tmp_path: Path) -> None:
    for run, late in (("a", None), ("b", 2)):
        write(tmp_path / run / "node-01", range(4), late=late, pid=100 if run == "a" else 500)
        write(tmp_path / run / "node-02", range(4, 8), late=late, pid=100 if run == "a" else 500)
    report = analyze([tmp_path])
    assert len(report.runs) == 2
    assert [rank for _, rank in blamed(report)] == [2]


def test_a_job_started_again_into_the_same_folder_is_a_second_run(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, late=5, pid=900, start_us=START_US + 600_000_000)
    report = analyze([tmp_path])
    assert (len(report.runs), [rank for _, rank in blamed(report)]) == (2, [5])


def test_two_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", late=5, pid=900)
    both = tmp_path / "all.log"
    both.write_bytes(b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("pid*.log"))))
    report = analyze([both])
    assert (len(report.runs), [rank for _, rank in blamed(report)]) == (2, [5])


def test_a_process_that_goes_on_in_another_file_is_one_run(tmp_path: Path) -> None:
    write(tmp_path / "old", rounds=15)
    write(tmp_path / "new", rounds=15, first=15, start_us=START_US + 750_000)
    report = analyze([tmp_path])
    assert (len(report.runs), report.healthy, notes(report)) == (1, True, [])


def test_few_rounds_are_not_called_healthy(tmp_path: Path) -> None:
    report = analyze([write(tmp_path, rounds=7)])
    assert notes(report) == ["not judged: stragglers and slow links: 7 complete rounds of one collective, 8 are needed"]
    assert "HEALTHY" not in report.to_text()
    assert not notes(analyze([write(tmp_path / "more", rounds=8)]))


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (range(7), "not judged: slow links: rank 7's records are missing"),
        (range(1, 7), "not judged: slow links: the records of ranks 0 and 7 are missing"),
        (range(4), "(the records of ranks 4 to 7 are missing)"),
        (range(3, 4), "not judged: stragglers and slow links: no complete rounds"),
    ],
)
def test_missing_ranks_are_named(tmp_path: Path, there: range, words: str) -> None:
    report = analyze([write(tmp_path, there)])
    (note,) = notes(report)
    assert words in note
    assert "HEALTHY" not in report.to_text()


def test_a_straggler_is_named_though_a_rank_is_missing(tmp_path: Path) -> None:
    report = analyze([write(tmp_path, range(7), late=5)])
    assert blamed(report) == [("", 5)]
    assert "rank 7's records are missing" in notes(report)[0]


def test_confidence_falls_where_most_operations_are_missing(tmp_path: Path) -> None:
    whole = analyze([write(tmp_path / "whole", late=5)])
    holey = analyze([write(tmp_path / "holey", late=5, every=5)])
    assert [i.coverage < 0.25 for i in holey.inputs] == [True] * 8
    assert 0 < holey.runs[0].incidents[0].confidence < 0.8 * whole.runs[0].incidents[0].confidence
