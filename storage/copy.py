"""One ClickHouse's history into another: from the embedded engine to a server, or back.

Rows travel as they are, in Native format, a table and day at a time. A copy that broke off is run again: rows replace
themselves by identity.
"""

from collections.abc import Callable, Generator

from clickhouse_connect.driver.client import Client

from runtime.errors import UserError
from storage.check import differences
from storage.client import working
from storage.ddl import MADE
from storage.roll import MARKS


def copy(source: Client, target: Client, say: Callable[[str], None] = lambda line: None) -> int:
    """Copy every table's rows; their number. Both databases are migrated to the same version: UserError otherwise."""
    for client, which in ((source, "source"), (target, "target")):
        if found := [d.text for d in differences(client, str(client.database)) if d.blocks_writer]:
            raise UserError(f"the {which} database is not up to date ({found[0]}): run `lockstep storage migrate`")
    copied = 0
    for table in [made.name for made in MADE] + [MARKS]:
        with working(f"copying {table}"):
            copied += _copy_table(source, target, table)
        say(f"{table}: done, {copied:,} rows so far")
    return copied


def _copy_table(source: Client, target: Client, table: str) -> int:
    parts = source.query(
        "SELECT partition_id, sum(rows) FROM system.parts WHERE database = currentDatabase() AND table = {table:String}"
        " AND active GROUP BY partition_id ORDER BY partition_id",
        parameters={"table": table},
    ).result_rows
    names = source.query(
        "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        " ORDER BY position",
        parameters={"table": table},
    ).result_rows
    chosen = ", ".join(f"`{name}`" for (name,) in names)
    for partition, _ in parts:
        stream = source.raw_stream(
            f"SELECT {chosen} FROM {table} WHERE _partition_id = {{partition:String}}",
            parameters={"partition": partition},
            fmt="Native",
        )
        with stream as rows:
            pieces = _pieces(rows.read)
            target.raw_insert(table, column_names=[name for (name,) in names], insert_block=pieces, fmt="Native")
    return sum(int(rows) for _, rows in parts)


def _pieces(read: Callable[[int], bytes]) -> Generator[bytes, None, None]:
    while piece := read(1 << 20):
        yield piece
