"""ClickHouse's errors: code and name from the texts that the embedded engine raises, and how HTTP carries them."""

import re

NOT_IMPLEMENTED = (48, "NOT_IMPLEMENTED")
BAD_ARGUMENTS = (36, "BAD_ARGUMENTS")
SYNTAX_ERROR = (62, "SYNTAX_ERROR")
CANNOT_DECOMPRESS = (271, "CANNOT_DECOMPRESS")
UNKNOWN_FORMAT = (73, "UNKNOWN_FORMAT")
UNKNOWN_COMPRESSION_METHOD = (89, "UNKNOWN_COMPRESSION_METHOD")
UNKNOWN_SETTING = (115, "UNKNOWN_SETTING")
TOO_MANY_SIMULTANEOUS_QUERIES = (202, "TOO_MANY_SIMULTANEOUS_QUERIES")
QUERY_IS_TOO_LARGE = (229, "QUERY_IS_TOO_LARGE")
NOT_ENOUGH_SPACE = (243, "NOT_ENOUGH_SPACE")
INTO_OUTFILE_NOT_ALLOWED = (358, "INTO_OUTFILE_NOT_ALLOWED")
SESSION_NOT_FOUND = (372, "SESSION_NOT_FOUND")
SESSION_IS_LOCKED = (373, "SESSION_IS_LOCKED")
ACCESS_DENIED = (497, "ACCESS_DENIED")
AUTHENTICATION_FAILED = (516, "AUTHENTICATION_FAILED")
UNKNOWN_EXCEPTION = (1002, "UNKNOWN_EXCEPTION")

READONLY_CODE = 164
READONLY = (READONLY_CODE, "READONLY")

_CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")
_NAME = re.compile(r"\(([A-Z][A-Z0-9_]+)\)\.?\s*$")
_VERSION = re.compile(r"\s*\(version (?:[^()]|\([^()]*\))*\)\.?")


class ClickHouseError(Exception):
    """A refusal with ClickHouse's `code` and `name`; `text` is the sentence without either."""

    def __init__(self, kind: tuple[int, str], text: str) -> None:
        super().__init__(text)
        self.code, self.name = kind
        self.text = text

    def line(self, version: str) -> str:
        """What ClickHouse's HTTP interface writes of it."""
        return f"Code: {self.code}. DB::Exception: {self.text} ({self.name}) (version {version})\n"


def from_engine(message: str) -> ClickHouseError:
    """The error in an exception's text. Of nested ones the innermost: it is the one that says what is wrong.

    >>> error = from_engine("Streaming query failed: Code: 60. DB::Exception: No t. (UNKNOWN_TABLE) (version 26.9.2.1)")
    >>> error.code, error.name, error.text
    (60, 'UNKNOWN_TABLE', 'No t.')
    """
    codes = list(_CODE.finditer(message))
    if not codes:
        return ClickHouseError(UNKNOWN_EXCEPTION, message.strip())
    rest = _VERSION.sub("", message[codes[-1].end() :]).strip()
    name = ""
    while found := _NAME.search(rest):
        name = name or found[1]
        rest = rest[: found.start()].rstrip()
    return ClickHouseError((int(codes[-1][1]), name or "UNKNOWN"), rest)


def status(code: int) -> int:
    """The HTTP status of an error, as ClickHouse's own server chooses it."""
    return _STATUS.get(code, 500)


_STATUS = {
    194: 401,  # REQUIRED_PASSWORD
    **dict.fromkeys((192, 193, 512, 516), 403),
    **dict.fromkeys((6, 8, 15, 25, 26, 27, 36, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376), 400),
    **dict.fromkeys((427, 441, 675, 676), 400),
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511), 404),  # UNKNOWN_*
    271: 400,  # CANNOT_DECOMPRESS
    159: 408,  # TIMEOUT_EXCEEDED
    229: 413,  # QUERY_IS_TOO_LARGE
    48: 501,  # NOT_IMPLEMENTED
    **dict.fromkeys((76, 209, 439), 503),
}


def late(line: str, tag: str) -> bytes:
    """An error after the first byte of an answer: a block that a client finds by the `tag` from the headers."""
    text = line.encode()
    return b"\r\n__exception__\r\n%b\r\n%b%d %b\r\n__exception__\r\n" % (tag.encode(), text, len(text), tag.encode())
