"""A client, or one line that says what is wrong."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.httpclient import HttpClient

from runtime.errors import UserError
from runtime.ports import free_port
from runtime.settings import ClickHouse, Connection, from_environment
from storage import client as client_module
from storage.client import StorageUnreachable, ask, get_client
from storage.service import WriterSettings, require_tables


@contextlib.contextmanager
def answering(status: int, code: int | None, body: str) -> Iterator[ClickHouse]:
    """A server that answers everything with one error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            if code is not None:
                self.send_header("X-ClickHouse-Exception-Code", str(code))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ClickHouse(clickhouse_port=server.server_port, clickhouse_user="eve", clickhouse_password="hunter2")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def said(settings: ClickHouse) -> str:
    with pytest.raises(UserError) as caught:
        get_client(settings)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


def test_nothing_at_the_address_says_where_and_what_to_do() -> None:
    port = free_port()
    with pytest.raises(StorageUnreachable, match=rf"at 127.0.0.1:{port} does not answer \(Connection refused\): "):
        get_client(ClickHouse(clickhouse_port=port))


def test_what_never_answers_is_waited_for_aloud_and_not_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "HANDSHAKE_S", 2.0)
    begun = time.monotonic()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        assert "does not answer (timed out)" in said(ClickHouse(clickhouse_port=port))
    assert time.monotonic() - begun < 15
    assert [record.getMessage() for record in caplog.records] == [f"waiting for ClickHouse at 127.0.0.1:{port} ..."]


def test_a_querys_own_patience_is_not_that_of_the_first_questions(clickhouse: ClickHouse) -> None:
    made = get_client(clickhouse, database=False, timeout_s=77)
    assert isinstance(made, HttpClient)
    assert made.timeout.read_timeout == 77
    made.close()


def test_a_server_without_tls_is_asked_for_none(clickhouse: ClickHouse) -> None:
    complaint = said(msgspec.structs.replace(clickhouse, clickhouse_secure=True))
    assert "TLS failed" in complaint
    assert "LOCKSTEP_CLICKHOUSE_SECURE" in complaint


def test_a_wrong_statement_is_answered_in_the_servers_own_words(database: Client) -> None:
    with pytest.raises(UserError, match=r"^Code: 47\. DB::Exception: .*`nope`") as caught:
        ask(database, "SELECT nope FROM system.one", "JSON")
    assert "http://" not in str(caught.value)


def test_a_wrong_password_says_which_user_and_which_settings() -> None:
    with answering(
        403, 516, "Code: 516. DB::Exception: eve: Authentication failed. (AUTHENTICATION_FAILED)"
    ) as settings:
        assert "refuses user 'eve': check LOCKSTEP_CLICKHOUSE_USER and LOCKSTEP_CLICKHOUSE_PASSWORD" in said(settings)


def test_another_server_at_the_address_is_not_taken_for_clickhouse() -> None:
    with answering(404, None, "<html>\nnot found</html>") as settings, pytest.raises(StorageUnreachable, match="404"):
        get_client(settings)


def test_a_missing_database_says_how_to_make_it(clickhouse: ClickHouse) -> None:
    absent = msgspec.structs.replace(clickhouse, clickhouse_database="nobody_made_this")
    assert "has no database 'nobody_made_this': make it with `lockstep storage migrate`" in said(absent)


def test_settings_of_every_query_are_ours(database: Client) -> None:
    found = database.query("SELECT name, value FROM system.settings WHERE name IN ('async_insert')").result_rows
    assert found == [("async_insert", "0")]
    assert database.query("SELECT toDateTime(0, 'UTC')").result_rows[0][0].utcoffset().total_seconds() == 0
    assert not database.params.get("session_id")


def test_the_writer_refuses_a_database_that_lacks_its_tables(clickhouse_database: ClickHouse, database: Client) -> None:
    require_tables(database, str(database.database))
    lacking = pytest.raises(UserError, match=r"table \w+ is missing and \d+ more: run `lockstep storage migrate`")
    with contextlib.closing(get_client(clickhouse_database)) as client, lacking:
        require_tables(client, clickhouse_database.clickhouse_database)


def test_the_writers_settings_are_those_of_broker_and_clickhouse() -> None:
    given = {"LOCKSTEP_CLICKHOUSE_HOST": "ch-1", "LOCKSTEP_CLICKHOUSE_SECURE": "true", "LOCKSTEP_BROKER": "k:9"}
    settings = from_environment(WriterSettings, given)
    assert settings.clickhouse() == from_environment(ClickHouse, given)
    own = {f.name: (f.type, f.default) for f in msgspec.structs.fields(WriterSettings)}
    for shared in (ClickHouse, Connection):
        for field in msgspec.structs.fields(shared):
            assert own[field.name] == (field.type, field.default)
