"""Where everything on one machine keeps its data."""

from pathlib import Path

import pytest

from lockstep.local import data_folder
from runtime.errors import UserError


def test_an_empty_folder_is_not_taken_for_the_usual_one(tmp_path: Path) -> None:
    """`--data "$DIR"` with DIR unset must not write into the home folder."""
    with pytest.raises(UserError, match="--data is empty"):
        data_folder("", {"LOCKSTEP_DATA": str(tmp_path)})
    assert data_folder(None, {"LOCKSTEP_DATA": str(tmp_path / "a")}) == tmp_path / "a"
