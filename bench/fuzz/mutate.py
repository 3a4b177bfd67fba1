"""Bytes that are nearly right: a sample cut, spliced, repeated, flipped, or with a nasty word in it."""

import re
from collections.abc import Callable, Sequence
from random import Random

LONGEST = 1 << 14
"""Bytes of a usual input."""

FLOOD = 1 << 16
"""Bytes of one in fifty, which ends in one word over and over: whatever grows faster than its input shows it there."""

WORDS: tuple[bytes, ...] = (
    b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"-0.0", b"1e-400", b"0x", b"null", b"true", b"-", b".", b"", b"%s",
    b"9223372036854775808", b"18446744073709551616", b"2147483634", b"4294967295", b"1" * 400, b"9" * 4400,
    b"1970-01-01T00:00:00", b"9999-12-31 23:59:59", b"0001-01-01T00:00:00+23:59", b"Feb 30 25:61:61",
    b"[" * 3000, b'{"a":' * 3000, b"\x91" * 3000, b"(" * 500, b"\\" * 600, b'"', b'"\\ud800"', b"'", b",", b";", b"=",
    b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xf4\x90\x80\x80", "²".encode(), "٣".encode(),
    "\u2028".encode(), b"\x1c", b"\x85", b"\x00", b"\r", b"\n", b"\r\n", b"\n" * 1500, b" " * 3000, b"a" * 3000,
    b"# ", b"../..", b"http://", b"$ref", b"\x1b[31m",
)  # fmt: skip
"""Numbers beyond every type, deep nesting, halves of characters, digits that are none, ends of lines that are some."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def mutate(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """`data` changed at one to six places; `others` are samples to take pieces from."""
    for _ in range(random.randint(1, 6)):
        change = random.choice(CHANGES)
        data = change(data, others, random)[:LONGEST]
    if random.random() < 0.02:
        word = random.choice(WORDS)[:8] or b"a"
        data = (data[: random.randint(0, len(data))] + word * FLOOD)[:FLOOD]
    return data


def _span(data: bytes, random: Random) -> tuple[int, int]:
    """A piece of the data: mostly a short one."""
    begin = random.randint(0, len(data))
    most = len(data) - begin
    return begin, begin + random.randint(0, min(most, 16) if random.random() < 0.7 else most)


def _cut(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + data[end:]


def _end(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _flip(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << random.randrange(8),)) + data[at + 1 :]


def _byte(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + bytes((random.randrange(256),)) + data[at + 1 :]


def _repeat(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + data[begin:end] * random.choice((2, 3, 10, 300)) + data[end:]


def _splice(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others) if others else data
    (begin, end), (from_, to) = _span(data, random), _span(other, random)
    return data[:begin] + other[from_:to] + data[end:]


def _word(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + random.choice(WORDS) + data[random.choice((begin, end)) :]


def _number(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return data
    found = random.choice(numbers)
    return data[: found.start()] + random.choice(WORDS) + data[found.end() :]


def _lines(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    lines = data.split(b"\n")
    at, to = random.randrange(len(lines)), random.randrange(len(lines))
    if random.random() < 0.5:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines.insert(to, lines[at])
    return b"\n".join(lines)


CHANGES: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    _cut, _end, _flip, _byte, _repeat, _splice, _word, _word, _number, _number, _lines,
)  # fmt: skip
