"""The engine as a process: what it refuses, how it stops, and what is there after it was killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from clickhouse_provider import ROOT, engine, published_port, start_engine

from storage.check import differences
from storage.migrate import migrate

pytestmark = pytest.mark.slow

BATCH = 500


def connect(port: int) -> Client:
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=port, autogenerate_session_id=False, dedicated_pool=True, query_retries=0
    )


def refused(folder: Path, *options: str, **environment: str) -> str:
    """The one line of an engine that does not start."""
    process = subprocess.run(
        [sys.executable, "-m", "storage.engine", "--data", str(folder), "--port", "0", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 2, process.stderr
    assert process.stdout == ""
    lines = process.stderr.splitlines()
    assert len(lines) == 1, process.stderr
    return lines[0]


def test_a_second_process_on_the_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with engine(tmp_path) as settings:
        line = refused(tmp_path)
        assert str(tmp_path) in line
        assert "in use" in line
        with closing(connect(settings.clickhouse_port)) as client:
            assert client.command("SELECT 1") == 1


def test_no_other_address_than_loopback_without_a_password(tmp_path: Path) -> None:
    assert "LOCKSTEP_CLICKHOUSE_PASSWORD" in refused(tmp_path, "--host", "0.0.0.0")


def test_settings_that_cannot_work_are_one_line(tmp_path: Path) -> None:
    assert "LOCKSTEP_ENGINE_QUERY_TIME_S" in refused(tmp_path, LOCKSTEP_ENGINE_QUERY_TIME_S="0")
    assert "LOCKSTEP_ENGINE_QUERY_MEMORY_MB" in refused(
        tmp_path, LOCKSTEP_ENGINE_QUERY_MEMORY_MB="4000", LOCKSTEP_ENGINE_MEMORY_MB="1000"
    )
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused(file)
    (tmp_path / "odd" / "users.xml").mkdir(parents=True)
    assert "choose another" in refused(tmp_path / "odd")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refused(tmp_path, "--port", str(port))


def test_with_a_password_it_listens_everywhere(tmp_path: Path) -> None:
    with engine(tmp_path, "--host", "0.0.0.0", environment={"LOCKSTEP_CLICKHOUSE_PASSWORD": "secret"}) as settings:
        client = clickhouse_connect.get_client(host="127.0.0.1", port=settings.clickhouse_port, password="secret")
        with closing(client):
            assert client.command("SELECT 1") == 1


def test_data_is_there_after_a_restart(tmp_path: Path) -> None:
    with engine(tmp_path) as settings, closing(connect(settings.clickhouse_port)) as client:
        client.command("CREATE TABLE kept (a UInt32) ENGINE = MergeTree ORDER BY a")
        client.command("CREATE DATABASE other")
        client.command("CREATE TABLE other.kept (a UInt32) ENGINE = ReplacingMergeTree ORDER BY a")
        for table in ("kept", "other.kept"):
            client.insert(table, [[1], [2]], column_names=["a"])
    for _ in range(2):
        with engine(tmp_path) as settings, closing(connect(settings.clickhouse_port)) as client:
            assert client.command("SELECT sum(a) FROM kept") == 3
            assert client.command("SELECT sum(a) FROM other.kept FINAL") == 3


def test_a_folder_whose_default_database_never_had_a_table_starts_again(tmp_path: Path) -> None:
    for life in range(3):
        with engine(tmp_path) as settings, closing(connect(settings.clickhouse_port)) as client:
            assert client.command("SELECT engine FROM system.databases WHERE name = 'default'") == "Atomic"
            client.command("CREATE DATABASE IF NOT EXISTS other")
            if life == 1:
                client.command("CREATE TABLE passing (a Int8) ENGINE = MergeTree ORDER BY a")
                client.command("DROP TABLE passing SYNC")


def test_kill_9_of_an_engine_that_did_nothing_leaves_a_folder_that_starts(tmp_path: Path) -> None:
    """Killed twice when new, after an orderly stop, and after a migration."""
    ends = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]
    for life, end in enumerate(ends):
        process = start_engine(tmp_path)
        assert process.stdout is not None
        try:
            port = published_port(process)
            if life == 3:
                with closing(connect(port)) as client:
                    migrate(client, "lockstep")
            process.send_signal(end)
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    with engine(tmp_path) as settings, closing(connect(settings.clickhouse_port)) as client:
        assert not differences(client, "lockstep")
        client.command("CREATE TABLE kept (a UInt32) ENGINE = MergeTree ORDER BY a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_also_with_work_in_it(tmp_path: Path, number: signal.Signals) -> None:
    process = start_engine(tmp_path)
    assert process.stdout is not None
    ended: list[str] = []
    try:
        port = published_port(process)

        def long() -> None:
            try:
                with closing(connect(port)) as client:
                    client.query("SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1")
            except Error as error:
                ended.append(str(error))

        thread = threading.Thread(target=long)
        with closing(connect(port)) as client:
            client.command("CREATE TABLE stopped (a UInt32) ENGINE = MergeTree ORDER BY a")
            client.insert("stopped", [[1]], column_names=["a"])
            thread.start()
            end = time.monotonic() + 20
            while client.command("SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'") != 1:
                assert time.monotonic() < end
                time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(20) == 0
        thread.join(20)
        assert len(ended) == 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with engine(tmp_path) as settings, closing(connect(settings.clickhouse_port)) as client:
        assert client.command("SELECT count() FROM stopped") == 1


def insert_until_killed(client: Client, batch: int, acknowledged: set[int]) -> int:
    """Insert batch after batch; the number of the last that was sent."""
    while True:
        batch += 1
        rows = [[batch] * BATCH, list(range(BATCH))]
        try:
            client.insert("loop", rows, ["batch", "n"], column_type_names=["UInt32", "UInt32"], column_oriented=True)
        except Error:
            return batch
        acknowledged.add(batch)


def test_kill_9_in_a_loop_of_inserts_leaves_exactly_the_acknowledged_ones(tmp_path: Path) -> None:
    create = "CREATE TABLE IF NOT EXISTS loop (batch UInt32, n UInt32) ENGINE = MergeTree ORDER BY (batch, n)"
    acknowledged: set[int] = set()
    batch = 0
    for life in range(4):
        process = start_engine(tmp_path)
        assert process.stdout is not None
        try:
            with closing(connect(published_port(process))) as client:
                client.command(create)
                counts = dict(client.query("SELECT batch, count() FROM loop GROUP BY batch").result_rows)
                # The last one sent may be there without an answer: whole, like every other.
                assert set(counts.values()) <= {BATCH}
                assert acknowledged <= set(counts) <= acknowledged | {batch}
                acknowledged = set(counts)
                killer = threading.Timer(0.3 + 0.15 * life, process.kill)
                killer.start()
                batch = insert_until_killed(client, batch, acknowledged)
                killer.join()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    assert len(acknowledged) > 3
