"""ClickHouse's engine in this process: started on a folder, spoken to through connections. The only user of chdb here.

One engine a process and one process a folder; any number of connections, each used by one thread at a time. Every call
blocks, and lets other threads run meanwhile.
"""

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import chdb
import msgspec

from storage.engine.errors import from_engine
from storage.engine.folder import configure, has_default
from storage.engine.request import quoted, set_statement
from storage.engine.settings import EngineSettings


class Summary(msgspec.Struct):
    """What a statement read and wrote, as far as the engine tells."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0

    def add(self, result: Any) -> None:
        """Count one result of the engine, or one block of a streamed one."""
        self.read_rows += result.storage_rows_read()
        self.read_bytes += result.storage_bytes_read()
        self.written_rows += result.rows_written()
        self.written_bytes += result.bytes_written()
        self.result_rows += result.rows_read()
        self.result_bytes += result.bytes_read()


class Connection:
    """One connection to the engine, opened when it is first used. Raises ClickHouseError throughout.

    `mark` is the log_comment that its statements run with unless a client sets one: by it they are found and ended.
    """

    def __init__(self, path: str, mark: str) -> None:
        self.mark = mark
        self._path = path
        self._open: Any = None
        self._laid: dict[str, str] = {}
        self._own: dict[str, str] = {}

    @property
    def _engine(self) -> Any:
        if self._open is None:
            self._open = _raising(chdb.connect, self._path)
        return self._open

    def lay(self, settings: Mapping[str, str], *, restore: bool) -> None:
        """Lay `settings` over the connection's own until the next `lay`, at no cost where they lie there already.

        Without `restore`, for a connection that never gets other settings, its own are not remembered.
        """
        settings = {"log_comment": self.mark, **settings}
        back = [name for name in self._laid if name not in settings]
        if back:
            self.query(("SET " + ", ".join(f"{name} = {self._own.pop(name)}" for name in back)).encode())
        new = {name: value for name, value in settings.items() if self._laid.get(name) != value}
        if restore:
            self._own |= self._values([name for name in new if name not in self._own])
        if new:
            self.query(set_statement(new).encode())
        self._laid = dict(settings)

    def forget(self) -> None:
        """Take the settings of now for the connection's own: a SET has changed some of them."""
        self._laid, self._own = {}, {}

    def _values(self, names: list[str]) -> dict[str, str]:
        """What sets `names` back: the values that the session has given them, or DEFAULT."""
        if not names:
            return {}
        chosen = ", ".join(map(quoted, names))
        answer, _ = self.query(
            f"SELECT name, value FROM system.settings WHERE changed AND name IN ({chosen})".encode(), "JSONEachRow"
        )
        changed = {row["name"]: quoted(row["value"]) for row in map(json.loads, answer.splitlines())}
        return {name: changed.get(name, "DEFAULT") for name in names}

    def query(
        self, text: bytes, format: str = "Null", params: Mapping[str, str] | None = None
    ) -> tuple[bytes, Summary]:
        """Run a statement to its end; its whole result."""
        result = _raising(self._engine.query, text, format, params=dict(params or {}))
        summary = Summary()
        summary.add(result)
        return result.bytes(), summary

    def stream(self, text: bytes, format: str, params: Mapping[str, str], summary: Summary) -> Iterator[bytes]:
        """Run a statement block by block; `summary` grows with them. Closing the iterator ends the query."""
        running = _raising(self._engine.send_query, text, format, params=dict(params))
        try:
            while (block := _raising(running.fetch)) is not None:
                summary.add(block)
                yield block.bytes()
        finally:
            running.close()

    def insert(self, head: bytes, format: str, params: Mapping[str, str], rows: Iterator[bytes]) -> Summary:
        """Run the INSERT that begins with `head` on `rows` in `format`; durable against a kill when it returns."""
        if params:
            self.query(set_statement(params, prefix="param_").encode())
        running = _raising(self._engine.send_insert, head, format)
        try:
            for chunk in rows:
                _raising(running.append, chunk)
            done = _raising(running.finish)
        finally:
            running.close()
        return Summary(written_rows=done.rows_written, written_bytes=done.bytes_written)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class Database:
    """The running engine. It stops when `close` has closed the last connection."""

    version: str = chdb.engine_version

    def __init__(self, folder: Path, settings: EngineSettings) -> None:
        self._folder = str(folder)
        self._control = Connection(f"{folder}?config-file={configure(folder, settings)}", "lockstep control")
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._own_default(folder)
        self.timezone = self._control.query(b"SELECT timezone()", "TSVRaw")[0].decode().strip()

    def _own_default(self, folder: Path) -> None:
        """Make database `default` an ordinary one: chdb's also reads files of this machine as tables."""
        engine, _ = self._control.query(b"SELECT engine FROM system.databases WHERE name = 'default'", "TSVRaw")
        if engine.strip() != b"Overlay":
            return
        if has_default(folder):
            self._control.query(b"DETACH DATABASE default")
            self._control.query(b"ATTACH DATABASE default")
        elif self._control.query(b"SELECT count() FROM system.tables WHERE database = 'default'", "TSV")[0] == b"0\n":
            self._control.query(b"DROP DATABASE default")
            self._control.query(b"CREATE DATABASE default ENGINE = Atomic")

    def connection(self) -> Connection:
        """A new connection, with settings of its own."""
        return Connection(self._folder, f"lockstep {next(self._numbers)}")

    def kill(self, mark: str) -> None:
        """Ask the statement that runs on the connection with `mark` to end."""
        with self._lock:
            self._control.query(f"KILL QUERY WHERE Settings['log_comment'] = {quoted(mark)} ASYNC".encode())

    def close(self) -> None:
        with self._lock:
            self._control.close()


def _raising(call: Any, *arguments: Any, **named: Any) -> Any:
    """`call`'s result; what chdb raises, of several kinds and with prefixes in the text, becomes a ClickHouseError."""
    try:
        return call(*arguments, **named)
    except (RuntimeError, chdb.ChdbError) as error:
        raise from_engine(str(error)) from None
