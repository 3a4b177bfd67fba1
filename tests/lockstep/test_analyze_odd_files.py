"""`lockstep analyze` on files that are odd as files: deep, blank, wide, or of another encoding."""

import time
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockstep.commands.analyze import command

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
