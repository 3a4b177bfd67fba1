"""The exam of step times: labels against words, the other methods, the scaled and added faults; on a made-up set and on
a few of the real runs."""

from pathlib import Path

import numpy as np
import pytest

from bench.quality.step_doses import added, scaled
from bench.quality.step_peers import PEERS, told_window
from bench.quality.step_runs import Label, StepRun, labels, sample
from bench.quality.step_score import Word, confusion, ours, outcome, said, table, wilson
from bench.quality.steps import compare, recorded, text
from lockstep.analyze.recording import Input
from lockstep.analyze.steps import read

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces" / "ascend_failslow"

LABEL = Label(1, "case", "loud", "C1", "rank", 7, "gpu_compute", 100, 300, "gpu_bound")


def runs() -> dict[str, StepRun]:
    return {run.label.case: run for run in sample()}


@pytest.mark.parametrize(
    ("words", "verdict", "delay", "blamed"),
    [
        ([], "missed", None, 0),
        ([Word("rank", 7, "unknown", 107)], "right", 7, 0),
        ([Word("rank", 3, "unknown", 50), Word("rank", 7, "unknown", 107)], "right", 7, 1),
        ([Word("rank", 3, "unknown", 120)], "wrong", None, 1),
        ([Word("job", None, "unknown", 120)], "unnamed", 20, 0),
        ([Word("rank", 7, "unknown", 99)], "missed", None, 0),
        ([Word("rank", 7, "unknown", 301)], "missed", None, 0),
    ],
)
def test_words_against_a_label(words: list[Word], verdict: str, delay: int | None, blamed: int) -> None:
    found = outcome(LABEL, words)
    assert (found.verdict, found.delay, found.blamed) == (verdict, delay, blamed)


def test_a_fault_without_onset_is_right_in_silence_and_wrong_with_a_culprit() -> None:
    label = LABEL._replace(scope="job", rank=None)
    assert outcome(label, []).verdict == "right"
    assert outcome(label, [Word("job", None, "unknown", 120)]).verdict == "right"
    assert outcome(label, [Word("rank", 3, "unknown", 120)]).verdict == "wrong"


def test_counts_intervals_and_causes() -> None:
    outcomes = [outcome(LABEL, [Word("rank", 7, "gpu_degraded", 107)]), outcome(LABEL, [])]
    (row,) = table(outcomes)
    assert (row["runs"], row["right"], row["missed"], row["median_delay_steps"]) == (2, 1, 1, 7)
    assert confusion(outcomes) == {"gpu_compute": {"gpu_degraded": 1}}
    assert wilson(8, 8)[0] == pytest.approx(0.676, abs=1e-3)


def test_the_made_up_set_is_judged_right_and_the_others_are_not() -> None:
    answer = compare(sample())
    assert [(o["label"]["case"], o["verdict"]) for o in answer["runs"]] == [
        ("clean", "quiet"),
        ("slow", "right"),
        ("busy", "right"),
        ("noisy", "quiet"),
        ("long", "right"),
    ]
    assert answer["told_the_window"]["right"]["largest_compute"] == 0
    assert answer["confusion"]["software_shape"] == {"sequence_imbalance": 1}
    assert "lockstep" in text(answer | {"recorded": []})


def test_relative_scores_blame_the_victims() -> None:
    slow = runs()["slow"]
    assert 3 not in {word.rank for word in PEERS["nvrx_relative"](slow)}
    assert told_window(slow, slow.columns["compute_us"]) != 3
    assert [word.rank for word in PEERS["job_change_point"](slow)] == [None]


@pytest.mark.parametrize("name", sorted(PEERS))
def test_no_other_method_looks_ahead_either(name: str) -> None:
    run = runs()["slow"]
    short = StepRun(run.label, {column: values[:150] for column, values in run.columns.items()})
    said_until = [word for word in PEERS[name](run) if word.step < 150]
    assert sorted(PEERS[name](short)) == sorted(said_until)


def test_a_scaled_fault_keeps_its_runs_sums() -> None:
    slow = runs()["slow"]
    half = scaled(slow, 0.5)
    assert np.median(half.own[100:200, 3] - slow.own[100:200, 3]) == pytest.approx(-10_000, rel=0.05)
    assert np.median(half.step[100:200] - slow.step[100:200]) == pytest.approx(-10_000, rel=0.05)
    assert np.array_equal(half.own[:, 4], slow.own[:, 4])
    assert np.allclose(scaled(slow, 1.0).step, slow.step)
    with pytest.raises(ValueError, match="no culprit"):
        scaled(runs()["clean"], 0.5)


def test_an_added_delay_makes_the_step_longer_by_what_was_not_to_spare() -> None:
    clean = runs()["clean"]
    late = added(StepRun(clean.label, {n: np.tile(v, (2, 1))[:230] for n, v in clean.columns.items()}), 0.1)
    assert late.label.rank == 7
    rise = late.step[100:220] - np.tile(clean.step, 2)[100:220]
    assert np.all(rise <= 0.1 * np.median(clean.step) + 1)
    assert np.median(rise) > 0.09 * np.median(clean.step)


def test_recorded_outcomes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "comparator_outcomes.csv"
    path.write_text("path,tool,case,dose,detect_ok\na,x,A,loud,True\nb,x,B,loud,False\n")
    assert recorded(path) == [{"tool": "x", "dose": "loud", "runs": 2, "detected": 1}]
    assert recorded(tmp_path / "none.csv") == []


@pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the project")
def test_real_fail_slow_runs() -> None:
    """Three of the 42 (`python -m bench.quality` does them all): a clean run, a slow rank, a busy node."""
    known, wanted, results = labels(REAL / "runs.csv"), (1, 3, 4), {}
    for recording in read([Input(REAL / "ranks.parquet", "steps")], lambda *_: None):
        if recording.run in wanted:
            found = outcome(known[recording.run], said(recording))
            results[recording.run] = (found.verdict, found.delay, found.blamed)
        if recording.run is not None and recording.run >= max(wanted):
            break
    assert results == {1: ("right", 54, 0), 3: ("quiet", None, 0), 4: ("right", 7, 0)}


def test_arrays_and_files_say_the_same(tmp_path: Path) -> None:
    import json

    run = runs()["slow"]
    path = tmp_path / "s.jsonl"
    names = list(run.columns)
    with path.open("w") as file:
        for step in range(len(run.step)):
            for rank in range(run.columns["step_us"].shape[1]):
                row = {"step": step, "rank": rank} | {name: float(run.columns[name][step, rank]) for name in names}
                file.write(json.dumps(row) + "\n")
    (recording,) = (outcome(run.label, said(r)) for r in read([Input(path, "steps")], lambda *_: None))
    assert recording.words == outcome(run.label, ours(run)).words
