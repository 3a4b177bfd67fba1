"""What the HTTP interface must know of a statement before the engine runs it.

The engine parses SQL itself and is the judge of it; here only its outline is read: the first word, the FORMAT clause,
where the rows of an INSERT begin, and the few things that may not come from the network.
"""

import re
from collections.abc import Iterator

import msgspec

from storage.engine.errors import NOT_IMPLEMENTED, SYNTAX_ERROR, ClickHouseError
from storage.engine.forbidden import Watch

_TOKEN = re.compile(
    rb"(?P<skip>\s++|--[^\n]*+|\#[\ !][^\n]*+|/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+(?:\*/|\Z))"
    rb"|(?P<quoted>'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.|\"\")*+(?:\"|\\?\Z)"
    rb"|`(?:[^`\\]++|\\.|``)*+(?:`|\\?\Z)|\$(\w*)\$.*?\$\3\$)"
    rb"|(?P<word>[A-Za-z_][\w$]*+)"
    rb"|(?P<strange>/\*|[^\t-\r -~])"
    rb"|(?P<other>\d\w*+|.)",
    re.DOTALL,
)
"""Tokens as the engine's lexer cuts them, or else what is hidden in them from here would be seen there. `strange` is
refused: a comment in a comment, and beyond ASCII the engine's further quotes, blanks and signs. What is not closed
goes to the end: there may be more behind the text."""

