"""What a shell is told to type."""

import sys
from pathlib import Path

import pytest

from lockstep.options import program


@pytest.mark.parametrize(
    ("typed", "on_path", "told"),
    [
        ("bin/lockstep", False, "bin/lockstep"),
        ("{here}/bin/lockstep", False, "bin/lockstep"),
        ("/somewhere else/lockstep", False, "'/somewhere else/lockstep'"),
        ("bin/lockstep", True, "lockstep"),
        ("lockstep/__main__.py", False, "lockstep"),
    ],
)
def test_a_hint_names_the_program_as_a_shell_here_finds_it(
    typed: str, on_path: bool, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_file = tmp_path / "bin" / "lockstep"
    program_file.parent.mkdir()
    program_file.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program_file.parent) if on_path else "/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [typed.format(here=tmp_path)])
    assert program() == told
