"""Moments and durations as people type them."""

import re
from datetime import UTC, datetime

from runtime.errors import UserError

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str, option: str) -> int:
    """ "90s", "30m", "2h" or "7d" in milliseconds; UserError in one line for anything else.

    >>> duration_ms("2h", "--for")
    7200000
    """
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text.strip())
    if found is None or int(found[1]) == 0:
        raise UserError(f"{option}={text!r}: give a duration such as 30m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def moment_ms(text: str, option: str, now_ms: int) -> int:
    """A time in ISO 8601 (UTC where it does not say), "now", or a duration before now; none is before 1970."""
    if text == "now":
        return now_ms
    if re.fullmatch(r"[0-9]{1,6}[smhd]", text.strip()):
        return max(0, now_ms - duration_ms(text, option))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{option}={text!r}: give a time such as 2026-11-30T14:00, or 2h for two hours ago") from None
    return max(0, int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def shown(ts_ms: int) -> str:
    """A moment for a person.

    >>> shown(0)
    '1970-01-01 00:00:00'
    """
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
