"""What may not come from the network although the engine's grants let it pass.

The engine refuses the table functions and table engines that reach files, the network or other databases by its
grants (`folder`), and settings that name files by its constraints. What is here has neither: it is found by its name,
however it is quoted.
"""

import re
from collections import deque
from collections.abc import Iterable

from storage.engine.errors import ACCESS_DENIED, INTO_OUTFILE_NOT_ALLOWED, ClickHouseError

CALLED = frozenset({"python", "executable", "executablepool", "disk", "datalakecatalog", "catboostevaluate", "hdfs"})
"""Refused in front of a parenthesis, in any spelling: objects of this process, programs, folders, catalogues."""

ENGINES = CALLED | {"filelog", "queryrunner"}
"""Refused as the engine of a table: `queryrunner` runs the SQL in its rows, which nobody has looked at beforehand."""

EVALUATING = "input_format_values_"
"""Settings that let rows be expressions; of long rows `answer.Work.settings` takes that away."""

FILE = "file"
"""The scalar function. It has one spelling, and works without a parenthesis too: `APPLY file`, `arrayMap(file, ..)`."""

_ESCAPED = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(.)", re.DOTALL)


def name_of(token: bytes) -> str:
    r"""The identifier that a token is, without its quotes; "" for literals and signs.

    >>> name_of(b"`f\\x69le`"), name_of(b"File"), name_of(b"'file'")
    ('file', 'File', '')
    """
    text = token.decode("utf-8", "replace")
    if text[:1] not in ("`", '"'):
        return text if text[:1].isalpha() or text[:1] == "_" else ""
    inner = text[1:-1].replace(text[0] * 2, text[0])
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], inner)


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
        if token == b"(" and before in CALLED:
            raise _denied(f"{name_of(previous)} is not allowed: it reaches beyond the database")
        if name.lower() in ENGINES and behind == "engine":
            raise _denied(f"Engine {name} is not allowed: it reaches beyond the database")
        if self._keyword == "INSERT" and name.lower().startswith(EVALUATING):
            raise _denied(f"SETTINGS {name} is not allowed in an INSERT: send it with the request")
        if (name == FILE and previous != b"." and not listed) or (token == b"(" and before == FILE and opened != b"."):
            raise _denied("Function file is not allowed: write a column of this name as table.file")
        if self._keyword == "ATTACH" and before == "from" and token[:1] == b"'":
            raise _denied("ATTACH FROM is not allowed: it takes files from outside the database")
        if name.startswith("param_") and (self._keyword == "SET" or before == "settings"):
            raise _denied(f"SET {name} is not allowed: send parameters with the request")
        if opened == b"(" and name_of(called).lower() == "format" and not _pattern(previous, token):
            # Its structure is a string, and may hold any expression as a DEFAULT.
            raise _denied("Table function format is not allowed: insert the rows into a temporary table")
        self._last.append(token)


def check_parameters(text: bytes, values: Iterable[str]) -> None:
    """Raise ClickHouseError where a parameter puts a forbidden name into a statement."""
    if b"identifier" in text.lower() and FILE in values:
        raise _denied("Parameter with the identifier file is not allowed")


def _pattern(argument: bytes, following: bytes) -> bool:
    """Whether this is the first argument of the scalar function `format`."""
    return argument[:1] == b"'" and b"{" in argument and following in (b",", b")")


def _denied(text: str) -> ClickHouseError:
    return ClickHouseError(ACCESS_DENIED, text)
