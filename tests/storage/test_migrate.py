"""Migrations: once each, in order, never changed; and what they make is what the classes say."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client

from runtime.errors import UserError
from runtime.settings import ClickHouse
from storage import ddl
from storage.check import differences
from storage.client import get_client
from storage.migrate import Migration, applied, available, first_danger, migrate, on_cluster, pending


@pytest.fixture
def fresh(clickhouse_database: ClickHouse) -> Iterator[tuple[Client, str]]:
    """A client on an empty database of this test's own, and its name."""
    with contextlib.closing(get_client(clickhouse_database)) as client:
        yield client, clickhouse_database.clickhouse_database


def migration(name: str, sql: str) -> Migration:
    return Migration(name, sql, f"checksum of {sql}")


ONE = migration("0001_one", "CREATE TABLE IF NOT EXISTS one (a Int8) ENGINE = MergeTree ORDER BY a;\n")
TWO = migration("0002_two", "ALTER TABLE one ADD COLUMN IF NOT EXISTS b Int8;\nALTER TABLE one COMMENT COLUMN b 'b;b';")


def test_classes_migrations_and_database_say_the_same(database: Client) -> None:
    found = differences(database, str(database.database))
    advice = "write the next migration (or, before the first release, 0001 anew by `python -m storage.ddl`) with:"
    assert not found, "\n".join([advice, *(f"-- {d.text}\n{d.sql};" for d in found)])


def test_the_first_migration_is_what_the_classes_generate_or_has_successors() -> None:
    known = available()
    assert known[0].sql == ddl.everything() or len(known) > 1


