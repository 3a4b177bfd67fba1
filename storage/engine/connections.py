"""Connections for requests: the one of its session, or any that already has the request's settings."""

from collections.abc import Callable, Mapping

import msgspec

from storage.engine.database import Connection
from storage.engine.errors import (
    SESSION_IS_LOCKED,
    SESSION_NOT_FOUND,
    TOO_MANY_SIMULTANEOUS_QUERIES,
    ClickHouseError,
)
from storage.engine.request import Session

SESSIONS = 1000
"""At a time: clickhouse-connect opens one per client, which ends a minute after its last request."""

IDLE = 16
"""Connections that wait for a request with the same settings: opening and setting up costs as much as a small query."""


class _Held(msgspec.Struct):
    connection: Connection
    busy: bool = True
    expires_s: float = 0.0


class Connections:
    """Who has which connection. Used from one thread; opening and closing are left to the caller's threads."""

    def __init__(self, connect: Callable[[], Connection], now: Callable[[], float]) -> None:
        self._connect, self._now = connect, now
        self._sessions: dict[str, _Held] = {}
        self._idle: list[tuple[Mapping[str, str], Connection]] = []

    def take(self, session: Session | None, settings: Mapping[str, str]) -> Connection:
        """A connection for a request, to be given back. ClickHouseError where its session is busy or unknown."""
        if session is None:
            for place, (laid, connection) in enumerate(self._idle):
                if laid == settings:
                    del self._idle[place]
                    return connection
            return self._connect()
        held = self._sessions.get(session.id)
        if held is None:
            if session.must_exist:
                raise ClickHouseError(SESSION_NOT_FOUND, f"Session {session.id!r} not found")
            if len(self._sessions) >= SESSIONS:
                raise ClickHouseError(
                    TOO_MANY_SIMULTANEOUS_QUERIES, f"{SESSIONS} sessions are open: close one, or use none"
                )
            held = self._sessions[session.id] = _Held(self._connect())
        elif held.busy:
            raise ClickHouseError(SESSION_IS_LOCKED, f"Session {session.id!r} is locked by a concurrent client")
        held.busy = True
        return held.connection

    def give_back(
        self, session: Session | None, settings: Mapping[str, str], connection: Connection, *, clean: bool
    ) -> list[Connection]:
        """End a request; the connections that are to be closed. A `clean` one is as its settings made it."""
        if session is not None:
            held = self._sessions[session.id]
            held.busy = False
            held.expires_s = self._now() + (0.0 if session.close else session.timeout_s)
            return self.expired()
        if not clean:
            return [connection, *self.expired()]
        self._idle.append((settings, connection))
        old = [self._idle.pop(0)[1]] if len(self._idle) > IDLE else []
        return [*old, *self.expired()]

    def expired(self) -> list[Connection]:
        """Forget the sessions whose time is over; their connections, to be closed."""
        now = self._now()
        over = [name for name, held in self._sessions.items() if not held.busy and held.expires_s <= now]
        return [self._sessions.pop(name).connection for name in over]

    def all(self) -> list[Connection]:
        """Forget every connection; they are to be closed."""
        every = [held.connection for held in self._sessions.values()] + [connection for _, connection in self._idle]
        self._sessions, self._idle = {}, []
        return every
