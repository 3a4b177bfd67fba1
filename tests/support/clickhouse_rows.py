"""Records into their tables and rows out of them, without the writer's loop."""

from typing import Any

from clickhouse_connect.driver.client import Client

from schemas import Record
from storage.columns import columns
from storage.insert import put
from storage.tables import BY_RECORD, TABLES


def store(client: Client, *records: Record) -> None:
    """One insert per table, as the writer makes it."""
    for cls in {type(record) for record in records}:
        for table in BY_RECORD[cls]:
            put(client, table, columns(table, [record for record in records if type(record) is cls]))


def rows(client: Client, table: str, cluster: str) -> list[dict[str, Any]]:
    key = ", ".join(TABLES[table].key)
    # A payload is bytes, and need not be text.
    binary = {c.name: "bytes" for c in TABLES[table].columns if c.name in ("payload", "body")}
    found = client.query(
        f"SELECT * EXCEPT stored_at FROM {table} FINAL WHERE cluster = {{c:String}} ORDER BY {key}",
        parameters={"c": cluster},
        column_formats=binary,
    )
    return list(found.named_results())
