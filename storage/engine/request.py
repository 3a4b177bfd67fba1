"""A request to ClickHouse's HTTP interface, read from its URL, headers and form: pure, no socket and no engine."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from storage.engine.compress import accepted
from storage.engine.errors import BAD_ARGUMENTS, NOT_IMPLEMENTED, UNKNOWN_FORMAT, UNKNOWN_SETTING, ClickHouseError
from storage.engine.formats import DEFAULT

SESSION_TIMEOUT_S = 60
SESSION_TIMEOUT_MAX_S = 3600

_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")

_FORMAT = re.compile(r"[A-Za-z0-9]+")

_HERE = frozenset({"query", "query_id", "user", "password", "database", "default_format", "wait_end_of_query"}) | {
    "session_id",
    "session_timeout",
    "session_check",
    "close_session",
}
_WITHOUT_MEANING = frozenset({"quota_key", "buffer_size", "client_protocol_version", "role", "stacktrace"})
"""Of a server that this engine is not: one user without roles and quotas, and the newest Native format only."""


class Session(msgspec.Struct, frozen=True):
    """The session that a request belongs to: its settings and temporary tables outlive the request."""

    id: str
    timeout_s: int = SESSION_TIMEOUT_S
    must_exist: bool = False
    close: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request: what to run it with. `query` is the URL's part of the statement, the body follows it."""

    query: bytes
    format: str
    settings: dict[str, str]
    params: dict[str, str]
    session: Session | None
    read_only: bool
    whole: bool
    """Answer only when the whole result is there, so that an error has its own HTTP status."""
    answer_encoding: str
    body_encoding: str


def pairs_of(query_string: str) -> list[tuple[str, str]]:
    """The URL's parameters; bytes that are no UTF-8 come as surrogates, to be had back for the statement."""
    return parse_qsl(query_string, keep_blank_values=True, errors="surrogateescape", max_num_fields=10_000)


def call_of(method: str, pairs: Iterable[tuple[str, str]], headers: Mapping[str, str]) -> Call:
    """The request in `pairs` (URL and form, later ones win) and `headers`.

    Raises ClickHouseError for what makes no sense and for ClickHouse's own block compression.
    """
    given = dict(pairs)
    for name in ("compress", "decompress"):
        if given.pop(name, "0") not in ("0", "", "false"):
            raise ClickHouseError(
                NOT_IMPLEMENTED,
                f"Parameter {name} is not supported by the embedded engine: use Accept-Encoding and Content-Encoding",
            )
    params = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
    settings = {
        name: value
        for name, value in given.items()
        if name not in _HERE and name not in _WITHOUT_MEANING and not name.startswith("param_")
    }
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise ClickHouseError(UNKNOWN_SETTING, f"Unknown setting {_shown(name)}")
    for name, value in (*settings.items(), *params.items(), *((n, given[n]) for n in _HERE - {"query"} if n in given)):
        if not value.isprintable() and _broken(value):
            raise ClickHouseError(BAD_ARGUMENTS, f"Parameter {name} is not UTF-8")
    database = given.get("database") or headers.get("X-ClickHouse-Database", "")
    if database:
        settings["database"] = database
    format = given.get("default_format") or headers.get("X-ClickHouse-Format") or DEFAULT
    if not _FORMAT.fullmatch(format):
        raise ClickHouseError(UNKNOWN_FORMAT, f"Unknown format {_shown(format)}")
    return Call(
        query=given.get("query", "").encode("utf-8", "surrogateescape"),
        format=format,
        settings=settings,
        params=params,
        session=_session(given),
        read_only=method in ("GET", "HEAD"),
        whole=_flag(given, "wait_end_of_query"),
        answer_encoding=accepted(headers.get("Accept-Encoding", ""))
        if given.get("enable_http_compression", "1") not in ("0", "false")
        else "",
        body_encoding=headers.get("Content-Encoding", "").strip().lower(),
    )


_Seconds = Annotated[int, Meta(ge=1, le=SESSION_TIMEOUT_MAX_S)]


def _session(given: Mapping[str, str]) -> Session | None:
    if not given.get("session_id"):
        return None
    try:
        timeout_s = msgspec.convert(given.get("session_timeout", SESSION_TIMEOUT_S), _Seconds, strict=False)
    except msgspec.ValidationError:
        raise ClickHouseError(
            (374, "INVALID_SESSION_TIMEOUT"), f"session_timeout is seconds, 1 to {SESSION_TIMEOUT_MAX_S}"
        ) from None
    return Session(given["session_id"], timeout_s, _flag(given, "session_check"), _flag(given, "close_session"))


def _flag(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "0") not in ("0", "", "false")


def _broken(value: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in value)


def _shown(name: str) -> str:
    return repr(name.encode("utf-8", "replace").decode())


def set_statement(values: Mapping[str, str], prefix: str = "") -> str:
    r"""`SET` for settings, or with prefix `param_` for query parameters.

    >>> set_statement({"max_threads": "2", "log_comment": "it's"})
    "SET max_threads = '2', log_comment = 'it\\'s'"
    """
    return "SET " + ", ".join(f"{prefix}{name} = {quoted(value)}" for name, value in values.items())


def quoted(value: str) -> str:
    """`value` as a string literal of ClickHouse's SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
