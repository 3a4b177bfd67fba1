"""Whole numbers in text that somebody else wrote."""

MOST = 1 << 64
"""No counter of a kernel or device goes further, and none could travel in a record."""

LONGEST = 20
"""Digits of the largest one."""


def whole(text: str) -> int | None:
    """The number below 2^64 that `text` is; None for anything else, other alphabets' digits among it.

    Python's own `int` takes those, raises from 4,300 digits on, and below that gives numbers that are no float.

    >>> whole("42"), whole(" 42"), whole("-1"), whole("²"), whole("9" * 400)
    (42, None, None, None, None)
    """
    if len(text) > LONGEST or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number < MOST else None


def count_of(text: str) -> int:
    """The same; ValueError where it is none."""
    number = whole(text)
    if number is None:
        raise ValueError(f"{text[:LONGEST]!r} is no count")
    return number
