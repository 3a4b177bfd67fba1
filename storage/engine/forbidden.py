"""What may not come from the network although the engine's grants let it pass.

The engine refuses the table functions and table engines that reach files, the network or other databases by its
grants (`folder`), and settings that name files by its constraints. What is here has neither: it is found by its name,
however it is quoted. Where the kernel can, it holds what is said here as well (`confine`).
"""

import re
from collections import deque
from collections.abc import Iterable

from storage.engine.errors import ACCESS_DENIED, INTO_OUTFILE_NOT_ALLOWED, ClickHouseError

CALLED = frozenset({"python", "arrowstream", "executable", "executablepool", "disk", "datalakecatalog", "hdfs"}) | {
    "catboostevaluate"
}
"""Refused in front of a parenthesis, in any spelling: objects of this process, programs, folders, catalogues."""

ENGINES = CALLED | {"filelog", "queryrunner", "embeddedrocksdb"}
"""Refused as the engine of a table: `queryrunner` runs the SQL in its rows, which nobody has looked at beforehand, and
`embeddedrocksdb` takes any folder."""

STRUCTURED = frozenset({"values", "sqlstandardvalues", "generaterandom", "null", "input"})
"""Table functions whose first argument may be the structure, in which `ALIAS`, `DEFAULT` ... have any expression."""

_PLAIN = re.compile(rb"'(?!.*(?:alias|default|materialized|ephemeral))[^'\\]*'|\d\w*", re.DOTALL | re.IGNORECASE)
"""A first argument of these without expressions: names and types, or a number."""

EVALUATING = "input_format_values_"
"""Settings that let rows be expressions; of long rows `answer.Work.settings` takes that away."""

FILE = "file"
"""The scalar function. It has one spelling, and works without a parenthesis too: `APPLY file`, `arrayMap(file, ..)`."""


def name_of(token: bytes) -> str:
    """The identifier that a token is, without its quotes; "" for literals and signs.

    >>> name_of(b"`file`"), name_of(b"File"), name_of(b"'file'")
    ('file', 'File', '')
    """
    text = token.decode("utf-8", "replace")
    if text[:1] not in ("`", '"'):
        return text if text[:1].isalpha() or text[:1] == "_" else ""
    return text[1:-1].replace(text[0] * 2, text[0])


class Watch:
    """Reads the tokens of one statement that begins with `keyword`, and raises ClickHouseError at what may not be."""

    def __init__(self, keyword: str) -> None:
        self._keyword = keyword
        self._last: deque[bytes] = deque((b"", b"", b""), maxlen=3)

    def see(self, token: bytes, *, listed: bool = False) -> None:
        """The next token, without blanks and comments; `listed` where it can only be one name of a list of columns."""
        called, opened, previous = self._last
        name, before = name_of(token), name_of(previous).lower()
        behind = name_of(opened if previous == b"=" else previous).lower()
        if previous.upper() == b"INTO" and token.upper() == b"OUTFILE":
            raise ClickHouseError(INTO_OUTFILE_NOT_ALLOWED, "INTO OUTFILE is not allowed: redirect the client's output")
        if opened.upper() == b"FROM" and previous.upper() == b"INFILE" and token[:1] in (b"'", b"$"):
            raise _denied("FROM INFILE is not allowed: send the rows in the request's body")
        if token[:1] in (b"`", b'"') and b"\\" in token:
            # The engine knows more escapes than one would think of: `fi\Nle` is file.
            raise _denied("A backslash in a quoted name is not allowed")
        if token == b"(" and before in CALLED:
            raise _denied(f"{name_of(previous)} is not allowed: it reaches beyond the database")
        if name.lower() in ENGINES and behind == "engine":
            raise _denied(f"Engine {name} is not allowed: it reaches beyond the database")
        if self._keyword == "INSERT" and name.lower().startswith(EVALUATING):
            raise _denied(f"SETTINGS {name} is not allowed in an INSERT: send it with the request")
        column = previous == b"." and bool(name_of(opened))
        called_column = opened == b"." and bool(name_of(called))
        if (name == FILE and not column and not listed) or (token == b"(" and before == FILE and not called_column):
            raise _denied("Function file is not allowed: write a column of this name as table.file")
        if self._keyword == "ATTACH" and before == "from" and token[:1] == b"'":
            raise _denied("ATTACH FROM is not allowed: it takes files from outside the database")
        if name.startswith("param_") and (self._keyword == "SET" or before == "settings"):
            raise _denied(f"SET {name} is not allowed: send parameters with the request")
        if opened == b"(" and name_of(called).lower() == "format" and not _pattern(previous, token):
            # Its structure is a string, and may hold any expression as a DEFAULT.
            raise _denied("Table function format is not allowed: insert the rows into a temporary table")
        if opened == b"(" and name_of(called).lower() in STRUCTURED and not _structure(previous, token):
            raise _denied(f"Table function {name_of(called)} takes names and types first, as one literal")
        self._last.append(token)


def check_parameters(text: bytes, values: Iterable[str]) -> None:
    """Raise ClickHouseError where a parameter puts a forbidden name into a statement."""
    if b"identifier" in text.lower() and FILE in values:
        raise _denied("Parameter with the identifier file is not allowed")


def _pattern(argument: bytes, following: bytes) -> bool:
    """Whether this is the first argument of the scalar function `format`."""
    return argument[:1] == b"'" and b"{" in argument and following in (b",", b")")


def _structure(argument: bytes, following: bytes) -> bool:
    """Whether this first argument has no expression, or is none."""
    return argument == b")" or (_PLAIN.fullmatch(argument) is not None and following in (b",", b")"))


def _denied(text: str) -> ClickHouseError:
    return ClickHouseError(ACCESS_DENIED, text)
