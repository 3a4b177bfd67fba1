"""Asking for people: read-only, a word beforehand where a question reads everything, progress while it runs."""

import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from runtime.errors import UserError
from storage.client import StorageUnreachable, one_line
from storage.engine.errors import ClickHouseError
from storage.engine.sql import outline

READ_ONLY = {"readonly": 2}

TIME_LIMIT = 159
"""TIMEOUT_EXCEEDED."""

FIRST_WORD_S = 2.0
"""A question that takes less says nothing while it runs."""

LARGE_ROWS = 10_000_000
"""A question that reads all of a table smaller than this is over before one has read a hint."""

_GRANULE_ROWS = 8192
_READS = re.compile(r"ReadFromMergeTree \((?P<table>[^)]+)\)")
_GRANULES = re.compile(r"Granules: (?P<read>\d+)/(?P<all>\d+)")
_EXPLAINABLE = re.compile(r"\s*(SELECT|WITH|FROM)\b", re.IGNORECASE)


def answer(
    client: Client,
    another: Callable[[], Client],
    sql: str,
    form: str,
    parameters: Mapping[str, str],
    say: Callable[[str], None] | None = None,
) -> Iterator[bytes]:
    """The answer in ClickHouse's format `form`, piece by piece; UserError in one line where it has none.

    `say` hears of progress, asked for through a client of its own (`another`).
    """
    ended = threading.Event()
    mark = f"lockstep query {uuid.uuid4().hex}"
    if say is not None:
        threading.Thread(target=_tell, args=(another, mark, say, ended), daemon=True).start()
    try:
        settings = {**READ_ONLY, "log_comment": mark}
        with client.raw_stream(sql, fmt=form, parameters=dict(parameters) or None, settings=settings) as pieces:
            while piece := pieces.read(1 << 20):
                yield piece
    except Error as error:
        raise failed(error) from None
    finally:
        ended.set()


def check(sql: str) -> None:
    """UserError in one line for what is no question, or says itself how its answer is written."""
    try:
        statement = outline(sql.encode("utf-8", "surrogateescape"))
    except ClickHouseError as error:
        raise UserError(error.text) from None
    if not statement.reads:
        raise UserError(
            f"queries only, and this begins with {statement.keyword or 'nothing'}: "
            "give SELECT, WITH, SHOW, DESCRIBE, EXPLAIN or EXISTS"
        )
    if statement.format is not None:
        raise UserError("give --format instead of a FORMAT clause: lockstep query --format json|csv|parquet|table")


def failed(error: Error) -> UserError:
    """What ended a question, in one line."""
    if error.code == TIME_LIMIT:
        return UserError(
            "the query ran into the time limit: read less (a cluster, a job, a day of ts), or raise it "
            "(LOCKSTEP_ENGINE_QUERY_TIME_S where the embedded engine is started, max_execution_time on a server)"
        )
    if error.code is None:
        return StorageUnreachable(f"ClickHouse does not answer any more: {one_line(error)}")
    return UserError(one_line(error))


def columns(client: Client, sql: str, parameters: Mapping[str, str]) -> list[str]:
    """The names of the answer's columns, without asking for it; none where only an answer would tell (SHOW)."""
    try:
        described = client.query(
            f"DESCRIBE ({sql.rstrip().rstrip(';')})", parameters=dict(parameters) or None, settings=READ_ONLY
        )
    except Error:
        return []
    return [str(row[0]) for row in described.result_rows]


def _tell(another: Callable[[], Client], mark: str, say: Callable[[str], None], ended: threading.Event) -> None:
    if ended.wait(FIRST_WORD_S):
        return
    try:
        client = another()
        while not ended.wait(1.0):
            found = client.query(
                "SELECT round(elapsed), read_rows, total_rows_approx, memory_usage FROM system.processes"
                " WHERE Settings['log_comment'] = {mark:String} AND query NOT LIKE '%system.processes%'",
                parameters={"mark": mark},
            )
            for elapsed_s, read, total, memory in found.result_rows:
                say(progress(elapsed_s, read, total, memory))
        client.close()
    except (Error, UserError):
        return  # who cannot be told of progress still gets the answer


def progress(elapsed_s: float, read_rows: int, total_rows: int, memory_bytes: int) -> str:
    """One line on a question that runs.

    >>> progress(12.0, 30_000_000, 120_000_000, 250 << 20)
    '12 s: 30.0 of about 120.0 million rows (25 %), 250 MiB'
    """
    of = f" of about {total_rows / 1e6:.1f}" if total_rows > read_rows else ""
    share = f" ({100 * read_rows // total_rows} %)" if total_rows > read_rows else ""
    return f"{elapsed_s:.0f} s: {read_rows / 1e6:.1f}{of} million rows{share}, {memory_bytes >> 20} MiB"


def whole_scans(client: Client, sql: str, parameters: Mapping[str, str], large_rows: int = LARGE_ROWS) -> list[str]:
    """A hint for each large table of which the question would read everything; none where it cannot be known."""
    if not _EXPLAINABLE.match(sql):
        return []
    try:
        plan = client.query(
            f"EXPLAIN indexes = 1 {sql.rstrip().rstrip(';')}", parameters=dict(parameters) or None, settings=READ_ONLY
        )
        scanned = read_whole([str(line) for (line,) in plan.result_rows], large_rows)
        return [_hint(client, table, rows) for table, rows in scanned.items()]
    except Error:
        return []  # the statement itself will say what is wrong with it


def read_whole(plan: list[str], large_rows: int = LARGE_ROWS) -> dict[str, int]:
    """Tables that a plan reads whole, with about how many rows, from EXPLAIN indexes = 1."""
    found: dict[str, int] = {}
    table, last = "", (0, 0)
    for line in [*plan, "ReadFromMergeTree (end)"]:
        if match := _READS.search(line):
            read, all_of_it = last
            if table and read == all_of_it and read * _GRANULE_ROWS >= large_rows:
                found[table] = read * _GRANULE_ROWS
            table, last = match["table"], (0, 0)
        elif match := _GRANULES.search(line):
            # The last index named is the last that was applied.
            last = (int(match["read"]), last[1] or int(match["all"]))
    return found


def _hint(client: Client, table: str, rows: int) -> str:
    key = client.query(
        "SELECT sorting_key FROM system.tables WHERE concat(database, '.', name) = {table:String}",
        parameters={"table": table},
    ).result_rows
    first = ", ".join(str(key[0][0]).split(", ")[:3]) if key else "its sort key"
    return f"this reads all of {table}, about {rows / 1e6:.0f} million rows: name {first}, or a day of ts"
