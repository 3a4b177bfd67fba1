"""Clients that are not ours: Python's DB-API, headers and formats, and what Grafana's ClickHouse plugin sends."""

import csv
import gzip
import io
import json
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import lz4.frame
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import zstandard
from clickhouse_connect import dbapi
from clickhouse_connect.driver.client import Client

from runtime.settings import ClickHouse
from storage.client import get_client

ROWS = "SELECT number AS n, concat('x', toString(number)) AS s FROM numbers(3)"
NOON = 1_793_534_400


@pytest.fixture(scope="module")
def database(embedded_clickhouse: ClickHouse) -> Iterator[str]:
    """A database with one minute of two GPUs."""
    name = f"clients_{uuid.uuid4().hex[:8]}"
    with get_client(embedded_clickhouse) as client:
        client.command(f"CREATE DATABASE {name}")
        client.command(
            f"CREATE TABLE {name}.gpu_samples (ts DateTime64(3, 'UTC'), gpu LowCardinality(String), power_w Float32)"
            " ENGINE = MergeTree ORDER BY (gpu, ts)"
        )
        client.command(
            f"INSERT INTO {name}.gpu_samples SELECT toDateTime64({NOON} + intDiv(number, 2), 3, 'UTC'),"
            " concat('GPU-', toString(number % 2)), 100 * (1 + number % 2) FROM numbers(120)"
        )
        yield name
        client.command(f"DROP DATABASE {name}")


@pytest.fixture
def ask(embedded_clickhouse: ClickHouse) -> Any:
    """POST a statement with parameters and headers: status, headers in small letters, body."""

    def post(
        sql: str | bytes, headers: dict[str, str] | None = None, **parameters: object
    ) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", embedded_clickhouse.clickhouse_port, timeout=30)
        connection.request(
            "POST",
            f"/?{urlencode(parameters)}",
            body=sql.encode() if isinstance(sql, str) else sql,
            headers=headers or {},
        )
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    return post


