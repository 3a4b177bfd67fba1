"""Worker threads: reads and writes have their own, so that long queries never hold up an insert."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from storage.engine.answer import Work
from storage.engine.connections import Connections
from storage.engine.database import Connection, Database
from storage.engine.errors import TOO_MANY_SIMULTANEOUS_QUERIES, ClickHouseError

READERS, WRITERS = 16, 4
MOST = 100
"""Requests at a time, waiting ones included; one more is refused as ClickHouse refuses it (code 202)."""

KILL_AGAIN_S = 0.5

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Lanes:
    """Runs steps of statements in threads, and gets every connection back, also from a client that went away."""

    def __init__(self, database: Database, connections: Connections) -> None:
        self.database, self.connections = database, connections
        self.readers = ThreadPoolExecutor(READERS, "read")
        self.writers = ThreadPoolExecutor(WRITERS, "write")
        self._open: set[Lane] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    def enter(self, work: Work) -> "Lane":
        """A place for one statement, to be used by `async with`; ClickHouseError where there is none."""
        if len(self._open) >= MOST:
            raise ClickHouseError(TOO_MANY_SIMULTANEOUS_QUERIES, f"Too many simultaneous queries: {MOST}")
        settings = work.settings()
        lane = Lane(self, work, settings, self.connections.take(work.call.session, settings))
        self._open.add(lane)
        return lane

    def leave(self, lane: "Lane") -> "asyncio.Task[None]":
        task = asyncio.ensure_future(self._leave(lane))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return task

    async def _leave(self, lane: "Lane") -> None:
        while lane.step is not None and not lane.step.done():
            if lane.read:
                await self._kill(lane)
            await asyncio.wait([lane.step], timeout=KILL_AGAIN_S)
        if lane.step is not None:
            lane.step.exception()
        if lane.on_close is not None:
            await self._in(self.writers, lane.on_close)
        self._open.discard(lane)
        clean = lane.well and lane.work.leaves_no_trace
        for connection in self.connections.give_back(
            lane.work.call.session, lane.settings, lane.connection, clean=clean
        ):
            await self._in(self.writers, connection.close)

    async def _kill(self, lane: "Lane") -> None:
        try:
            await self._in(self.writers, self.database.kill, lane.connection.mark)
        except ClickHouseError as error:
            _log.warning("a query that nobody waits for could not be ended: %s", error.text)

    @staticmethod
    async def _in(pool: ThreadPoolExecutor, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)

    async def end_reads(self) -> None:
        """End the queries that run; inserts go on."""
        for lane in list(self._open):
            if lane.read:
                lane.abandoned = True
                await self._kill(lane)

    async def close(self) -> None:
        """Wait for what runs, then give every connection and thread up."""
        while self._leaving:
            await asyncio.wait(self._leaving)
        for connection in self.connections.all():
            await self._in(self.writers, connection.close)
        self.readers.shutdown()
        self.writers.shutdown()


class Lane:
    """One statement's connection and threads."""

    def __init__(self, lanes: Lanes, work: Work, settings: dict[str, str], connection: Connection) -> None:
        self.work, self.settings, self.connection = work, settings, connection
        self.read = work.statement.reads
        self.step: asyncio.Future[object] | None = None
        self.on_close: Callable[[], None] | None = None
        self.abandoned = False
        self.well = True
        self._lanes = lanes

    async def do(self, function: Callable[..., T], *arguments: object) -> T:
        """Run one blocking step in the lane's threads. If the caller is cancelled, the step is ended or goes on."""
        pool = self._lanes.readers if self.read else self._lanes.writers
        step = asyncio.get_running_loop().run_in_executor(pool, self._unless_abandoned, function, *arguments)
        self.step = step  # type: ignore[assignment]
        return await asyncio.shield(step)

    def _unless_abandoned(self, function: Callable[..., T], *arguments: object) -> T:
        if self.abandoned:
            raise ClickHouseError((394, "QUERY_WAS_CANCELLED"), "Query was cancelled.")
        return function(*arguments)

    async def __aenter__(self) -> "Lane":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.well = self.well and kind is None
        self.abandoned = self.read
        await asyncio.shield(self._lanes.leave(self))