_AFTER_FORMAT = frozenset({b"SETTINGS", b"INTO"})
_ANSWERING = frozenset(
    {"SELECT", "WITH", "FROM", "(", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK", "KILL", "VALUES"}
)
_OWN = frozenset({"SET", "USE"})
"""They change the request's session, and nothing else."""

_ROWS = frozenset({"SELECT", "WITH", "FROM", "("})


class Statement(msgspec.Struct, frozen=True):
    """The outline of one statement.

    `keyword` is its first word in capitals, "" for nothing at all. `format` is what it names itself, if it does, and
    byte `output_at` of the text is where its output clauses stand or would stand. `insert` is set for an INSERT that is
    followed by rows: its text without FORMAT or VALUES; the rows begin at byte `data_at` of the text that was read.
    """

    keyword: str
    format: str | None = None
    insert: bytes | None = None
    data_at: int = 0
    output_at: int = 0
    totals: bool = False

    @property
    def answers(self) -> bool:
        """Whether it has a result, be it of no rows."""
        return self.keyword in _ANSWERING

    @property
    def reads(self) -> bool:
        """Whether it only reads, and may take long: it must not hold up what writes or controls."""
        return self.answers and self.keyword != "KILL"

    @property
    def harmless(self) -> bool:
        """Whether a read-only request may send it: readonly of the engine lets KILL and temporary tables pass."""
        return self.reads or self.keyword in _OWN

    @property
    def streamable(self) -> bool:
        """Whether the engine can hand over its result block by block: totals are no block."""
        return self.keyword in _ROWS and not self.totals

    @property
    def of_rows(self) -> bool:
        """Whether its result may be of any length."""
        return self.keyword in _ROWS


def outline(text: bytes) -> Statement:
    """Read the outline of `text`, one statement and, behind an INSERT, perhaps its rows.

    Raises ClickHouseError for several statements, and for what would read or write files or memory of this process.

    >>> outline(b"SELECT 1 FORMAT JSON").format
    'JSON'
    >>> outline(b"INSERT INTO t (a) FORMAT CSV\\n1\\n")
    Statement(keyword='INSERT', format='CSV', insert=b'INSERT INTO t (a) ', data_at=29)
    """
    tokens = _tokens(text)
    first = next(tokens, None)
    if first is None:
        return Statement("")
    keyword = first[0].decode("ascii", "replace").upper()
    if keyword == "INSERT":
        return _insert(text, tokens)
    return _output(text, keyword, tokens, first)


_Token = tuple[bytes, int, int, bool]
"""Its bytes, where it begins and ends, and whether it is a bare word."""


def _tokens(text: bytes) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found.lastgroup == "strange":
            raise ClickHouseError(SYNTAX_ERROR, _strange(text, found.start()))
        if found.lastgroup != "skip" and found["skip"] is None:
            yield found[0], found.start(), found.end(), found["word"] is not None


def _strange(text: bytes, at: int) -> str:
    if text[at : at + 1] == b"/":
        return "A comment in a comment is not allowed"
    sign = text[at : at + 4].decode("utf-8", "replace")[0]
    return f"{sign!r} is not allowed outside of quotes: write ASCII quotes, blanks and signs"


def _output(text: bytes, keyword: str, tokens: Iterator[_Token], first: _Token) -> Statement:
    depth, end, totals = int(first[0] == b"("), -1, False
    format, format_at, word_at, settled = None, -1, -1, False
    previous, watch = first[0].upper(), Watch(keyword)
    watch.see(first[0])
    for token, start, _, is_word in tokens:
        word = token.upper() if is_word else token
        if end >= 0 and token != b";":
            raise ClickHouseError(SYNTAX_ERROR, "Multi-statements are not allowed: send one statement a request")
        watch.see(token)
        depth += (token == b"(") - (token == b")")
        totals = totals or (previous == b"WITH" and word == b"TOTALS")
        if depth == 0:
            if token == b";":
                end = start if end < 0 else end
            elif previous == b"INSERT" and word == b"INTO" and keyword == "WITH":
                keyword = "INSERT"
            elif previous == b"FORMAT" and is_word and not settled:
                format, format_at = token.decode("ascii"), word_at
            elif format is not None and not settled:
                # `SELECT format x FROM t` is a column with an alias: a clause has nothing but these behind it.
                settled = word in _AFTER_FORMAT
                format = format if settled else None
            word_at = start if word == b"FORMAT" else word_at
        previous = word
    output_at = format_at if format else end if end >= 0 else len(text)
    return Statement(keyword, format, output_at=output_at, totals=totals)


def _insert(text: bytes, tokens: Iterator[_Token]) -> Statement:
    depth, previous, named, format_at, columns, watch = 0, b"INSERT", False, -1, _Columns(), Watch("INSERT")
    for token, start, end, is_word in tokens:
        word = token.upper() if is_word else token
        depth += (token in (b"(", b"{")) - (token in (b")", b"}"))
        if named or previous == b"FUNCTION":
            # VALUES is the table function elsewhere only.
            watch.see(b"" if word == b"VALUES" else token, listed=columns.see(token))
        if depth == 0 and is_word and named and previous != b".":
            if previous == b"FORMAT" and format_at >= 0:
                if word == b"VALUES":
                    _rest(tokens, watch)
                return Statement("INSERT", token.decode("ascii"), text[:format_at], _rows(text, end))
            if word == b"FORMAT":
                format_at = start
            elif word == b"VALUES":
                _rest(tokens, watch)
                return Statement("INSERT", "Values", text[:start], end)
            elif word in (b"SELECT", b"WITH"):
                _rest(tokens, watch)
                return Statement("INSERT")
        # The table's own name may be any word, also a forbidden one.
        named = named or word not in (b"INTO", b"TABLE", b"FUNCTION")
        previous = word
    return Statement("INSERT")


class _Columns:
    """The list of columns behind a table's name: as long as names and signs take turns, nothing is called there."""

    def __init__(self) -> None:
        self._inside: bool | None = None
        self._name_next = True

    def see(self, token: bytes) -> bool:
        """Whether the token is one of the names."""
        if not self._inside:
            if self._inside is None and token == b"(":
                self._inside = True
            return False
        is_name = token not in (b",", b".", b")")
        self._inside = token != b")" and is_name == self._name_next
        self._name_next = not is_name
        return self._inside and is_name


def _rest(tokens: Iterator[_Token], watch: Watch) -> None:
    """Watch what follows: rows, which may be expressions, or what they are selected from."""
    previous = b""
    for token, _, _, is_word in tokens:
        word = token.upper() if is_word else token
        watch.see(token)
        if previous == b"INPUT" and word == b"(":
            # The engine takes such an INSERT, and stores nothing.
            raise ClickHouseError(NOT_IMPLEMENTED, "Table function input is not supported: insert into a table first")
        previous = word


def _rows(text: bytes, end: int) -> int:
    """Where rows begin behind a FORMAT clause: after its line end, or after the blanks where it has none."""
    if text[end : end + 1] == b";":
        raise ClickHouseError(SYNTAX_ERROR, "Excessive ';' before the rows of an INSERT")
    while end < len(text) and text[end : end + 1] in b" \t\f":
        end += 1
    if text[end : end + 1] == b"\r":
        end += 1
    return end + (text[end : end + 1] == b"\n")
