"""The engine's process: everything put together, started, stopped."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from runtime.errors import UserError
from storage.engine.access import Access
from storage.engine.connections import Connections
from storage.engine.database import Database
from storage.engine.errors import ClickHouseError
from storage.engine.lanes import Lanes
from storage.engine.noise import http_logger
from storage.engine.server import KEEP_ALIVE_S, URL_MAX, Server
from storage.engine.settings import EngineSettings

SHUTDOWN_S = 10.0
"""How long a stop waits for inserts that run."""

STOP_SEEN_S = 0.1


def run(folder: Path, settings: EngineSettings, ready: Callable[[int], None], stop: threading.Event) -> None:
    """Run the engine on a folder that we hold; as `serve`."""
    try:
        database = Database(folder, settings)
    except ClickHouseError as error:
        raise UserError(f"data folder {folder}: the engine does not start: {error.text[:300]}") from None
    except OSError as error:
        raise UserError(f"data folder {folder}: {error.strerror}; free some there, or choose another") from None
    try:
        lanes = Lanes(database, Connections(database.connection, time.monotonic))
        server = Server(lanes, Access(settings.clickhouse_user, settings.clickhouse_password), folder / "spool")
        asyncio.run(_serve(server, lanes, settings, ready, stop))
    finally:
        database.close()


async def _serve(
    server: Server, lanes: Lanes, settings: EngineSettings, ready: Callable[[int], None], stop: threading.Event
) -> None:
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        logger=http_logger(),
        handler_cancellation=True,
        auto_decompress=False,
        keepalive_timeout=KEEP_ALIVE_S,
        max_line_size=URL_MAX,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    host, port = settings.clickhouse_host, settings.clickhouse_port
    site = web.TCPSite(runner, host, port)
    try:
        try:
            await site.start()
        except OSError as error:
            raise UserError(
                f"the engine cannot listen on {host}:{port}: {error.strerror or error}; "
                "choose another by LOCKSTEP_CLICKHOUSE_HOST, LOCKSTEP_CLICKHOUSE_PORT"
            ) from None
        ready(runner.addresses[0][1])
        while not stop.is_set():
            await asyncio.sleep(STOP_SEEN_S)
        await site.stop()
        await lanes.end_reads()
    finally:
        await runner.cleanup()
        await lanes.close()
