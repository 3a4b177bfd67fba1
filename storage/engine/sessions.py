"""Connections for requests: one of its own for each, or the one of its session."""

from collections.abc import Callable

import msgspec

from storage.engine.database import Connection
from storage.engine.errors import (
    SESSION_IS_LOCKED,
    SESSION_NOT_FOUND,
    TOO_MANY_SIMULTANEOUS_QUERIES,
    ClickHouseError,
)
from storage.engine.request import Session

MOST = 1000
"""Sessions at a time: clickhouse-connect opens one per client, which ends a minute after its last request."""


class _Entry(msgspec.Struct):
    connection: Connection
    busy: bool
    expires_s: float


class Sessions:
    """Who has which connection. Used from one thread; opening and closing are left to the caller's threads."""

    def __init__(self, connect: Callable[[], Connection], now: Callable[[], float]) -> None:
        self._connect, self._now = connect, now
        self._entries: dict[str, _Entry] = {}

    def take(self, session: Session | None) -> Connection:
        """The connection for a request; it must be given back. ClickHouseError where the session is busy or unknown."""
        if session is None:
            return self._connect()
        entry = self._entries.get(session.id)
        if entry is None:
            if session.must_exist:
                raise ClickHouseError(SESSION_NOT_FOUND, f"Session {session.id!r} not found")
            if len(self._entries) >= MOST:
                raise ClickHouseError(
                    TOO_MANY_SIMULTANEOUS_QUERIES, f"{MOST} sessions are open: close one, or use none"
                )
            entry = self._entries[session.id] = _Entry(self._connect(), True, 0.0)
        elif entry.busy:
            raise ClickHouseError(SESSION_IS_LOCKED, f"Session {session.id!r} is locked by a concurrent client")
        entry.busy = True
        return entry.connection

    def give_back(self, session: Session | None, connection: Connection) -> list[Connection]:
        """End a request; the connections that are to be closed."""
        if session is None:
            return [connection, *self.expired()]
        entry = self._entries[session.id]
        entry.busy = False
        entry.expires_s = self._now() + (0.0 if session.close else session.timeout_s)
        return self.expired()

    def expired(self) -> list[Connection]:
        """Forget the sessions whose time is over; their connections, to be closed."""
        now = self._now()
        over = [name for name, entry in self._entries.items() if not entry.busy and entry.expires_s <= now]
        return [self._entries.pop(name).connection for name in over]

    def all(self) -> list[Connection]:
        """Forget every session; their connections, to be closed."""
        entries, self._entries = self._entries, {}
        return [entry.connection for entry in entries.values()]
