"""Places for statements: bounded, and given back also by a client that went away."""

import asyncio
import io
import threading
from typing import Any, cast

import pytest

from storage.engine import lanes as module
from storage.engine.answer import Work
from storage.engine.connections import Connections
from storage.engine.database import Connection, Database
from storage.engine.errors import ClickHouseError
from storage.engine.lanes import Lanes
from storage.engine.request import call_of
from storage.engine.sql import outline


class FakeConnection:
    """Counts how often it was closed."""

    mark = "lockstep 1"
    closed = 0

    def close(self) -> None:
        self.closed += 1


class FakeDatabase:
    """Ends whatever waits for `killed`."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill(self, mark: str) -> None:
        self.killed.set()


def work(text: bytes) -> Work:
    return Work(call_of("POST", [], {}), outline(text), text, io.BytesIO())


def lanes(database: object, connection: object) -> Lanes:
    return Lanes(cast(Database, database), Connections(lambda: cast(Connection, connection), lambda: 0.0))


def test_one_request_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)

    async def scenario() -> None:
        held = lanes(FakeDatabase(), FakeConnection())
        async with held.enter(work(b"SELECT 1")):
            with pytest.raises(ClickHouseError) as full:
                held.enter(work(b"SELECT 1"))
            assert full.value.code == 202
        async with held.enter(work(b"SELECT 1")):
            pass
        await held.close()

    asyncio.run(scenario())


async def cancelled_in_a_step(held: Lanes, text: bytes, step: Any) -> None:
    started = threading.Event()

    def blocking() -> None:
        started.set()
        step()

    async def request() -> None:
        async with held.enter(work(text)) as lane:
            await lane.do(blocking)

    task = asyncio.ensure_future(request())
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await held.close()


def test_a_query_that_nobody_waits_for_is_ended() -> None:
    database, connection = FakeDatabase(), FakeConnection()
    asyncio.run(cancelled_in_a_step(lanes(database, connection), b"SELECT 1", lambda: database.killed.wait(10)))
    assert database.killed.is_set()
    assert connection.closed == 1


def test_an_insert_goes_on_without_its_client() -> None:
    database, connection = FakeDatabase(), FakeConnection()
    done: list[bool] = []

    def step() -> None:
        done.append(database.killed.wait(0.3))

    asyncio.run(cancelled_in_a_step(lanes(database, connection), b"INSERT INTO t VALUES (1)", step))
    assert done == [False]
    assert connection.closed == 1