def native(body: bytes) -> dict[str, list[Any]]:
    """The columns of one block of ClickHouse's Native format at revision 0, as another language's client reads it."""
    stream = io.BytesIO(body)

    def number() -> int:
        value = shift = 0
        while True:
            (byte,) = stream.read(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def text() -> str:
        return stream.read(number()).decode()

    fixed = {"UInt8": "B", "UInt64": "Q", "Float64": "d", "Float32": "f", "DateTime": "I", "Int64": "q"}
    columns, rows = number(), number()
    found: dict[str, list[Any]] = {}
    for _ in range(columns):
        name, type = text(), text()
        code = fixed.get(type.partition("(")[0])
        if code is None:
            assert type == "String", type
            found[name] = [text() for _ in range(rows)]
        else:
            found[name] = list(struct.unpack(f"<{rows}{code}", stream.read(rows * struct.calcsize(code))))
    return found


def test_the_db_api(embedded_clickhouse: ClickHouse, database: str) -> None:
    connection = dbapi.connect(host="127.0.0.1", port=embedded_clickhouse.clickhouse_port, database=database)
    cursor = connection.cursor()
    cursor.execute(
        "SELECT gpu, max(power_w) AS power_w FROM gpu_samples WHERE gpu = %(gpu)s GROUP BY gpu", {"gpu": "GPU-1"}
    )
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["gpu", "power_w"]
    assert cursor.fetchall() == [("GPU-1", 200.0)]
    cursor.execute("CREATE TABLE made (a UInt8, b String) ENGINE = MergeTree ORDER BY a")
    cursor.executemany("INSERT INTO made (a, b) VALUES (%s, %s)", [(1, "x"), (2, "it's")])
    cursor.execute("SELECT a, b FROM made ORDER BY a")
    assert cursor.fetchone() == (1, "x")
    assert cursor.fetchmany(5) == [(2, "it's")]
    assert cursor.fetchone() is None
    with pytest.raises(dbapi.Error, match="UNKNOWN_TABLE"):
        cursor.execute("SELECT * FROM nowhere")
    cursor.close()
    connection.close()


@pytest.mark.parametrize(
    ("format", "read"),
    [
        ("JSONCompact", lambda body: [[int(n), s] for n, s in json.loads(body)["data"]]),
        ("CSVWithNames", lambda body: [[int(n), s] for n, s in list(csv.reader(body.decode().splitlines()))[1:]]),
        ("Arrow", lambda body: [list(r.values()) for r in pyarrow.ipc.open_file(body).read_all().to_pylist()]),
        ("Parquet", lambda body: [list(r.values()) for r in pq.read_table(io.BytesIO(body)).to_pylist()]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["header", "parameter", "clause"])
def test_formats_however_they_are_asked_for(ask: Any, format: str, read: Any, how: str) -> None:
    status, headers, body = ask(
        f"{ROWS} FORMAT {format}" if how == "clause" else ROWS,
        {"X-ClickHouse-Format": format} if how == "header" else {},
        **({"default_format": format} if how == "parameter" else {}),
    )
    assert (status, headers["x-clickhouse-format"]) == (200, format)
    strings = [[n, s.decode() if isinstance(s, bytes) else s] for n, s in read(body)]
    assert strings == [[0, "x0"], [1, "x1"], [2, "x2"]]


def test_user_and_database_in_headers(ask: Any, database: str) -> None:
    headers = {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "", "X-ClickHouse-Database": database}
    assert ask("SELECT currentDatabase(), count() FROM gpu_samples", headers)[2] == f"{database}\t120\n".encode()
    status, said, _ = ask("SELECT 1", {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "wrong"})
    assert (status, said["x-clickhouse-exception-code"]) == (403, "516")


@pytest.mark.parametrize(
    ("encoding", "pack", "unpack"),
    [
        ("gzip", gzip.compress, gzip.decompress),
        ("lz4", lz4.frame.compress, lz4.frame.decompress),
        ("zstd", zstandard.compress, lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body)),
    ],
)
def test_compression_both_ways(ask: Any, database: str, encoding: str, pack: Any, unpack: Any) -> None:
    table = f"packed_{encoding}"
    ask(f"CREATE TABLE {table} (a UInt32) ENGINE = MergeTree ORDER BY a", database=database)
    rows = "".join(f"{n}\n" for n in range(5000)).encode()
    body = pack(f"INSERT INTO {table} FORMAT CSV\n".encode() + rows)
    status, _, said = ask(body, {"Content-Encoding": encoding}, database=database)
    assert (status, said) == (200, b"")
    asked = f"SELECT a FROM {table} ORDER BY a"
    _, headers, answer = ask(asked, {"Accept-Encoding": encoding}, database=database, enable_http_compression=1)
    assert headers["content-encoding"] == encoding
    assert unpack(answer) == rows


class TestGrafana:
    """The plugin speaks through clickhouse-go: POST, Native at revision 0, gzip, a time limit; macros are replaced
    before (toDateTime bounds, toStartOfInterval)."""

    HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "grafana-clickhouse-datasource/4.8.2 clickhouse-go/2.30.0"}

    def send(self, ask: Any, sql: str, database: str) -> dict[str, list[Any]]:
        status, headers, body = ask(
            sql, self.HEADERS, database=database, default_format="Native", max_execution_time=60,
            enable_http_compression=1, query_id=uuid.uuid4().hex,
        )  # fmt: skip
        assert status == 200, body
        assert headers["x-clickhouse-format"] == "Native"
        assert headers["content-encoding"] == "gzip"
        return native(gzip.decompress(body))

    def test_its_handshake_and_health_check(self, ask: Any, database: str) -> None:
        assert self.send(ask, "SELECT timeZone()", database)["timeZone()"] != [""]
        assert self.send(ask, "SELECT 1", database) == {"1": [1]}
        assert self.send(ask, "SELECT version()", database)["version()"][0].count(".") >= 2

    def test_a_table_panel(self, ask: Any, database: str) -> None:
        sql = (
            'SELECT CAST(gpu, \'String\') AS "gpu", max(power_w) AS "max" FROM "gpu_samples"'
            f" WHERE ( ts >= toDateTime({NOON}) AND ts <= toDateTime({NOON + 60}) )"
            " GROUP BY gpu ORDER BY gpu LIMIT 1000"
        )
        assert self.send(ask, sql, database) == {"gpu": ["GPU-0", "GPU-1"], "max": [100.0, 200.0]}

    def test_a_time_series_panel(self, ask: Any, database: str) -> None:
        sql = (
            'SELECT toStartOfInterval(toDateTime(ts), INTERVAL 20 second) as "time", avg(power_w) AS watt'
            f' FROM "{database}"."gpu_samples" WHERE ts >= toDateTime({NOON}) AND ts <= toDateTime({NOON + 3600})'
            " GROUP BY time ORDER BY time ASC"
        )
        found = self.send(ask, sql, database)
        assert found == {"time": [NOON, NOON + 20, NOON + 40], "watt": [150.0] * 3}

    def test_what_its_editor_asks_for(self, ask: Any, database: str) -> None:
        assert database in self.send(ask, "SHOW DATABASES", database)["name"]
        assert self.send(ask, f"SHOW TABLES FROM `{database}`", database)["name"][0] == "gpu_samples"
        described = self.send(ask, f'DESC TABLE "{database}"."gpu_samples"', database)
        assert described["name"] == ["ts", "gpu", "power_w"]

    def test_an_error_is_told_with_its_code(self, ask: Any, database: str) -> None:
        status, headers, body = ask("SELECT nothing", self.HEADERS, database=database, default_format="Native")
        assert (status, headers["x-clickhouse-exception-code"]) == (404, "47")
        assert b"UNKNOWN_IDENTIFIER" in body


def test_a_long_question_beside_inserts(embedded_clickhouse: ClickHouse, database: str) -> None:
    slow: list[float] = []
    with get_client(embedded_clickhouse) as client:
        client.command(f"CREATE TABLE {database}.beside (a UInt32) ENGINE = MergeTree ORDER BY a")

    def question() -> None:
        began = time.monotonic()
        with get_client(embedded_clickhouse) as reader:
            reader.query("SELECT sleepEachRow(0.2) FROM numbers(10) SETTINGS max_block_size = 1")
        slow.append(time.monotonic() - began)

    thread = threading.Thread(target=question)
    thread.start()
    inserted = 0
    with get_client(embedded_clickhouse) as writer:
        while thread.is_alive():
            insert_rows(writer, f"{database}.beside", inserted)
            inserted += 1
        assert writer.query(f"SELECT count() FROM {database}.beside").result_rows == [(100 * inserted,)]
    thread.join()
    assert inserted > 1, f"no insert ended during a question of {slow[0]:.1f} s"


def insert_rows(client: Client, table: str, batch: int) -> None:
    client.insert(table, [[batch * 100 + n] for n in range(100)], column_names=["a"])
