"""Is the database what the record classes say?"""

from typing import NamedTuple

from clickhouse_connect.driver.client import Client

from storage import ddl
from storage.roll import MARKS
from storage.rollups import ROLLUPS, Rollup
from storage.tables import TABLES, Table
from storage.views import VIEWS


class Difference(NamedTuple):
    """One difference: in words, the statement that removes it ("" where that is a person's decision), and whether
    the writer cannot work with it."""

    text: str
    sql: str
    blocks_writer: bool = False


class _Found(NamedTuple):
    type: str
    codec: str
    comment: str


def differences(client: Client, database: str) -> list[Difference]:
    """Everything that differs between `database` and what this program would create; none when all is well."""
    tables = {
        row[0]: row[1:]
        for row in client.query(
            "SELECT name, engine, sorting_key, partition_key, engine_full, comment, as_select"
            " FROM system.tables WHERE database = {database:String}",
            parameters={"database": database},
        ).result_rows
    }
    columns: dict[str, dict[str, _Found]] = {}
    for table, name, *rest in client.query(
        "SELECT table, name, type, compression_codec, comment FROM system.columns WHERE database = {database:String}",
        parameters={"database": database},
    ).result_rows:
        columns.setdefault(table, {})[name] = _Found(*rest)
    indices = client.query(
        "SELECT table, name FROM system.data_skipping_indices WHERE database = {database:String}",
        parameters={"database": database},
    ).result_rows
    found = []
    for table in ddl.MADE:
        if table.name not in tables:
            found.append(
                Difference(f"table {table.name} is missing", ddl.create_table(table), isinstance(table, Table))
            )
            continue
        engine, sorting, partition, full, said, _ = tables[table.name]
        found += _of_table(table, engine, sorting, partition, full, said)
        found += _of_columns(table, columns[table.name])
        for name in table.ranged:
            if (table.name, f"{name}_range") not in indices:
                add = f"ALTER TABLE {table.name} ADD {ddl.index(name)}"
                found.append(Difference(f"table {table.name} has no index on {name}", add))
    if MARKS not in tables:
        found.append(Difference(f"table {MARKS} is missing", ddl.CREATE_MARKS))
    for view in VIEWS:
        if view not in tables:
            found.append(Difference(f"view {view} is missing", ddl.create_view(view)))
        elif _plain(client, VIEWS[view]) != tables[view][-1].replace(f"{database}.", ""):
            found.append(Difference(f"view {view} selects something else", ddl.create_view(view)))
    known = {*TABLES, *ROLLUPS, *VIEWS, MARKS, "schema_migrations"}
    return found + [Difference(f"table {name} belongs to nothing", "") for name in sorted(set(tables) - known)]


def _of_table(
    table: Table | Rollup, engine: str, sorting: str, partition: str, full: str, said: str
) -> list[Difference]:
    found = []
    if not engine.endswith("ReplacingMergeTree"):
        found.append(Difference(f"table {table.name} has engine {engine}, not ReplacingMergeTree", ""))
    if sorting != ", ".join(table.key):
        found.append(Difference(f"table {table.name} is sorted by ({sorting}), not ({', '.join(table.key)})", ""))
    if partition != table.partition:
        found.append(Difference(f"table {table.name} is partitioned by {partition!r}, not {table.partition!r}", ""))
    if table.days and f"toIntervalDay({table.days})" not in full:
        keep = f"ALTER TABLE {table.name} MODIFY TTL {ddl.kept(table)}"
        found.append(Difference(f"table {table.name} is not kept for {table.days} days", keep))
    if said != table.what:
        comment = f"ALTER TABLE {table.name} MODIFY COMMENT {ddl.literal(table.what)}"
        found.append(Difference(f"table {table.name} has another comment", comment))
    return found


def _of_columns(table: Table | Rollup, here: dict[str, _Found]) -> list[Difference]:
    found = []
    for column in table.columns:
        where = f"column {table.name}.{column.name}"
        alter = f"ALTER TABLE {table.name}"
        declared = ddl.column(table, column)
        if column.name not in here:
            add = f"{alter} ADD COLUMN IF NOT EXISTS {declared}"
            found.append(Difference(f"{where} is missing", add, isinstance(table, Table)))
            continue
        is_now = here[column.name]
        if is_now.type != column.stored.type:
            text = f"{where} is {is_now.type}, not {column.stored.type}"
            found.append(Difference(text, "", isinstance(table, Table)))
        elif is_now.codec != f"CODEC({column.stored.codec})":
            found.append(Difference(f"{where} has {is_now.codec or 'no codec'}", f"{alter} MODIFY COLUMN {declared}"))
        elif is_now.comment != ddl.column_comment(table, column):
            found.append(Difference(f"{where} has another comment", f"{alter} MODIFY COLUMN {declared}"))
    known = {column.name for column in table.columns} | {"stored_at"}
    return found + [
        Difference(f"column {table.name}.{name} belongs to no record", "") for name in here if name not in known
    ]


def _plain(client: Client, select: str) -> str:
    """`select` as ClickHouse writes it."""
    return str(client.query("SELECT formatQuerySingleLine({sql:String})", parameters={"sql": select}).result_rows[0][0])
