"""A running engine gives away no file, in whatever way it is asked, and changes nothing where it may only read."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import Error

from runtime.settings import ClickHouse
from storage.client import get_client

SECRET = "TOPSECRET"


def asked(
    settings: ClickHouse, sql: str, parameters: dict[str, str] | None = None, options: dict[str, Any] | None = None
) -> str:
    """The answer, or the refusal."""
    with contextlib.closing(get_client(settings)) as client:
        try:
            return client.raw_query(sql, parameters=parameters, settings=options, fmt=None).decode()
        except Error as error:
            return f"{error.code}: {error}"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT `file`({path})", 497),
        ("SELECT * APPLY(file) FROM (SELECT {path})", 497),
        ("SELECT 1 FORMAT Template SETTINGS format_template_row = {path}", 452),
        ("SELECT 1 AS a FORMAT Protobuf SETTINGS format_schema = {path}", 452),
        ("SELECT * FROM file({path}, 'LineAsString')", 497),
        ("SELECT * FROM url('file://' || {path}, 'LineAsString')", 497),
        ("SELECT * FROM {path}", 60),
        ("SELECT * FROM eval('SELECT 1') SETTINGS allow_experimental_eval_table_function = 1", 452),
        ("SELECT 1 SETTINGS dialect = 'kusto'", 452),
        ("SELECT ‘ -- ’, file({path})", 62),
        ("SELECT ‘'’, file({path}), ‘'’", 62),
        ("SELECT 1 /* /* */ ' */, file({path}) --'", 62),
        ("SELECT 1 AS a$b$, file({path}), 2 AS c$b$", 497),
        ("SELECT TOP 1. file({path})", 497),
        ("SELECT `fi\\Nle`({path})", 497),
        ("SELECT 1 AS a SETTINGS additional_result_filter = concat('a = ', {path})", 62),
        ("SELECT 1 AS a SETTINGS additional_result_filter = 'a = 1'", 452),
        ("SELECT 1 AS a SETTINGS additional_table_filters = {'system.one': 'dummy = 1'}", 452),
        ("SELECT b FROM values('a String, b String ALIAS file(a)', {path})", 497),
        ("SELECT b FROM values(('a String, b String ' || 'ALIAS file(a)'), {path})", 497),
        ("SELECT b FROM generateRandom('a String, b String Default file(\\'x\\')') LIMIT 1", 497),
        ("INSERT INTO FUNCTION null('a String, b String MATERIALIZED file(a)') SELECT {path}", 497),
        ("WITH 1 AS x INSERT INTO forbidden FROM INFILE {path} FORMAT LineAsString", 497),
    ],
)
def test_no_file_is_read(embedded_clickhouse: ClickHouse, tmp_path: Path, sql: str, code: int) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(SECRET)
    said = asked(embedded_clickhouse, sql.replace("{path}", f"'{secret}'"))
    assert said.startswith(f"{code}: ")
    assert SECRET not in said


@pytest.mark.parametrize(
    "rows",
    [
        "VALUES (file({path}))",
        "FORMAT Values (file({path}))",
        "FORMAT values\n(file({path}))",
        "(SELECT file({path}))",
        "FROM (SELECT file({path}) AS x) SELECT x",
        "SETTINGS input_format_values_interpret_expressions = 1 VALUES" + " " * (1 << 20) + "(file({path}))",
    ],
)
def test_no_file_is_read_by_an_insert(embedded_clickhouse: ClickHouse, tmp_path: Path, rows: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(SECRET)
    asked(embedded_clickhouse, "CREATE TABLE IF NOT EXISTS forbidden (a String) ENGINE = Memory")
    rows = rows.replace("{path}", f"'{secret}'")
    assert asked(embedded_clickhouse, f"INSERT INTO forbidden (a) {rows}").startswith("497: ")
    assert asked(embedded_clickhouse, "SELECT count() FROM forbidden") == "0\n"
    asked(embedded_clickhouse, "DROP TABLE forbidden SYNC")


def test_long_rows_are_no_expressions(embedded_clickhouse: ClickHouse) -> None:
    """What is behind the first mebibyte nobody has looked at."""
    asked(embedded_clickhouse, "CREATE TABLE IF NOT EXISTS forbidden (a String) ENGINE = Memory")
    rows = "('x')," * (1 << 18) + "(upper('y'))"
    for head in ("VALUES", "FORMAT Values", "FORMAT values"):
        options = {"input_format_values_interpret_expressions": 1}
        assert asked(embedded_clickhouse, f"INSERT INTO forbidden {head} {rows}", options=options).startswith("344: ")
    asked(embedded_clickhouse, "DROP TABLE forbidden SYNC")


@pytest.mark.parametrize("name", ["filter", "select", "order", "sort", "parallel_replicas_custom_key"])
def test_no_setting_holds_sql(embedded_clickhouse: ClickHouse, name: str) -> None:
    assert asked(embedded_clickhouse, f"SELECT 1 AS a SETTINGS {name} = 'a'").startswith("452: ")


def test_no_file_is_written(embedded_clickhouse: ClickHouse, tmp_path: Path) -> None:
    path = tmp_path / "written"
    assert asked(embedded_clickhouse, f"SELECT 1 INTO\u00a0OUTFILE '{path}'").startswith("62: ")
    sql = f"SELECT 1 SETTINGS input_format_record_errors_file_path = '{path}'"
    assert asked(embedded_clickhouse, sql).startswith("452: ")
    sql = f"CREATE TABLE r (a String) ENGINE = EmbeddedRocksDB(0, '{path}') PRIMARY KEY a"
    assert asked(embedded_clickhouse, sql).startswith("497: ")
    assert not path.exists()


def test_a_parameter_behind_the_first_mebibyte_is_looked_at(embedded_clickhouse: ClickHouse, tmp_path: Path) -> None:
    sql = f"/*{'x' * (1 << 20)}*/ SELECT arrayMap({{f:Identifier}}, ['{tmp_path}/x'])"
    assert asked(embedded_clickhouse, sql, {"f": "file"}, {"max_query_size": 1 << 24}).startswith("497: ")


def test_what_is_harmless_works(embedded_clickhouse: ClickHouse) -> None:
    assert asked(embedded_clickhouse, "SELECT * FROM values('a Int8, b String', (1, 'ä -- /*'))") == "1\tä -- /*\n"
    assert asked(embedded_clickhouse, "SELECT sum(a) FROM values('a Int8', 1, 2) WHERE a IS NOT NULL") == "3\n"
    assert asked(embedded_clickhouse, "SELECT count() FROM (SELECT * FROM generateRandom() LIMIT 2)") == "2\n"
    assert asked(embedded_clickhouse, "SELECT $a$ it's ‘so’ $a$ /* ‘ */ -- “") == " it's ‘so’ \n".replace("'", "\\'")


def test_no_table_runs_what_is_inserted(embedded_clickhouse: ClickHouse) -> None:
    assert asked(embedded_clickhouse, "CREATE TABLE r (query String) ENGINE = QueryRunner").startswith("497: ")


def test_no_file_is_read_by_a_parameter(embedded_clickhouse: ClickHouse, tmp_path: Path) -> None:
    said = asked(embedded_clickhouse, f"SELECT arrayMap({{f:Identifier}}, ['{tmp_path}/x'])", {"f": "file"})
    assert said.startswith("497: ")
    assert asked(embedded_clickhouse, "SELECT {f:Identifier} FROM (SELECT 1 AS a)", {"f": "a"}) == "1\n"


@pytest.mark.parametrize("sql", ["KILL QUERY WHERE 1", "CREATE TEMPORARY TABLE t (a Int8)", "SYSTEM FLUSH LOGS"])
def test_a_read_only_request_changes_nothing(embedded_clickhouse: ClickHouse, sql: str) -> None:
    assert asked(embedded_clickhouse, sql, options={"readonly": 2}).startswith("164: ")
