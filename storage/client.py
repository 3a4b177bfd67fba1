"""The one way to a ClickHouse client: our settings, and errors that a person can act on.

`async_insert=0`: batches are ours, a return means durable. No session: ClickHouse refuses parallel queries in one.
Any number of days in one insert: a replay, or a clock that is wrong, must not stop the writer. Times are UTC and say
so.
"""

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from runtime.errors import UserError
from runtime.settings import ClickHouse

__all__ = ["Client", "StorageUnreachable", "ask", "explained", "get_client", "one_line"]

SETTINGS = {"async_insert": 0, "max_partitions_per_insert_block": 0}

REFUSED = frozenset({192, 193, 194, 497, 516})
"""UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED."""

NO_DATABASE = 81


class StorageUnreachable(UserError):
    """Nothing answers as ClickHouse at the address: it may come back."""


def get_client(settings: ClickHouse, *, database: bool = True, timeout_s: float = 60.0) -> Client:
    """A client on the settings' database, or on none with `database=False` (before it is made).

    Raises StorageUnreachable where nothing answers, UserError where user, password or database are wrong.
    """
    try:
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
            connect_timeout=5,
            send_receive_timeout=int(timeout_s),
            dedicated_pool=True,
        )
    except Error as error:
        raise explained(error, settings) from None


def ask(client: Client, sql: str, form: str) -> bytes:
    """The answer to `sql` in ClickHouse's format `form`, read-only; UserError in one line where it has none."""
    try:
        return client.raw_query(sql, fmt=form, settings={"readonly": 2})
    except Error as error:
        raise UserError(one_line(error)) from None


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
    return StorageUnreachable(
        f"{where} does not answer: start it, or set LOCKSTEP_CLICKHOUSE_HOST and _PORT ({one_line(error)})"
    )


def one_line(error: Exception) -> str:
    """The first line of the error's text, short enough to read."""
    text = str(error).strip().splitlines() or [type(error).__name__]
    return text[0][:300]
