"""An engine with a password and small limits: who gets in, and what a query may take."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import clickhouse_connect
import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from clickhouse_provider import engine

from runtime.settings import ClickHouse
from storage.client import get_client

LONG = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    environment = {
        "LOCKSTEP_CLICKHOUSE_USER": "joe",
        "LOCKSTEP_CLICKHOUSE_PASSWORD": "sécret",
        "LOCKSTEP_ENGINE_QUERY_TIME_S": "30",
        "LOCKSTEP_ENGINE_QUERY_MEMORY_MB": "200",
        "LOCKSTEP_ENGINE_MEMORY_MB": "400",
    }
    with engine(tmp_path_factory.mktemp("guarded"), environment=environment) as settings:
        yield msgspec.structs.replace(
            settings, clickhouse_user="joe", clickhouse_password="sécret", clickhouse_database="default"
        )


@pytest.fixture
def client(guarded: ClickHouse) -> Iterator[Client]:
    with get_client(guarded) as client:
        yield client


def ask(settings: ClickHouse, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", settings.clickhouse_port, timeout=30)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers.get("X-ClickHouse-Exception-Code", "")


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not come to be"
        time.sleep(0.02)


def test_right_credentials_everywhere_they_may_stand(guarded: ClickHouse, client: Client) -> None:
    assert client.command("SELECT 1") == 1
    query = "query=SELECT%201"
    assert ask(guarded, f"/?{query}&user=joe&password={quote('sécret')}") == (200, "")
    assert ask(guarded, f"/?{query}", {"Authorization": "Basic am9lOnPDqWNyZXQ="}) == (200, "")
    assert ask(guarded, "/ping") == (200, "")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/?query=SELECT%201", {}),
        ("/?query=SELECT%201&user=joe&password=secret", {}),
        ("/?query=SELECT%201", {"X-ClickHouse-User": "joe", "X-ClickHouse-Key": "secret"}),
        ("/?query=SELECT%201", {"X-ClickHouse-User": "default"}),
        ("/?query=SELECT%201", {"Authorization": "Basic am9lOnNlY3JldA=="}),
    ],
)
def test_wrong_credentials_are_code_516(guarded: ClickHouse, path: str, headers: dict[str, str]) -> None:
    assert ask(guarded, path, headers) == (403, "516")


def test_a_client_with_a_wrong_password(guarded: ClickHouse) -> None:
    with pytest.raises(DatabaseError) as refused:
        clickhouse_connect.get_client(host="127.0.0.1", port=guarded.clickhouse_port, username="joe", password="no")
    assert refused.value.code == 516


def test_memory(client: Client) -> None:
    with pytest.raises(DatabaseError) as ended:
        client.query("SELECT groupArray(number) FROM numbers(1000000000)")
    assert ended.value.code == 241
    assert client.command("SELECT 1") == 1


def test_time(client: Client) -> None:
    with pytest.raises(DatabaseError) as ended:
        client.query(LONG, settings={"max_execution_time": 1})
    assert ended.value.code == 159


@pytest.mark.parametrize("setting", ["max_execution_time=31", "max_execution_time=0", "max_memory_usage=300000000"])
def test_a_client_cannot_raise_its_limits(client: Client, setting: str) -> None:
    name, _, value = setting.partition("=")
    for query, settings in (
        ("SELECT 1", {name: value}),
        (f"SELECT 1 SETTINGS {setting}", {}),
        (f"SET {setting}", {}),
    ):
        with pytest.raises(DatabaseError) as refused:
            client.command(query, settings=settings)
        assert refused.value.code == 452


@pytest.mark.parametrize("format", ["JSON", "TabSeparated"])
def test_a_result_larger_than_the_engine_s_memory(guarded: ClickHouse, client: Client, format: str) -> None:
    size = 0
    with client.raw_stream("SELECT number, toString(number) AS text FROM numbers(9000000)", fmt=format) as answer:
        while piece := answer.read(1 << 20):
            size += len(piece)
    assert size > (400 << 20 if format == "JSON" else 100 << 20)


def test_a_query_ends_when_its_client_goes_away(guarded: ClickHouse, client: Client) -> None:
    running = "SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'"
    request = (
        f"GET /?user=joe&password={quote('sécret')}&query={quote(LONG)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    )
    with socket.create_connection(("127.0.0.1", guarded.clickhouse_port)) as connection:
        connection.sendall(request)
        until(lambda: client.command(running) == 1)
    until(lambda: client.command(running) == 0)


def test_a_stream_ends_when_its_client_goes_away(guarded: ClickHouse, client: Client) -> None:
    running = "SELECT count() FROM system.processes WHERE query LIKE '%numbers(5' || '000000000)%'"
    request = (
        f"GET /?user=joe&password={quote('sécret')}&query={quote('SELECT number FROM numbers(5000000000)')} HTTP/1.1"
        "\r\nHost: 127.0.0.1\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", guarded.clickhouse_port)) as connection:
        connection.sendall(request)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        assert client.command(running) == 1
    until(lambda: client.command(running) == 0)


def test_an_upload_that_breaks_off_inserts_nothing(guarded: ClickHouse, client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE broken (a UInt32) ENGINE = MergeTree ORDER BY a")
    path = f"/?user=joe&password={quote('sécret')}&query={quote('INSERT INTO broken FORMAT CSV')}"
    with socket.create_connection(("127.0.0.1", guarded.clickhouse_port)) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n1\n2\n".encode())
    with socket.create_connection(("127.0.0.1", guarded.clickhouse_port)) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1\n2\n\r\n".encode()
        )
    client.insert("broken", [[7]], column_names=["a"])
    assert client.query("SELECT a FROM broken").result_rows == [(7,)]
