"""Plain curl against the embedded engine."""

import gzip
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator

import lz4.frame
import pytest

from runtime.settings import ClickHouse

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Curl:
    """Runs curl on one engine."""

    def __init__(self, base: str) -> None:
        self.base = base

    def __call__(self, path: str, *options: str, data: bytes | None = None) -> bytes:
        """The body of the answer."""
        return self.run(path, *options, data=data).stdout

    def run(self, path: str, *options: str, data: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
        sent = ("--data-binary", "@-") if data is not None else ()
        return subprocess.run(
            ["curl", "-sS", "--max-time", "60", self.base + path, *sent, *options],
            input=data,
            capture_output=True,
            timeout=90,
            check=False,
        )

    def head(self, path: str, *options: str, data: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in small letters, body."""
        raw = self(path, "-i", *options, data=data)
        head, _, body = raw.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100"):
            head, _, body = body.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(status.split()[1]), headers, body


@pytest.fixture(scope="module")
def curl(embedded_clickhouse: ClickHouse) -> Curl:
    return Curl(f"http://127.0.0.1:{embedded_clickhouse.clickhouse_port}")


@pytest.fixture(scope="module")
def database(curl: Curl) -> Iterator[str]:
    name = f"curl_{uuid.uuid4().hex[:8]}"
    assert curl("/", data=f"CREATE DATABASE {name}".encode()) == b""
    assert curl(f"/?database={name}", data=b"CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a") == b""
    yield name
    curl("/", data=f"DROP DATABASE {name}".encode())


@pytest.fixture
def table(curl: Curl, database: str) -> str:
    """The URL of a database with an empty table t."""
    assert curl(f"/?database={database}", data=b"TRUNCATE TABLE t") == b""
    return f"/?database={database}"


def rows(curl: Curl, table: str) -> bytes:
    return curl(table, data=b"SELECT * FROM t ORDER BY a FORMAT CSV")


def test_it_is_there(curl: Curl) -> None:
    assert curl("/ping") == b"Ok.\n"
    assert curl("/") == b"Ok.\n"
    assert curl.head("/ping", "-I")[0] == 200


def test_get_and_post(curl: Curl) -> None:
    assert curl("/?query=SELECT%201") == b"1\n"
    assert curl("/", data=b"SELECT 1, 'x'") == b"1\tx\n"
    assert curl("/?query=SELECT%201%2B", data=b"2") == b"3\n"
    assert curl("/", "-d", "SELECT 'a=b&c'") == b"a=b&c\n"


@pytest.mark.parametrize(
    ("format", "type", "body"),
    [
        ("TabSeparated", "text/tab-separated-values", b"1\tx\n"),
        ("CSVWithNames", "text/csv", b'"a","b"\n1,"x"\n'),
        ("JSONEachRow", "application/x-ndjson", b'{"a":1,"b":"x"}\n'),
        ("RowBinary", "application/octet-stream", b"\x01\x01x"),
    ],
)
def test_formats(curl: Curl, format: str, type: str, body: bytes) -> None:
    query = b"SELECT 1 AS a, 'x' AS b"
    for path, text in (("/", query + b" FORMAT " + format.encode()), (f"/?default_format={format}", query)):
        status, headers, answer = curl.head(path, data=text)
        assert (status, answer) == (200, body)
        assert headers["x-clickhouse-format"] == format.lower()
        assert headers["content-type"].startswith(type)


def test_json_of_many_blocks_is_one_document(curl: Curl) -> None:
    answer = json.loads(curl("/?max_block_size=1000", data=b"SELECT number AS n FROM numbers(5000) FORMAT JSON"))
    assert answer["rows"] == 5000
    assert [int(row["n"]) for row in answer["data"]] == list(range(5000))


def test_totals_are_part_of_the_answer(curl: Curl) -> None:
    query = b"SELECT number % 2 AS k, count() FROM numbers(10) GROUP BY k WITH TOTALS ORDER BY k"
    assert curl("/", data=query) == b"0\t5\n1\t5\n\n0\t10\n"


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("SELECT 1 AS a FORMAT CSVWithNames", b'"a"\n1\n'),
        ("SELECT 1 AS a FORMAT CSVWithNames;", b'"a"\n1\n'),
        ("SELECT 1 AS a -- so\n FORMAT CSVWithNames SETTINGS max_threads = 1 -- and so", b'"a"\n1\n'),
        ("SELECT 1 AS a SETTINGS max_threads = 1 FORMAT CSVWithNames", b'"a"\n1\n'),
        ("(SELECT 1 AS a) UNION ALL (SELECT 1) FORMAT CSVWithNames", b'"a"\n1\n1\n'),
        ("WITH 1 AS x SELECT x AS a FORMAT CSVWithNames", b'"a"\n1\n'),
        ("FROM numbers(1) SELECT number AS a FORMAT CSVWithNames", b'"a"\n0\n'),
        ("SELECT 1 AS a WHERE 0 FORMAT CSVWithNames", b'"a"\n'),
        ("SELECT 1 AS a FORMAT Null", b""),
        ("SELECT 1 AS a; -- so", b'"a"\n1\n'),
        ("SELECT 1 AS format;", b'"format"\n1\n'),
        ("EXISTS TABLE nowhere", b'"result"\n0\n'),
    ],
)
def test_formats_with_a_head_wherever_the_clause_stands(curl: Curl, statement: str, answer: bytes) -> None:
    assert curl("/?default_format=CSVWithNames", data=statement.encode()) == answer


def test_headers_of_an_answer(curl: Curl) -> None:
    assert "mine" not in curl.head("/?query_id=mine%0D%0AX", data=b"SELECT 1")[1]["x-clickhouse-query-id"]
    _, headers, _ = curl.head("/?query_id=mine", data=b"SELECT count() FROM numbers(1000)")
    assert headers["x-clickhouse-query-id"] == "mine"
    assert headers["x-clickhouse-timezone"]
    assert headers["x-clickhouse-server-display-name"]
    summary = json.loads(headers["x-clickhouse-summary"])
    assert (summary["read_rows"], summary["result_rows"]) == ("1000", "1")
    assert int(summary["elapsed_ns"]) > 0


def test_parameters_and_settings_in_the_url(curl: Curl) -> None:
    assert curl("/?param_x=41&param_s=a%5Ctb", data=b"SELECT {x:UInt32} + 1, {s:String} = 'a\\tb'") == b"42\t1\n"
    assert curl("/?max_block_size=123", data=b"SELECT getSetting('max_block_size')") == b"123\n"
    assert b"(UNKNOWN_SETTING)" in curl("/?no_such_setting=1", data=b"SELECT 1")


def test_parameters_in_a_form(curl: Curl) -> None:
    assert curl("/", "-F", "query=SELECT {x:UInt8}", "-F", "param_x=7") == b"7\n"
    status, _, body = curl.head("/?query=SELECT%201", "-F", "file=@/dev/null;filename=x")
    assert (status, b"External data" in body) == (501, True)


def test_rows_behind_the_statement(curl: Curl, table: str) -> None:
    curl(table, data=b"INSERT INTO t FORMAT CSV\n1,one\n2,two\n")
    curl(table, data=b"INSERT INTO t VALUES (3, 'three'), (4, 'FOUR');")
    assert rows(curl, table) == b'1,"one"\n2,"two"\n3,"three"\n4,"FOUR"\n'


def test_rows_beside_the_statement(curl: Curl, table: str) -> None:
    _, headers, _ = curl.head(f"{table}&query=INSERT%20INTO%20t%20FORMAT%20TSV", data=b"1\tone\n2\t\xff\x00\n")
    assert json.loads(headers["x-clickhouse-summary"])["written_rows"] == "2"
    assert rows(curl, table) == b'1,"one"\n2,"\xff\x00"\n'


def test_large_uploads_go_through_a_file(curl: Curl, table: str) -> None:
    sent = b"".join(b"%d\t%s\n" % (n, b"x" * 100) for n in range(150_000))
    assert len(sent) > 12 << 20
    assert curl(f"{table}&query=INSERT%20INTO%20t%20FORMAT%20TSV", data=sent) == b""
    assert curl(table, data=b"SELECT count(), sum(length(b)) FROM t") == b"150000\t15000000\n"


def test_compressed_uploads(curl: Curl, table: str) -> None:
    insert = f"{table}&query=INSERT%20INTO%20t%20FORMAT%20CSV"
    assert curl(insert, "-H", "Content-Encoding: gzip", data=gzip.compress(b"1,a\n")) == b""
    assert curl(insert, "-H", "Content-Encoding: lz4", data=lz4.frame.compress(b"2,b\n")) == b""
    assert curl(table, "-H", "Content-Encoding: gzip", data=gzip.compress(b"INSERT INTO t VALUES (3, 'c')")) == b""
    assert rows(curl, table) == b'1,"a"\n2,"b"\n3,"c"\n'
    broken = gzip.compress(b"4,d\n")[:-4]
    assert b"(CANNOT_DECOMPRESS)" in curl(insert, "-H", "Content-Encoding: gzip", data=broken)
    assert rows(curl, table) == b'1,"a"\n2,"b"\n3,"c"\n'


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("wait", ["0", "1"])
def test_compressed_answers(curl: Curl, encoding: str, wait: str) -> None:
    query = b"SELECT number FROM numbers(400000)"
    plain = b"".join(b"%d\n" % n for n in range(400_000))
    path = f"/?enable_http_compression=1&wait_end_of_query={wait}"
    _, headers, packed = curl.head(path, "-H", f"Accept-Encoding: {encoding}", data=query)
    assert headers["content-encoding"] == encoding
    assert len(packed) < len(plain)
    assert curl(path, "--compressed", "-H", f"Accept-Encoding: {encoding}", data=query) == plain
    assert curl.head(path, "--compressed", data=b"CREATE DATABASE IF NOT EXISTS default")[2] == b""
    assert "content-encoding" not in curl.head("/?enable_http_compression=0", "--compressed", data=b"SELECT 1")[1]


def test_errors(curl: Curl, table: str) -> None:
    status, headers, body = curl.head(table, data=b"SELECT * FROM nowhere")
    assert (status, headers["x-clickhouse-exception-code"]) == (404, "60")
    assert body.startswith(b"Code: 60. DB::Exception: ")
    assert b"(UNKNOWN_TABLE) (version " in body
    assert curl.head("/", data=b"")[0] == 400
    status, _, body = curl.head(table, data=b"INSERT INTO t FORMAT CSV\n1,one\nx,y\n")
    assert (status, b"(CANNOT_PARSE_INPUT_ASSERTION_FAILED)" in body) == (400, True)
    assert rows(curl, table) == b""
    assert curl.head("/nowhere")[0] == 404


def test_an_error_in_the_middle_breaks_the_answer_off(curl: Curl) -> None:
    query = b"SELECT throwIf(number = 3000000, 'in the middle') FROM numbers(5000000)"
    broken = curl.run("/", data=query)
    assert broken.returncode == 18
    assert b"in the middle" in broken.stdout[-1000:]
    status, _, body = curl.head("/?wait_end_of_query=1", data=query)
    assert (status, body.startswith(b"Code: 395.")) == (500, True)


def test_get_changes_nothing(curl: Curl, table: str, database: str) -> None:
    for statement in (
        f"INSERT%20INTO%20{database}.t%20VALUES(1,'x')",
        f"DROP%20TABLE%20{database}.t",
        "CREATE%20DATABASE%20made_by_get",
    ):
        status, headers, body = curl.head(f"/?query={statement}")
        assert (status, headers["x-clickhouse-exception-code"]) == (500, "164")
        assert b"use POST" in body
    assert curl(f"{table}&query=SELECT%20count()%20FROM%20t") == b"0\n"
    assert b"(READONLY)" in curl(f"/?readonly=0&query=TRUNCATE%20TABLE%20{database}.t")


def test_sessions(curl: Curl) -> None:
    session = f"/?session_id={uuid.uuid4().hex}"
    assert curl(session, data=b"CREATE TEMPORARY TABLE mine AS SELECT 1 AS a") == b""
    assert curl(session, data=b"SELECT * FROM mine") == b"1\n"
    assert b"(UNKNOWN_TABLE)" in curl("/", data=b"SELECT * FROM mine")
    assert curl(f"{session}&close_session=1", data=b"SELECT 1") == b"1\n"
    assert b"(SESSION_NOT_FOUND)" in curl(f"{session}&session_check=1", data=b"SELECT 1")


def test_nothing_of_a_request_is_left_for_the_next(curl: Curl, database: str) -> None:
    for _ in range(3):
        curl("/", data=b"SET max_block_size = 99")
        curl("/", data=f"USE {database}".encode())
        curl("/", data=b"CREATE TEMPORARY TABLE left (a Int8)")
        curl(f"/?database={database}&max_block_size=88", data=b"SELECT 1")
        curl(f"/?database={database}&param_x=5", data=b"INSERT INTO t VALUES ({x:UInt32}, '')")
        answer = curl("/", data=b"SELECT currentDatabase(), getSetting('max_block_size')")
        assert answer == curl(
            "/?query=SELECT%20'default'%2C%20value%20FROM%20system.settings%20WHERE%20name='max_block_size'"
        )
        assert b"\t99" not in answer
        assert b"(UNKNOWN_TABLE)" in curl("/", data=b"SELECT * FROM left")
        assert b"(UNKNOWN_QUERY_PARAMETER)" in curl("/", data=b"SELECT {x:UInt32}")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT * FROM file('/etc/passwd', 'LineAsString')", 497),
        ("SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", 497),
        ("SELECT 1 INTO OUTFILE '/tmp/lockstep-must-not-be'", 358),
        ("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString", 497),
        ("INSERT INTO FUNCTION file('/tmp/lockstep-must-not-be', 'CSV', 'a Int8') VALUES (1)", 497),
        ("CREATE TABLE f (a String) ENGINE = File(CSV, '/etc/passwd')", 497),
        (
            "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(path '/etc/passwd' format 'CSV')) LAYOUT(FLAT())",
            497,
        ),
        ("SELECT * FROM executable('id', 'TSV', 'a String')", 497),
        ("SYSTEM SHUTDOWN", 497),
        ("CREATE USER joe", 497),
        ("BACKUP DATABASE default TO File('/tmp/lockstep-must-not-be')", 497),
    ],
)
def test_nothing_outside_the_data_folder(curl: Curl, table: str, statement: str, code: int) -> None:
    _, headers, body = curl.head(table, data=statement.encode())
    assert headers.get("x-clickhouse-exception-code") == str(code), body


def test_a_table_that_is_not_there_is_just_unknown_in_the_default_database(curl: Curl) -> None:
    assert b"(UNKNOWN_TABLE)" in curl("/", data=b"SELECT * FROM nowhere")
    assert b"(UNKNOWN_DATABASE)" in curl("/?database=nowhere", data=b"SELECT 1")
