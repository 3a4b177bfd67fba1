"""A migrated database for the whole run; tests keep apart by their cluster's name."""

import contextlib
import uuid
from collections.abc import Iterator

import msgspec
import pytest
from clickhouse_connect.driver.client import Client

from runtime.settings import ClickHouse
from storage.client import get_client
from storage.migrate import migrate


@pytest.fixture(scope="session")
def migrated(clickhouse: ClickHouse) -> Iterator[ClickHouse]:
    """Settings of a database with all tables."""
    name = f"storage_{uuid.uuid4().hex[:12]}"
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        migrate(client, name)
        yield msgspec.structs.replace(clickhouse, clickhouse_database=name)
        client.command(f"DROP DATABASE {name} SYNC")


@pytest.fixture(scope="session")
def database(migrated: ClickHouse) -> Iterator[Client]:
    """A client on a database with all tables."""
    with contextlib.closing(get_client(migrated)) as client:
        yield client
