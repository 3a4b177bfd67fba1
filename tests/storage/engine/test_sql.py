"""The outline of a statement: first word, FORMAT, and where the rows of an INSERT begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine.errors import ClickHouseError
from storage.engine.sql import outline


@pytest.mark.parametrize(
    ("text", "keyword", "format"),
    [
        ("SELECT 1", "SELECT", None),
        ("  -- a word\n /* and\n more */ select 1 format JSON", "SELECT", "JSON"),
        ("SELECT 1 FORMAT Native;\n", "SELECT", "Native"),
        ("SELECT 1\n FORMAT CSV SETTINGS max_threads = 1", "SELECT", "CSV"),
        ("SELECT 1 SETTINGS max_threads = 1 FORMAT CSV", "SELECT", "CSV"),
        ("(SELECT 1) UNION ALL (SELECT 2) FORMAT TSV", "(", "TSV"),
        ("SELECT * FROM (SELECT 1 FORMAT JSON)", "SELECT", None),
        ("SELECT format x FROM t", "SELECT", None),
        ("SELECT 'a FORMAT JSON' FROM t", "SELECT", None),
        ("SELECT 'it''s \\' FORMAT JSON'", "SELECT", None),
        ('SELECT 1 AS "FORMAT JSON"', "SELECT", None),
        ("SELECT `a``b FORMAT JSON`", "SELECT", None),
        ("SELECT $tag$ ; FORMAT JSON $tag$ FORMAT CSV", "SELECT", "CSV"),
        ("SELECT 1 # a comment FORMAT JSON", "SELECT", None),
        ("WITH 1 AS x SELECT x FORMAT JSONEachRow", "WITH", "JSONEachRow"),
        ("CREATE TABLE t (format String) ENGINE = Memory", "CREATE", None),
        ("SELECT {format:String} FORMAT CSV", "SELECT", "CSV"),
        ("SELECT 'never closed FORMAT JSON", "SELECT", None),
        ("", "", None),
        (" -- nothing\n", "", None),
    ],
)
def test_first_word_and_format(text: str, keyword: str, format: str | None) -> None:
    statement = outline(text.encode())
    assert (statement.keyword, statement.format, statement.insert) == (keyword, format, None)


@pytest.mark.parametrize(
    ("text", "head", "format", "rows"),
    [
        (b"INSERT INTO t FORMAT CSV\n1,2\n", b"INSERT INTO t ", "CSV", b"1,2\n"),
        (b"INSERT INTO t FORMAT CSV 1,2\n", b"INSERT INTO t ", "CSV", b"1,2\n"),
        (b"INSERT INTO t FORMAT CSV\r\n\r\n1\n", b"INSERT INTO t ", "CSV", b"\r\n1\n"),
        (
            b"insert into d.t (`a`, b) format Native\n\x01\x02\xff",
            b"insert into d.t (`a`, b) ",
            "Native",
            b"\x01\x02\xff",
        ),
        (b"INSERT INTO t FORMAT Native\n\n", b"INSERT INTO t ", "Native", b"\n"),
        (b"INSERT INTO t FORMAT Native", b"INSERT INTO t ", "Native", b""),
        (b"INSERT INTO t VALUES (1), (2)", b"INSERT INTO t ", "Values", b" (1), (2)"),
        (b"INSERT INTO t (values, format) VALUES(1)", b"INSERT INTO t (values, format) ", "Values", b"(1)"),
        (b"INSERT INTO values VALUES (1)", b"INSERT INTO values ", "Values", b" (1)"),
        (b"INSERT INTO d.format FORMAT TSV\n1", b"INSERT INTO d.format ", "TSV", b"1"),
        (b"INSERT INTO TABLE t SETTINGS a=1 FORMAT TSV\n1", b"INSERT INTO TABLE t SETTINGS a=1 ", "TSV", b"1"),
        (b"INSERT INTO {t:Identifier} VALUES (1)", b"INSERT INTO {t:Identifier} ", "Values", b" (1)"),
        (b"/* why */ INSERT t -- here\nFORMAT TSV\n1", b"/* why */ INSERT t -- here\n", "TSV", b"1"),
    ],
)
def test_rows_of_an_insert(text: bytes, head: bytes, format: str, rows: bytes) -> None:
    statement = outline(text)
    assert (statement.insert, statement.format, text[statement.data_at :]) == (head, format, rows)


@pytest.mark.parametrize(
    "text",
    [
        b"INSERT INTO t SELECT 1",
        b"INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x",
        b"INSERT INTO t SELECT input FROM s",
        b"INSERT INTO t",
        b"INSERT",
    ],
)
def test_an_insert_that_no_rows_follow_is_run_as_it_is(text: bytes) -> None:
    statement = outline(text)
    assert (statement.keyword, statement.insert) == ("INSERT", None)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"SELECT 1; SELECT 2", 62),
        (b"SELECT 1;\n FORMAT JSON", 62),
        (b"INSERT INTO t FORMAT CSV; 1", 62),
        (b"SELECT 1 INTO /* */ OUTFILE '/tmp/x'", 358),
        (b"select 1 into outfile '/tmp/x' format CSV", 358),
        (b"INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", 497),
        (b"SELECT * FROM Python (x)", 497),
        (b"INSERT INTO t SELECT * FROM python(x)", 497),
        (b"SELECT * FROM `pyth\\x6fn`(x)", 497),
        (b'SELECT * FROM "Python"(x)', 497),
        (b"SELECT file('/etc/passwd')", 497),
        (b"SELECT `file`('/etc/passwd')", 497),
        (b"SELECT \"f\\x69le\"('/etc/passwd')", 497),
        (b"SELECT arrayMap(file, ['/etc/passwd'])", 497),
        (b"SELECT * APPLY file FROM t", 497),
        (b"EXPLAIN SELECT file('/etc/passwd')", 497),
        (b"CREATE FUNCTION f AS (x) -> file(x)", 497),
        (b"CREATE TABLE t (a String DEFAULT file('/etc/passwd')) ENGINE = Memory", 497),
        (b"INSERT INTO t SELECT file('/etc/passwd')", 497),
        (b"CREATE TABLE t (a String) ENGINE = Executable('cat', TSV)", 497),
        (b"CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = 'local')", 497),
        (b"SELECT * FROM format(JSONEachRow, 'a String DEFAULT file(\\'/etc/passwd\\')', '{}')", 497),
        (b"SELECT * FROM format('{' || 'JSON', '{}')", 497),
        (b"ATTACH TABLE t FROM '/etc' (a Int8) ENGINE = Memory", 497),
        (b"SET param_f = 'file'", 497),
        (b"INSERT INTO t SELECT a FROM input('a Int8') FORMAT CSV\n1;2;\n", 48),
        (b"INSERT INTO t FORMAT Values (file('/etc/passwd'))", 497),
        (b"INSERT INTO t FORMAT values\n(1, `file`('/etc/passwd'))", 497),
        (b"INSERT INTO t (a) (SELECT file('/etc/passwd'))", 497),
        (b"INSERT INTO t ((SELECT 1, file('/etc/passwd')))", 497),
        (b"INSERT INTO t (SELECT 1, arrayMap(file, ['/etc/passwd']))", 497),
        (b"INSERT INTO t (WITH file AS f SELECT arrayMap(f, ['/etc/passwd']))", 497),
        (b"INSERT INTO t FROM (SELECT file('/etc/passwd') AS x) SELECT x", 497),
        (b"INSERT INTO FUNCTION executable('cat', 'TSV', 'a String') VALUES (1)", 497),
        (b"INSERT INTO t SETTINGS input_format_values_interpret_expressions = 1 VALUES (1)", 497),
        (b"INSERT INTO t SETTINGS a = 1, `input_format_values_interpret_expressions` = 1 FORMAT Values (1)", 497),
        (b"CREATE TABLE t (query String) ENGINE = QueryRunner", 497),
        (b"CREATE TABLE t (query String) ENGINE `QueryRunner`", 497),
        (b"CREATE TABLE t (a String) ENGINE = FileLog('/etc/', 'LineAsString')", 497),
    ],
)
def test_what_may_not_come_from_the_network(text: bytes, code: int) -> None:
    with pytest.raises(ClickHouseError) as refused:
        outline(text)
    assert refused.value.code == code


def test_words_of_the_forbidden_are_names_like_others() -> None:
    assert outline(b"SELECT python FROM infile").keyword == "SELECT"
    assert outline(b"SELECT t.file, 'file(1)', format('{} {}', a, b), profile FROM t AS t").keyword == "SELECT"
    assert outline(b"INSERT INTO outfile VALUES (1)").insert == b"INSERT INTO outfile "
    assert outline(b"INSERT INTO file (b, file, `file`) VALUES (1, 2, 3)").insert is not None
    assert outline(b"CREATE TABLE queryrunner (engine Int8) ENGINE = Memory").keyword == "CREATE"
    assert outline(b"INSERT INTO disk (a.file, disk) FORMAT Values (1, 'file(2)')").format == "Values"
    assert outline(b"SELECT 'INTO OUTFILE', ';' FROM t;").keyword == "SELECT"


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT 1 ;\n", "SELECT 1 "),
        ("SELECT 1 FORMAT JSON", "SELECT 1 "),
        ("SELECT format x FROM t; -- so", "SELECT format x FROM t"),
        ("SELECT format x FROM t FORMAT JSON SETTINGS a = 1;", "SELECT format x FROM t "),
    ],
)
def test_where_output_clauses_stand(text: str, before: str) -> None:
    assert text[: outline(text.encode()).output_at] == before


def test_what_is_streamable() -> None:
    assert outline(b"WITH 1 AS x SELECT x").streamable
    assert not outline(b"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x").answers
    assert not outline(b"SELECT k, count() FROM t GROUP BY k WITH TOTALS").streamable
    assert not outline(b"SHOW TABLES").streamable


def test_statements_with_a_result() -> None:
    assert outline(b"SELECT 1 WHERE 0").answers
    assert outline(b"SHOW TABLES").answers
    assert not outline(b"CREATE TABLE t (a Int8) ENGINE = Memory").answers
    assert not outline(b"INSERT INTO t SELECT 1").answers


@given(st.binary(max_size=200))
def test_any_bytes_behind_a_native_insert_are_rows(rows: bytes) -> None:
    text = b"INSERT INTO t (a) FORMAT Native\n" + rows
    statement = outline(text)
    assert text[statement.data_at :] == rows


@given(st.binary(max_size=200))
def test_any_bytes_have_an_outline_or_a_refusal(text: bytes) -> None:
    code, data_at = 0, 0
    try:
        data_at = outline(text).data_at
    except ClickHouseError as error:
        code = error.code
    assert code in (0, 48, 62, 358, 497)
    assert data_at <= len(text)


def test_a_long_literal_is_read_in_one_go() -> None:
    text = b"SELECT '" + b"it''s \\' " * 200_000 + b"' FORMAT CSV"
    assert outline(text).format == "CSV"


def test_what_a_read_only_request_may_send() -> None:
    for text in (
        b"SELECT 1",
        b"(SELECT 1)",
        b"WITH 1 AS x SELECT x",
        b"SHOW TABLES",
        b"EXISTS t",
        b"DESC t",
        b"SET a = 1",
    ):
        assert outline(text).harmless
    for text in (
        b"KILL QUERY WHERE 1",
        b"CREATE TEMPORARY TABLE t (a Int8)",
        b"SYSTEM FLUSH LOGS",
        b"INSERT INTO t SELECT 1",
    ):
        assert not outline(text).harmless