def test_migrations_twice_do_nothing_the_second_time(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    assert migrate(client, name, known=[ONE, TWO]) == [ONE, TWO]
    assert migrate(client, name, known=[ONE, TWO]) == []
    assert applied(client, name) == {"0001_one": ONE.checksum, "0002_two": TWO.checksum}
    assert client.query("SELECT name, comment FROM system.columns WHERE database = {d:String} AND table = 'one'",
                        parameters={"d": name}).result_rows == [("a", ""), ("b", "b;b")]  # fmt: skip


def test_the_database_is_made_where_it_is_missing(clickhouse: ClickHouse, clickhouse_database: ClickHouse) -> None:
    name = clickhouse_database.clickhouse_database
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        client.command(f"DROP DATABASE {name} SYNC")
        assert migrate(client, name, known=[ONE]) == [ONE]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    assert migrate(client, name, known=[ONE, TWO], dry_run=True) == [ONE, TWO]
    assert client.query(
        "SELECT count() FROM system.tables WHERE database = {d:String}", parameters={"d": name}
    ).result_rows == [(0,)]
    migrate(client, name, known=[ONE])
    assert migrate(client, name, known=[ONE, TWO], dry_run=True) == [TWO]
    assert applied(client, name) == {"0001_one": ONE.checksum}


def test_a_changed_checksum_is_refused_in_one_line(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    migrate(client, name, known=[ONE, TWO])
    with pytest.raises(UserError, match="0001_one was changed after it was applied") as caught:
        migrate(client, name, known=[migration("0001_one", "something else"), TWO])
    assert "\n" not in str(caught.value)


def test_a_newer_database_is_refused_in_one_line(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    migrate(client, name, known=[ONE, TWO])
    with pytest.raises(UserError, match="the database is newer than this program: it has 0002_two"):
        migrate(client, name, known=[ONE])


def test_a_migration_slipped_in_below_the_newest_is_refused() -> None:
    with pytest.raises(UserError, match="0001_one was never applied, but 0002_two was"):
        pending([ONE, TWO], {"0002_two": TWO.checksum})


def test_a_migration_that_died_halfway_is_run_again(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    broken = migration("0002_two", TWO.sql.replace("COMMENT COLUMN b", "COMMENT COLUMN nobody"))
    with pytest.raises(UserError, match="migration 0002_two, statement 2: ") as caught:
        migrate(client, name, known=[ONE, broken])
    assert "\n" not in str(caught.value)
    assert applied(client, name) == {"0001_one": ONE.checksum}
    assert migrate(client, name, known=[ONE, TWO]) == [TWO]


def test_every_migration_can_be_run_again(database: Client) -> None:
    for known in available():
        for statement in known.statements:
            database.command(statement)


@pytest.mark.parametrize(
    "names", [["0002_two.sql"], ["0001_one.sql", "0003_three.sql"], ["0001_a.sql", "0001_b.sql"], ["first.sql"]]
)
def test_files_with_other_names_or_gaps_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1;\n")
    with pytest.raises(UserError, match="expected the name 000"):
        available(tmp_path)


def test_a_changed_character_changes_the_checksum(tmp_path: Path) -> None:
    (tmp_path / "0001_one.sql").write_text("SELECT 1;\n")
    (before,) = available(tmp_path)
    (tmp_path / "0001_one.sql").write_text("SELECT 2;\n")
    (after,) = available(tmp_path)
    assert before.checksum != after.checksum
    assert before.statements == ["SELECT 1"]


def test_check_names_every_difference_and_its_statement_removes_it(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    migrate(client, name)
    for change in (
        "ALTER TABLE health DROP COLUMN note",
        "ALTER TABLE events MODIFY COLUMN text String CODEC(LZ4)",
        "ALTER TABLE steps COMMENT COLUMN work 'something'",
        "ALTER TABLE findings MODIFY TTL toDateTime(stored_at) + INTERVAL 3 DAY",
        "ALTER TABLE control MODIFY COMMENT 'something'",
        "CREATE OR REPLACE VIEW v_incidents AS SELECT * FROM incidents",
        "ALTER TABLE gpu_samples DROP INDEX stored_at_range",
        "DROP VIEW v_fleet_now",
        "DROP TABLE dead_letters",
    ):
        client.command(change)
    found = differences(client, name)
    assert sorted(difference.text for difference in found) == [
        "column events.text has CODEC(LZ4)",
        "column health.note is missing",
        "column steps.work has another comment",
        "table control has another comment",
        "table dead_letters is missing",
        "table findings is not kept for 400 days",
        "table gpu_samples has no index on stored_at",
        "view v_fleet_now is missing",
        "view v_incidents selects something else",
    ]
    assert {d.text for d in found if d.blocks_writer} == {
        "column health.note is missing",
        "table dead_letters is missing",
    }
    for difference in found:
        client.command(difference.sql)
    assert differences(client, name) == []


def test_check_names_what_only_a_person_can_decide(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    migrate(client, name)
    client.command("DROP TABLE control")
    client.command(
        "CREATE TABLE control (cluster String, ts DateTime64(3, 'UTC'), node LowCardinality(String), extra Int8)"
        " ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY node"
    )
    client.command("CREATE TABLE stranger (a Int8) ENGINE = MergeTree ORDER BY a")
    texts = [difference.text for difference in differences(client, name) if not difference.sql]
    assert texts == [
        "table control has engine MergeTree, not ReplacingMergeTree",
        "table control is sorted by (node), not (cluster, node)",
        "table control is partitioned by 'toYYYYMM(ts)', not ''",
        "column control.cluster is String, not LowCardinality(String)",
        "column control.extra belongs to no record",
        "table stranger belongs to nothing",
    ]


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DROP TABLE one", "DROP TABLE"),
        ("ALTER TABLE one DROP COLUMN a", "DROP COLUMN"),
        ("TRUNCATE TABLE one", "TRUNCATE"),
        ("ALTER TABLE one MODIFY COLUMN a Int16", "MODIFY COLUMN a"),
        ("ALTER TABLE one MODIFY TTL b + INTERVAL 1 DAY", "MODIFY TTL"),
        ("ALTER TABLE one DELETE WHERE a = 1", "DELETE"),
        ("RENAME TABLE one TO two", "RENAME"),
    ],
)
def test_what_takes_data_away_is_refused_before_anything_is_done(
    fresh: tuple[Client, str], sql: str, word: str
) -> None:
    client, name = fresh
    bad = migration("0002_bad", sql)
    with pytest.raises(UserError, match="migration 0002_bad, statement 1 is dangerous") as caught:
        migrate(client, name, known=[ONE, bad])
    assert f"({word})" in str(caught.value)
    assert "--allow-dangerous" in str(caught.value)
    assert applied(client, name) == {}


def test_what_takes_data_away_is_done_when_asked_for(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    bad = migration("0002_bad", "DROP TABLE one")
    assert migrate(client, name, known=[ONE, bad], dangerous=True) == [ONE, bad]


def test_words_in_comments_and_strings_are_no_danger() -> None:
    harmless = (
        "ALTER TABLE one ADD COLUMN a Int8 COMMENT 'set before a DELETE';\n-- DROP TABLE one\nSELECT 1;\n"
        "ALTER TABLE one MODIFY COLUMN a COMMENT 'x';\nALTER TABLE one MODIFY COMMENT 'y'"
    )
    assert first_danger([migration("0001_one", harmless), *available()]) == ""


def test_on_a_cluster_every_statement_names_it_and_every_engine_is_replicated(database: Client) -> None:
    for known in available():
        for statement in migration(known.name, on_cluster(known, "fleet")).statements:
            assert " ON CLUSTER 'fleet'" in statement.splitlines()[0]
            assert "\nENGINE = ReplacingMergeTree" not in statement
            parsed = database.query("SELECT formatQuerySingleLine({sql:String})", parameters={"sql": statement})
            assert "ON CLUSTER fleet" in parsed.result_rows[0][0]


def test_a_dry_run_on_a_cluster_shows_what_would_be_run(fresh: tuple[Client, str]) -> None:
    client, name = fresh
    (shown,) = migrate(client, name, known=[ONE], dry_run=True, cluster="fleet")
    assert shown.sql.strip() == (
        "CREATE TABLE IF NOT EXISTS one ON CLUSTER 'fleet' (a Int8) ENGINE = ReplicatedMergeTree ORDER BY a;"
    )
    assert shown.checksum == ONE.checksum
