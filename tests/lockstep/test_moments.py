"""Moments and durations that people may type."""

import pytest

from lockstep.moments import moment_ms, shown
from runtime.errors import UserError

NOW_MS = 1_796_000_000_000


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1969-12-31T23:00", 0),
        ("0001-01-01T00:00:00+14:00", 0),
        ("999999d", 0),
        ("10s", NOW_MS - 10_000),
    ],
)
def test_no_moment_is_before_1970_so_that_all_can_be_shown(typed: str, meant: int) -> None:
    assert moment_ms(typed, "--from", NOW_MS) == meant
    assert shown(meant)


def test_the_last_moment_that_can_be_typed_is_a_number() -> None:
    assert moment_ms("9999-12-31T23:59:59-14:00", "--until", NOW_MS) > NOW_MS


@pytest.mark.parametrize("typed", ["", "tomorrow", "2026-13-01", "10000-01-01", "-5m", "1h30m", "٣h"])
def test_what_is_no_moment_is_refused(typed: str) -> None:
    with pytest.raises(UserError, match=r"^--from="):
        moment_ms(typed, "--from", NOW_MS)
