"""`lockstep query` as a person meets it: formats, names, parameters, files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lockstep.cli import main
from runtime.settings import ClickHouse

Query = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def query(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Query:
    """Run `lockstep query` on the tests' ClickHouse: exit status, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, bytes, str]:
        monkeypatch.setenv("LOCKSTEP_CLICKHOUSE_HOST", clickhouse.clickhouse_host)
        monkeypatch.setenv("LOCKSTEP_CLICKHOUSE_PORT", str(clickhouse.clickhouse_port))
        monkeypatch.setenv("LOCKSTEP_CLICKHOUSE_PASSWORD", clickhouse.clickhouse_password)
        monkeypatch.setenv("LOCKSTEP_CLICKHOUSE_DATABASE", "default")
        monkeypatch.setattr(sys, "argv", ["lockstep", "query", *arguments])
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        printed, said = capfdbinary.readouterr()
        return status, printed, said.decode()

    return run


def test_every_format(query: Query, tmp_path: Path) -> None:
    sql = "SELECT number AS n, concat('x', toString(number)) AS s FROM numbers(2)"
    assert query(sql, "--format", "csv") == (0, b'"n","s"\n0,"x0"\n1,"x1"\n', "")
    assert json.loads(query(sql, "--format", "json")[1]) == [{"n": 0, "s": "x0"}, {"n": 1, "s": "x1"}]
    table = query(sql)[1].decode()
    assert "x1" in table
    assert "─n─" in table
    file = tmp_path / "answer.parquet"
    assert query(sql, "--format", "parquet", "--output", str(file)) == (0, b"", "")
    assert pq.read_table(file).to_pydict()["n"] == [0, 1]
    assert query(sql, "--format", "parquet")[1] == file.read_bytes()


def test_no_rows_are_said_to_people_and_machines_get_nothing_else(query: Query) -> None:
    sql = "SELECT number AS n, 'x' AS s FROM numbers(2) WHERE n > {most:UInt8};"
    given = ("--param", "most=5")
    assert query(sql, *given) == (0, b"n  s\n0 rows\n", "")
    assert query(sql, *given, "--format", "json") == (0, b"[]\n", "")
    assert query(sql, *given, "--format", "csv") == (0, b'"n","s"\n', "")
    assert query("SHOW TABLES LIKE 'none such'") == (0, b"0 rows\n", "")


def test_parameters_of_ones_own_sql(query: Query) -> None:
    asked = ("SELECT {x:UInt8} + 1 AS y, {s:String} AS s", "--format", "csv", "--param", "x=41", "--param", "s=it's=1")
    assert query(*asked)[1] == b'"y","s"\n42,"it\'s=1"\n'


def test_names_are_listed_with_their_question_and_shown_as_sql(query: Query) -> None:
    status, text, _ = query("--list")
    assert status == 0
    assert b"worst-gpus          Which GPUs of a job were most unusual" in text
    assert b"job: key of the job\n" in text
    listed = {one["name"]: one for one in json.loads(query("--list", "--format", "json")[1])}
    assert listed["mtbf"]["parameters"]["days"]["default"] == "30"
    assert query("--name", "worst-gpus", "--show")[1].startswith(b"SELECT rank, node, gpu")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give SQL, or --name NAME"),
        (("SELECT 1", "--name", "mtbf"), "give SQL, or --name NAME"),
        (("--name", "nothing"), "no question 'nothing': choose one of fleet-now"),
        (("--name", "worst-gpus"), "needs --param job=VALUE: key of the job"),
        (("SELECT 1", "--param", "x"), "--param x: give NAME=VALUE"),
        (("SELECT {x:UInt8}",), "x"),
        (("SELECT 1", "--output", "/no/such/folder/file"), "/no/such/folder/file: No such file or directory"),
        (
            ("CREATE TABLE made_by_query (a Int8) ENGINE = MergeTree ORDER BY a",),
            "queries only, and this begins with CREATE",
        ),
        (("INSERT INTO made_by_query VALUES (1)",), "queries only"),
        (("KILL QUERY WHERE 1",), "queries only"),
        (("CREATE TEMPORARY TABLE t (a Int8)",), "queries only"),
        (("SET x=1",), "queries only"),
        (("USE y",), "queries only"),
        (("SELECT 1 FORMAT JSON",), "give --format instead of a FORMAT clause"),
        (("SELECT file('/etc/passwd')",), "Function file is not allowed"),
        (("SELECT sleepEachRow(1) FROM numbers(9) SETTINGS max_execution_time = 1, max_block_size = 1",), "time limit"),
    ],
)
def test_what_cannot_be_asked_is_one_line(query: Query, arguments: tuple[str, ...], said: str) -> None:
    status, printed, complained = query(*arguments)
    assert (status, printed) == (2, b"")
    assert said in complained
    assert complained.startswith("lockstep: ")
    assert complained.count("\n") == 1
