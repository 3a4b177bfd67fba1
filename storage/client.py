"""The one way to a ClickHouse client: our settings, and errors that a person can act on.

`async_insert=0`: batches are ours, a return means durable. No session: ClickHouse refuses parallel queries in one.
Any number of days in one insert: a replay, or a clock that is wrong, must not stop the writer. An insert is not merged
with itself before it is stored: what replaces itself is for merges and for FINAL, and it was half of the price. Times
are UTC and say so.
"""

import contextlib
import logging
import re
import ssl
from collections.abc import Iterator

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3.util import Timeout

from runtime.errors import UserError
from runtime.patience import waiting_for
from runtime.settings import ClickHouse

__all__ = ["Client", "StorageUnreachable", "ask", "explained", "get_client", "one_line", "working"]

SETTINGS = {"async_insert": 0, "max_partitions_per_insert_block": 0, "optimize_on_insert": 0}

# Its words on a failed request ("Unexpected Http Driver Exception") say less than the error that we explain.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)

log = logging.getLogger(__name__)

REFUSED = frozenset({192, 193, 194, 497, 516})
"""UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED."""

NO_DATABASE = 81

_FRAME = re.compile(r"^Received ClickHouse exception, code: \d+, server response: | \(for url [^)]*\)$")
"""What the driver puts around the server's own words."""

_HTTP_STATUS = re.compile(r"HTTP status (\d{3})")

CONNECT_S = 5
HANDSHAKE_S = 10.0
"""The first questions of a client are small; what does not answer them in this time is no ClickHouse, or not well."""


class StorageUnreachable(UserError):
    """Nothing answers as ClickHouse at the address: it may come back."""


def get_client(settings: ClickHouse, *, database: bool = True, timeout_s: float = 60.0) -> Client:
    """A client on the settings' database, or on none with `database=False` (before it is made).

    Raises StorageUnreachable where nothing answers within HANDSHAKE_S, UserError where user, password or database are
    wrong. `timeout_s` is what each later request may take. A wait is logged.
    """
    try:
        with waiting_for(f"ClickHouse at {settings.clickhouse_host}:{settings.clickhouse_port}", log.warning):
            client = _connected(settings, database, min(HANDSHAKE_S, timeout_s))
    except Error as error:
        raise explained(error, settings) from None
    if isinstance(client, HttpClient):
        client.timeout = Timeout(connect=CONNECT_S, read=timeout_s)
    return client


def _connected(settings: ClickHouse, database: bool, patience_s: float) -> Client:
    return clickhouse_connect.get_client(
        host=settings.clickhouse_host,
        port=settings.clickhouse_port,
        username=settings.clickhouse_user,
        password=settings.clickhouse_password,
        secure=settings.clickhouse_secure,
        database=settings.clickhouse_database if database else "__default__",
        settings=SETTINGS,
        client_name="lockstep",
        autogenerate_session_id=False,
        tz_mode="aware",
        connect_timeout=CONNECT_S,
        send_receive_timeout=max(1, round(patience_s)),
        dedicated_pool=True,
    )


def ask(client: Client, sql: str, form: str) -> bytes:
    """The answer to `sql` in ClickHouse's format `form`, read-only; UserError in one line where it has none."""
    try:
        return client.raw_query(sql, fmt=form, settings={"readonly": 2})
    except Error as error:
        if error.code is None:
            raise StorageUnreachable(f"ClickHouse does not answer any more: {one_line(error)}") from None
        raise UserError(one_line(error)) from None


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Errors of the driver as UserError in one line that begins with `what`."""
    try:
        yield
    except Error as error:
        if error.code is None:
            raise StorageUnreachable(f"{what}: ClickHouse does not answer any more: {one_line(error)}") from None
        raise UserError(f"{what}: {one_line(error)}") from None


def explained(error: Error, settings: ClickHouse) -> UserError:
    """`error` in one line: what, where, what to do."""
    where = f"ClickHouse at {settings.clickhouse_host}:{settings.clickhouse_port}"
    if error.code in REFUSED:
        return UserError(
            f"{where} refuses user {settings.clickhouse_user!r}: "
            "check LOCKSTEP_CLICKHOUSE_USER and LOCKSTEP_CLICKHOUSE_PASSWORD"
        )
    if error.code == NO_DATABASE:
        return UserError(
            f"{where} has no database {settings.clickhouse_database!r}: make it with `lockstep storage migrate`"
        )
    if error.code is not None:
        return UserError(f"{where}: {one_line(error)}")
    if status := _HTTP_STATUS.search(str(error)):
        return StorageUnreachable(
            f"what answers at {settings.clickhouse_host}:{settings.clickhouse_port} is not ClickHouse's HTTP "
            f"interface (status {status[1]}): set LOCKSTEP_CLICKHOUSE_HOST and LOCKSTEP_CLICKHOUSE_PORT"
        )
    return StorageUnreachable(
        f"{where} does not answer ({reason(error)}): start it, or set LOCKSTEP_CLICKHOUSE_HOST and "
        "LOCKSTEP_CLICKHOUSE_PORT"
    )


def reason(error: BaseException) -> str:
    """What the operating system said at the bottom of `error`'s causes ("Connection refused"), not what a library
    made of it."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while isinstance(cause, BaseException) and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
    for cause in reversed(seen):
        if isinstance(cause, TimeoutError) or "timed out" in str(cause).lower():
            return "timed out"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or cause}; LOCKSTEP_CLICKHOUSE_SECURE says whether it speaks TLS"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return _first_line(error)


def one_line(error: Exception) -> str:
    """The first line of the error's text, short enough to read; the reason where no ClickHouse answered."""
    return reason(error) if isinstance(error, Error) and error.code is None else _first_line(error)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return _FRAME.sub("", text[0])[:300]
