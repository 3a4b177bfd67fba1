"""`lockstep analyze` on files that are odd as files: deep, blank, wide, or of another encoding."""

import gzip
import time
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockstep.analyze import analyze, events
from lockstep.analyze.files import CUT_OFF, open_bytes
from lockstep.commands.analyze import command
from runtime.errors import UserError

recognition = import_module("lockstep.analyze.recognise")

LOOKED_AT = 1 << 16


@pytest.mark.parametrize("token", [b"[", b"[[ ", b" ", b"# ", b"#a ", b'"event" ', b"a,", b"rank1", b"<1>[ ", b"{{ "])
@pytest.mark.parametrize("start", [b"", b"#", b'{"a":', b"power ["])
def test_every_recogniser_is_done_with_any_beginning_at_once(start: bytes, token: bytes) -> None:
    data = (start + token * LOOKED_AT)[:LOOKED_AT]
    began = time.process_time()
    for looks in recognition.LOOKS.values():
        looks(data)
    recognition._table(recognition.csv_columns(data))
    assert time.process_time() - began < 2  # a scan from each place on to the end took 20 s


def test_deep_json_on_one_line_is_of_no_known_kind(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('{"nccl_version":"2.28","comms":\n' + "[" * 300_000 + "]" * 300_000 + "}\n")
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code != 0
    assert "of a known kind" in str(result.exception)


def test_hundreds_of_millions_of_blank_lines_are_counted_and_cost_little(tmp_path: Path) -> None:
    path = tmp_path / "s.csv.gz"
    rows = "".join(f"{step},{rank},1000,900\n" for step in range(30) for rank in range(2))
    with gzip.open(path, "wb", 1) as file:
        file.write(b"step,rank,step_us,compute_us\n")
        for _ in range(30):
            file.write(b"\n" * 1_000_000)
        file.write(rows.encode())
    began = time.process_time()
    report = analyze([path])
    assert time.process_time() - began < 10  # a line at a time takes 40 s
    assert report.inputs[0].records == 60
    assert "29,999,000 blank lines in a row are left out" in report.inputs[0].notes


def test_ranks_that_no_job_has_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("step,rank,step_us\n" + "".join(f"1,{rank},100\n" for rank in range(131_070, 131_080)))
    (input_,) = analyze([path]).inputs
    assert (input_.records, input_.skipped) == (2, 8)
    assert any("ranks from 131072 on" in note for note in input_.notes)


@pytest.mark.parametrize("rank", ["4294967296", "-1", "a"])
def test_events_of_which_none_can_be_decoded_are_an_error(tmp_path: Path, rank: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"step,rank,step_us\n1,{rank},100\n")
    with pytest.raises(UserError, match=r"no steps record could be decoded \(1 skipped: 1 no_rank\)"):
        list(events([path]))


def test_events_end_with_what_was_skipped(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("step,rank,step_us\n1,0,100\n1,-1,100\n")
    result = CliRunner().invoke(command, [str(path), "--events"])
    assert result.exit_code == 0
    assert result.stderr == "1 skipped: 1 no_rank\n"
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("step,rank,step_us\n1,0,5\n".encode("utf-16"), "save it as UTF-8"),
        (b"step,rank,step_us\r1,0,5\r", "save it with LF line ends"),
    ],
)
def test_text_of_another_form_says_how_to_save_it(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(data)
    with pytest.raises(UserError, match=said):
        analyze([path])


@pytest.mark.parametrize("lost", [1, 9, 300])
def test_of_gzip_that_was_cut_off_the_whole_lines_are_used_and_it_is_said(lost: int, tmp_path: Path) -> None:
    rows = [b'{"step": %d, "rank": 0, "step_us": %d, "noise": "%x"}\n' % (n, 10**5 + n * n, 7**n) for n in range(60)]
    whole, cut = b"".join(rows), tmp_path / "steps.jsonl.gz"
    cut.write_bytes(gzip.compress(whole)[:-lost])
    with open_bytes(cut) as file:
        there = file.read()
    assert whole.startswith(there)
    assert there
    report = analyze([cut])
    assert report.inputs[0].records == there.count(b"\n"), "and not half a line"
    assert report.inputs[0].notes[-1] == CUT_OFF
    assert report.inputs[0].skipped == 0
    said: list[str] = []
    assert len(list(events([cut], skipped=said.append))) == there.count(b"\n")
    assert said == [f"{cut}: {CUT_OFF}"]


def test_of_gzip_that_is_whole_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"step": 1, "rank": 0, "step_us": 5}'))
    (input_,) = analyze([path]).inputs
    assert input_.records == 1
    assert CUT_OFF not in input_.notes
