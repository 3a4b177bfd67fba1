"""A full disk is said, and nothing is begun on it."""

from pathlib import Path

import pytest

from storage.engine.answer import SPACE_BYTES, require_space
from storage.engine.errors import ClickHouseError


def test_a_full_disk_is_refused_with_the_folder_and_what_is_left() -> None:
    with pytest.raises(ClickHouseError, match=r"No space left on the disk of /data/spool \(12 KiB free\)") as refused:
        require_space(Path("/data/spool"), 12 << 10)
    assert refused.value.code == 243
    require_space(Path("/data/spool"), SPACE_BYTES)
