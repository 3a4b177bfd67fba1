"""Where everything on one machine keeps its data."""

from pathlib import Path

import pytest

from lockstep.local import data_folder, hold
from runtime.errors import UserError


def test_an_empty_folder_is_not_taken_for_the_usual_one(tmp_path: Path) -> None:
    """`--data "$DIR"` with DIR unset must not write into the home folder."""
    with pytest.raises(UserError, match="--data is empty"):
        data_folder("", {"LOCKSTEP_DATA": str(tmp_path)})
    assert data_folder(None, {"LOCKSTEP_DATA": str(tmp_path / "a")}) == tmp_path / "a"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("~nobody-of-that-name/x", "nobody knows that home"),
        ("loop", "Too many levels|File exists"),
        ("loop/x", "Too many levels"),
        ("x" * 300, "File name too long"),
        ("a\nb", "control characters"),
        ("\udcff", "no UTF-8"),
        ("/dev/null/x", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_is_one_line(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match=said) as caught:
        data_folder(given, {})
    assert "\n" not in str(caught.value)
    assert "--data" in str(caught.value)


def test_without_a_home_a_folder_that_was_given_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user may have a number only."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert data_folder(str(tmp_path / "a"), {}) == tmp_path / "a"
    with pytest.raises(UserError, match="nobody knows that home"):
        data_folder(None, {})


def test_a_lock_that_cannot_be_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "up.lock").mkdir()
    with pytest.raises(UserError, match=r"up\.lock: Is a directory"):
        hold(tmp_path)
