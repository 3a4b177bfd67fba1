"""Files as they come: folders walked, gzip opened, lines read in pieces however large the file is."""

import errno
import gzip
import stat
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, cast

from runtime.errors import UserError

GZIP = b"\x1f\x8b"

CUT_OFF = "its gzip is cut off (a writer that died, a copy that is not whole): what was whole is used"

DAMAGED = (OSError, EOFError, zlib.error)
"""What reading from `open_bytes` raises where a file, or what is packed in it, is damaged."""

LONGEST_LINE = 1 << 20
"""Bytes of one line; a longer one is no telemetry, and only its beginning is looked at."""

PIECE = 1 << 17
"""Bytes of a gzip file that are unpacked at once."""

MOST_BLANK = 1000
"""Empty lines in a row that are given as they are."""


def expand(paths: list[Path]) -> list[Path]:
    """Every file named, and every file in the folders named, in a fixed order. Raises UserError where there is none."""
    files: list[Path] = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            why = "no such file or folder" if error.errno == errno.ENOENT else f"cannot be read: {error.strerror}"
            raise UserError(f"{path}: {why}") from None
        if stat.S_ISDIR(mode):
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
            if not inside:
                raise UserError(f"{path}: the folder holds no files")
            files += inside
        elif stat.S_ISREG(mode):
            files.append(path)
        else:
            raise UserError(f"{path}: a pipe, socket or device; files are read more than once: save it to a file first")
    return list(dict.fromkeys(files))


def oddity(start: bytes) -> str:
    """What is odd with a text that begins so, and what to do; "" where nothing is."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16: save it as UTF-8"
    if b"\r" in start and b"\n" not in start and b"\0" not in start:
        return "its lines end in CR alone: save it with LF line ends (tr '\\r' '\\n')"
    return ""


def packed(path: Path) -> bool:
    """Whether the file is gzip, which can only be read from its beginning. Raises UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(2) == GZIP
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


class _Unpacked(RawIOBase):
    """What a gzip file holds, as far as it is whole: one that was cut off ends there."""

    def __init__(self, path: Path) -> None:
        self._file, self.cut = gzip.GzipFile(path, "rb"), False

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray) -> int:  # type: ignore[override]  # any buffer, which has a name from 3.12 on
        try:
            found = self._file.read1(len(into))
        except EOFError:
            self.cut, found = True, b""
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


def cut_off(path: Path) -> bool:
    """Whether the file is gzip and ends before its end; reads all of it. Raises UserError where it cannot be read."""
    if not packed(path):
        return False
    with _Unpacked(path) as file:
        try:
            while file.read(PIECE):
                pass
        except DAMAGED as error:
            raise UserError(f"{path}: damaged: {error}") from None
        return file.cut


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where it is gzip; of gzip that was cut off, what was whole. Raises UserError where it
    cannot be opened."""
    try:
        return BufferedReader(cast(RawIOBase, _Unpacked(path)), PIECE) if packed(path) else path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes, unpacked. Raises UserError where it cannot be read."""
    with open_bytes(path) as file:
        try:
            return file.read(size)
        except DAMAGED as error:
            raise UserError(f"{path}: cannot be read: {error}") from None


def tail(path: Path, size: int = 1 << 16) -> bytes:
    """The last bytes; of a gzip file, which has no end to go to, none. Raises UserError where it cannot be read."""
    if packed(path):
        return b""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read(size)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def lines(path: Path, blank: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The file's lines without their ends. A damaged gzip stream ends where the damage begins, with a UserError; one
    that was cut off ends with its last whole line (`cut_off` tells).

    After MOST_BLANK empty lines in a row the rest of them are left out, and `blank` is told how many these are; numbers
    of lines after them are too low by as many.
    """
    with open_bytes(path) as file:
        empty = 0
        try:
            while line := file.readline(LONGEST_LINE):
                bare = line.rstrip(b"\r\n")
                if len(bare) == len(line) < LONGEST_LINE and _is_cut(file):
                    return  # half a line: half a number is another number
                yield bare
                empty = 0 if bare else empty + 1
                if empty >= MOST_BLANK and (gone := _leave_out_blank(file)):
                    blank(gone)
        except DAMAGED as error:
            raise UserError(f"{path}: damaged: {error}") from None


def _is_cut(file: IO[bytes]) -> bool:
    raw = getattr(file, "raw", None)
    return isinstance(raw, _Unpacked) and raw.cut


def _leave_out_blank(file: IO[bytes]) -> int:
    """Go past line ends, a buffer at a time; returns how many lines these were."""
    gone = 0
    while ahead := cast(BufferedReader, file).peek(1):
        blank = len(ahead) - len(ahead.lstrip(b"\r\n"))
        if not blank:
            break
        gone += file.read(blank).count(b"\n")
    return gone
