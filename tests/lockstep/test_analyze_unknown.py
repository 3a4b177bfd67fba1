"""Files that are not read say what they seem to be; progress is told from the first file on; a closed pipe is quiet."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockstep.analyze import READERS, analyze
from lockstep.commands.analyze import command
from runtime.errors import UserError


@pytest.mark.parametrize(
    ("content", "words", "offered"),
    [
        (b"\n====NVSMI LOG====\n\nTimestamp : x\n", "use nvidia-smi --query-gpu=... --format=csv", False),
        (b"Wed\n+---+\n| NVIDIA-SMI 550.1  Driver |\n", "use nvidia-smi --query-gpu=... --format=csv", False),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file", False),
        (b"when,colour,taste\n1,2,3\n", "no known kind has these columns: colour, taste, when", False),
        (b'{"colour": 1, "taste": 2}\n', "no known kind has these columns: colour, taste", False),
        (b"", "it is empty", False),
        (b"hello\n", "say which with --kind", True),
    ],
)
def test_a_file_of_no_known_kind_says_what_it_seems_to_be(
    tmp_path: Path, content: bytes, words: str, offered: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        analyze([path])
    assert words in str(raised.value)
    assert ("--kind" in str(raised.value)) == offered


def test_beside_known_files_the_reason_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "smi.txt").write_text("==NVSMI LOG==\n")
    (tmp_path / "steps.csv").write_text("step,rank,step_us\n0,0,1\n")
    assert "smi.txt: nvidia-smi's printed page is not read" in analyze([tmp_path]).to_text(200)


def test_progress_is_told_while_files_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("step,rank,step_us\n0,0,1\n")
    told: list[str] = []
    analyze([tmp_path], progress=lambda what, _: told.append(what))
    assert told[0] == "looking at files"


def test_help_names_every_kind() -> None:
    words = CliRunner().invoke(command, ["--help"], terminal_width=200).output.split("What is read", 1)[1]
    assert all(f"({kind}" in words or f"{kind})" in words for kind in READERS)


def test_a_closed_pipe_ends_the_list_quietly(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("step,rank,step_us\n" + "".join(f"{n},0,1\n" for n in range(20_000)))
    listing = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "analyze", str(path), "--events"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.readline()
    listing.stdout.close()
    assert (listing.wait(60), listing.stderr.read()) == (141, b"")
    listing.stderr.close()
