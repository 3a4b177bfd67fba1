"""From the first version on: what was stored stays what it was, and writers of two versions write side by side."""

import contextlib
import math
from collections.abc import Iterator, Mapping

import pytest
from clickhouse_connect.driver.client import Client

from runtime.settings import ClickHouse
from schemas import NodeFrame
from schemas.examples import EXAMPLES
from schemas.matrix import Matrix
from storage.check import differences
from storage.client import get_client
from storage.columns import Columns, columns
from storage.migrate import Migration, available, migrate
from storage.native import block, compressed, words
from storage.tables import BY_RECORD, TABLES, Table
from storage.values import NAME, READING
from storage.views import VIEWS

NEXT = Migration(
    f"{len(available()) + 1:04d}_next",
    "ALTER TABLE gpu_samples ADD COLUMN IF NOT EXISTS flux_w Float32 DEFAULT nan CODEC(ZSTD(1));\n"
    "ALTER TABLE gpu_samples ADD COLUMN IF NOT EXISTS wing LowCardinality(String) AFTER node;\n"
    "ALTER TABLE gpu_samples ADD INDEX IF NOT EXISTS flux_w_range flux_w TYPE minmax;\n"
    "CREATE TABLE IF NOT EXISTS wings (wing String) ENGINE = ReplacingMergeTree ORDER BY wing;\n"
    "CREATE OR REPLACE VIEW v_wings AS SELECT wing, count() AS samples FROM gpu_samples FINAL GROUP BY wing;\n",
    "of the next",
)
"""What a later version may do: nothing in it takes data away."""


@pytest.fixture
def first(clickhouse_database: ClickHouse) -> Iterator[Client]:
    """A database as the first version made it."""
    with contextlib.closing(get_client(clickhouse_database)) as client:
        migrate(client, clickhouse_database.clickhouse_database, known=available()[:1])
        yield client


def layout(client: Client) -> dict[str, list[str]]:
    """The columns of each table that the writer of this version writes to."""
    found = client.query("SELECT table, name FROM system.columns WHERE database = currentDatabase() ORDER BY position")
    known: dict[str, list[str]] = {}
    for table, name in found.result_rows:
        if table in TABLES and name != "stored_at":
            known.setdefault(table, []).append(name)
    return known


def put(client: Client, table: Table, made: Columns, known: list[str]) -> None:
    """An insert as the writer of the version makes it whose columns are `known`."""
    chosen = [(c, packed) for c, packed in zip(table.columns, made.data, strict=True) if c.name in known]
    rows = block([c.name for c, _ in chosen], [c.stored.type for c, _ in chosen], [p for _, p in chosen], made.rows)
    names = ", ".join(f"`{column.name}`" for column, _ in chosen)
    statement = f"INSERT INTO {table.name} ({names}) FORMAT Native\n".encode()
    client.raw_insert("", insert_block=compressed(statement + rows), compression="lz4")


def fill(client: Client, known: Mapping[str, list[str]]) -> None:
    """A few rows in every table."""
    for example in EXAMPLES:
        for table in BY_RECORD[type(example)]:
            made = columns(table, [example])
            if made.rows and table.name in known:
                put(client, table, made, known[table.name])


def digests(client: Client, known: Mapping[str, list[str]]) -> dict[str, tuple[int, int]]:
    """Rows of each table and a hash of all that is in them."""
    found = {}
    for table, names in known.items():
        chosen = ", ".join(f"`{name}`" for name in (*names, "stored_at"))
        found[table] = client.query(f"SELECT count(), sum(cityHash64({chosen})) FROM {table} FINAL").result_rows[0]
    return found


def test_what_the_first_version_stored_is_intact_after_all_later_migrations(first: Client) -> None:
    known = layout(first)
    fill(first, known)
    before = digests(first, known)
    assert sum(count > 0 for count, _ in before.values()) > 20
    name = str(first.database)
    assert migrate(first, name, known=[*available(), NEXT]) == [*available()[1:], NEXT]
    assert digests(first, known) == before
    assert {d.text for d in differences(first, name)} == {
        "column gpu_samples.flux_w belongs to no record",
        "column gpu_samples.wing belongs to no record",
        "table v_wings belongs to nothing",
        "table wings belongs to nothing",
    }
    for view in VIEWS:
        first.query(f"SELECT count() FROM {view}")


def test_writers_of_two_versions_write_side_by_side(first: Client) -> None:
    old = layout(first)["gpu_samples"]
    migrate(first, str(first.database), known=[*available(), NEXT])
    table = TABLES["gpu_samples"]
    newer = table._replace(
        columns=(
            *table.columns,
            table.columns[0]._replace(name="wing", stored=NAME),
            table.columns[-1]._replace(name="flux_w", stored=READING),
        )
    )

    def frame(seq: int) -> NodeFrame:
        matrix = Matrix.of(["GPU-1"], ["power_w"], [[seq]])
        return NodeFrame(cluster="c", ts_ms=1000 * seq, node="n", run_id=1, seq=seq, sections={"gpu": matrix})

    for seq in (1, 2, 3, 4, 3, 4):  # the last two again: each writer's replay replaces its own rows
        made = columns(table, [frame(seq)])
        if seq % 2:
            put(first, table, made, old)
        else:
            both = made._replace(data=[*made.data, words(["east"]), READING.pack([7.0])])
            put(first, newer, both, [*old, "wing", "flux_w"])
    found = first.query("SELECT seq, power_w, wing, flux_w FROM gpu_samples FINAL ORDER BY seq").result_rows
    assert [row[:3] for row in found] == [(1, 1.0, ""), (2, 2.0, "east"), (3, 3.0, ""), (4, 4.0, "east")]
    assert [math.isnan(row[3]) or row[3] for row in found] == [True, 7.0, True, 7.0]


def test_a_column_that_check_adds_is_missing_in_the_rows_before_it(first: Client) -> None:
    migrate(first, str(first.database))
    first.command("ALTER TABLE gpu_samples DROP COLUMN power_w")
    example = next(e for e in EXAMPLES if isinstance(e, NodeFrame))
    put(first, TABLES["gpu_samples"], columns(TABLES["gpu_samples"], [example]), layout(first)["gpu_samples"])
    for difference in differences(first, str(first.database)):
        first.command(difference.sql)
    found = first.query("SELECT power_w FROM gpu_samples").result_rows
    assert found
    assert all(math.isnan(power_w) for (power_w,) in found)
