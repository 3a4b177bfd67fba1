"""Settings of the embedded engine."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runtime.errors import UserError
from runtime.settings import Port, Positive

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_Megabytes = Annotated[int, Meta(ge=64, le=1 << 20)]


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine keeps its data, where it listens, and what a query may take.

    Address, user and password have the names that its clients read them by. A port of 0 takes a free one. The memory
    limits count the process, code and Python included; a query above its own ends with code 241, one above its time
    with 159, and a client cannot ask for more.
    """

    engine_data: Annotated[str, Meta(min_length=1)] = "lockstep-data/clickhouse"
    clickhouse_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    clickhouse_port: Port = 8123
    clickhouse_user: Annotated[str, Meta(min_length=1)] = "default"
    clickhouse_password: str = ""
    engine_memory_mb: _Megabytes = 1024
    engine_query_memory_mb: _Megabytes = 512
    engine_query_time_s: Positive = 120.0
    engine_threads: Annotated[int, Meta(ge=1, le=256)] = 2


def check(settings: EngineSettings) -> None:
    """UserError for an address that others can reach without a password."""
    if settings.clickhouse_host not in LOOPBACK and not settings.clickhouse_password:
        raise UserError(
            f"the engine does not listen on {settings.clickhouse_host} without a password: "
            "set LOCKSTEP_CLICKHOUSE_PASSWORD, or listen on 127.0.0.1"
        )
    if settings.engine_query_memory_mb > settings.engine_memory_mb:
        raise UserError(
            f"LOCKSTEP_ENGINE_QUERY_MEMORY_MB={settings.engine_query_memory_mb} is more than the whole engine's "
            f"{settings.engine_memory_mb}: raise LOCKSTEP_ENGINE_MEMORY_MB"
        )
