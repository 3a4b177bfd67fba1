"""ClickHouse for tests: `clickhouse` (settings of a running one), `clickhouse_database` (with a database of your own).

It is LOCKSTEP_TEST_CLICKHOUSE (http://user:password@host:port) if set, else the embedded engine in its own process.
"""

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from runtime.settings import ClickHouse

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def engine(folder: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[ClickHouse]:
    """The embedded engine on `folder` in a process of its own, for the length of the block."""
    process = start_engine(folder, *options, environment=environment)
    try:
        yield ClickHouse(clickhouse_port=published_port(process))
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def start_engine(folder: Path, *options: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """The engine's process, started and not waited for; the first line it prints is its port."""
    return subprocess.Popen(
        [sys.executable, "-m", "storage.engine", "--data", str(folder), "--port", "0", *options],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
    )


def published_port(process: "subprocess.Popen[str]", timeout_s: float = 60.0) -> int:
    """The port that the process printed; RuntimeError where it ended instead (its reason is on standard error)."""
    assert process.stdout is not None
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        line = process.stdout.readline().strip()
    finally:
        timer.cancel()
    if not line.isdigit():
        process.kill()
        raise RuntimeError(f"the engine printed {line!r}, not its port")
    return int(line)


@pytest.fixture(scope="session")
def embedded_clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """Settings of the embedded engine, whatever else there is."""
    with engine(tmp_path_factory.mktemp("clickhouse")) as settings:
        yield msgspec.structs.replace(settings, clickhouse_database="default")


@pytest.fixture(scope="session")
def clickhouse(request: pytest.FixtureRequest) -> ClickHouse:
    """Settings of a running ClickHouse, shared by all tests: make your tables in a database of your own."""
    given = os.environ.get("LOCKSTEP_TEST_CLICKHOUSE")
    if not given:
        embedded: ClickHouse = request.getfixturevalue("embedded_clickhouse")
        return embedded
    url = urlsplit(given if "//" in given else f"http://{given}")
    return ClickHouse(
        clickhouse_host=url.hostname or "127.0.0.1",
        clickhouse_port=url.port or (8443 if url.scheme == "https" else 8123),
        clickhouse_user=unquote(url.username or "default"),
        clickhouse_password=unquote(url.password or ""),
        clickhouse_database="default",
        clickhouse_secure=url.scheme == "https",
    )


@pytest.fixture
def clickhouse_database(clickhouse: ClickHouse) -> Iterator[ClickHouse]:
    """The same ClickHouse with an empty database of this test's own, dropped after it."""
    from storage.client import get_client

    name = f"test_{uuid.uuid4().hex[:12]}"
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        client.command(f"CREATE DATABASE {name} ENGINE = Atomic")
        yield msgspec.structs.replace(clickhouse, clickhouse_database=name)
        client.command(f"DROP DATABASE {name} SYNC")
