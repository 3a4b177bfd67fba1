"""Numbers as NVIDIA's tools print them: "401.22 W", "[N/A]", "ERR!", DCGM's blanks.

A word instead of a number is a reason, never 0. What one tool writes for "no value" (the blanks of dcgm_structs.h, all
bits set) is none here either, however it was rounded on its way.
"""

import math
import re

from collectors.rates import Value

LONGEST = 64
"""Letters of a printed value: the longest words have half of that."""

_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%°][A-Za-z/()]*)?")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")

_WORDS = {
    "": "blank",
    "n/a": "unsupported",
    "na": "unsupported",
    "not available": "unsupported",
    "not supported": "unsupported",
    "not_supported": "unsupported",
    "requested functionality has been deprecated": "unsupported",
    "function not found": "unsupported",
    "not found": "unsupported",
    "not_found": "unsupported",
    "null": "blank",
    "none": "blank",
    "nan": "blank",
    "not_perm": "no_permission",
    "insufficient permissions": "no_permission",
    "insufficient external power": "unknown_error",
    "unknown error": "unknown_error",
    "err!": "unknown_error",
    "error": "unknown_error",
    "gpu is lost": "lost",
    "lost": "lost",
    "gpu requires reset": "reset_required",
    "reset required": "reset_required",
}
"""What is printed in place of a number, without its brackets and in lower case; anything else is "unreadable"."""

_SCALES = {
    "mw": 1e-3, "kw": 1e3, "mj": 1e-3, "kib": 1 / 1024, "gib": 1024.0, "ghz": 1e3, "khz": 1e-3,
    "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9,
}  # fmt: skip
_SCALES |= dict.fromkeys(("", "w", "mhz", "mib", "c", "°c", "%", "x", "mv", "bank(s)", "pages"), 1.0)
"""What turns a unit into the catalogue's; a number in any other unit is "unreadable"."""

_FAHRENHEIT = frozenset(("f", "°f"))


def printed(text: str) -> Value:
    """The number in the catalogue's unit, or the reason why there is none.

    >>> printed("401.22 W"), printed("[N/A]"), printed("[GPU is lost]"), printed("9223372036854775794")
    (401.22, 'unsupported', 'lost', 'blank')
    """
    word = text.strip().strip("[]<>").strip()
    if len(word) > LONGEST:
        return "unreadable"
    if _HEX.fullmatch(word):
        return blank_or(float(int(word, 16)))
    match = _NUMBER.fullmatch(word)
    if match is None:
        return _WORDS.get(word.lower(), "blank" if word.lower().lstrip("+-") in ("inf", "nan") else "unreadable")
    unit = (match[2] or "").strip().lower()
    value = blank_or(float(match[1]))
    if isinstance(value, str):
        return value
    if unit in _FAHRENHEIT:
        return (value - 32) / 1.8
    return value * _SCALES[unit] if unit in _SCALES else "unreadable"


_BLANK_32 = range(0x7FFFFFF0, 0x80000000)
_BLANK_64 = 9.2e18
_BLANK_DOUBLE = (140737488355328.0, 140737488355343.0)
_ALL_BITS_32 = 4294967295.0


def blank_or(value: float) -> Value:
    """`value`, or "blank" where it is one of the marks for "no value".

    64-bit blanks are compared from below, because a double cannot hold them; the 32-bit ones are a narrow range, beyond
    which counters go on.

    >>> blank_or(9.223372036854776e18), blank_or(140737488355330.0), blank_or(2147483634.0), blank_or(41.0)
    ('blank', 'blank', 'blank', 41.0)
    """
    low, high = _BLANK_DOUBLE
    if not math.isfinite(value) or value >= _BLANK_64 or low <= value <= high or value == _ALL_BITS_32:
        return "blank"
    return "blank" if value.is_integer() and int(value) in _BLANK_32 else value
