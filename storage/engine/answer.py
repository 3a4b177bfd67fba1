"""Running one statement on one connection, in a worker thread: its answer as a stream of bytes."""

import shutil
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec

from storage.engine.database import Connection, Summary
from storage.engine.errors import NOT_ENOUGH_SPACE, READONLY_CODE, ClickHouseError
from storage.engine.formats import STREAMED
from storage.engine.request import Call, quoted
from storage.engine.sql import Statement

CHUNK = 1 << 20

SPACE_BYTES = 4 * CHUNK
"""With less left on the disk, nothing is begun that writes there: a few blocks of a result."""


class Work(msgspec.Struct, frozen=True):
    """A statement, ready to run: its text, its outline, and for an INSERT what follows the text."""

    call: Call
    statement: Statement
    text: bytes
    rest: IO[bytes]

    @property
    def format(self) -> str:
        return self.statement.format or self.call.format

    @property
    def streamed(self) -> bool:
        return self.statement.streamable and self.format in STREAMED

    def into(self, path: Path) -> bytes:
        """The statement with its result going to a file."""
        at = self.statement.output_at
        clause = f"\nINTO OUTFILE {quoted(str(path))} {'' if self.statement.format else 'FORMAT ' + self.format} "
        return self.text[:at] + clause.encode() + self.text[at:]

    def rows(self) -> Iterator[bytes]:
        """The rows of an INSERT, in pieces."""
        if len(self.text) > self.statement.data_at:
            yield self.text[self.statement.data_at :]
        while piece := self.rest.read(CHUNK):
            yield piece

    @property
    def needs_space(self) -> bool:
        """Whether it writes into the data folder: rows, or a result that goes through a file."""
        return self.statement.insert is not None or (self.statement.of_rows and not self.streamed)

    @property
    def leaves_no_trace(self) -> bool:
        """Whether the connection is afterwards as before, and may serve another request."""
        if self.statement.insert is not None:
            return not self.call.params
        return self.statement.answers

    def settings(self) -> dict[str, str]:
        """What to run with: the request's own, and what follows from it."""
        settings = dict(self.call.settings)
        if self.call.read_only and settings.get("readonly") != "1":
            settings["readonly"] = "2"
        if self.format.lower() == "values" and len(self.text) >= CHUNK:
            # Rows behind what was looked at are values only.
            settings["input_format_values_interpret_expressions"] = "0"
            settings["input_format_values_deduce_templates_of_expressions"] = "0"
        return settings


class Answer:
    """What a statement answers: `format` of the bytes (None: no result), `summary` so far, and `next` until None.

    The first CHUNK bytes are waited for, so that an answer that is short, or fails early, is known as such before
    anything is sent; `goes_on` says that there may be more.
    """

    def __init__(self, format: str | None, summary: Summary, chunks: Iterator[bytes]) -> None:
        self.format, self.summary, self.goes_on = format, summary, True
        self._chunks, self._held = chunks, deque[bytes]()
        size = 0
        while self.goes_on and size < CHUNK:
            chunk = next(chunks, None)
            self.goes_on = chunk is not None
            if chunk is not None:
                self._held.append(chunk)
                size += len(chunk)

    def next(self) -> bytes | None:
        """The next bytes; raises ClickHouseError where the statement fails on its way."""
        return self._held.popleft() if self._held else next(self._chunks, None)

    def close(self) -> None:
        """End the statement, finished or not."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def run(connection: Connection, settings: Mapping[str, str], work: Work, folder: Path) -> Answer:
    """Start `work` and wait for its first bytes, so that what is wrong from the start is raised here."""
    if work.needs_space:
        require_space(folder, shutil.disk_usage(folder).free)
    try:
        connection.lay(settings, restore=work.call.session is not None)
        if work.statement.insert is not None:
            summary = connection.insert(work.statement.insert, work.format, work.call.params, work.rows())
            return Answer(None, summary, iter(()))
        if work.streamed:
            summary = Summary()
            chunks = connection.stream(work.text, work.call.format, work.call.params, summary)
            return Answer(work.format, summary, chunks)
        if work.statement.of_rows:
            return _filed(connection, work, folder / uuid.uuid4().hex)
        result, summary = connection.query(work.text, work.call.format, work.call.params)
        if work.statement.keyword == "SET":
            connection.forget()
        return Answer(work.format if work.statement.answers else None, summary, iter((result,) if result else ()))
    except ClickHouseError as error:
        if error.code == READONLY_CODE and work.call.read_only:
            error.text += " GET reads only: use POST for statements that change something."
        raise


def require_space(folder: Path, free_bytes: int) -> None:
    """ClickHouseError (243) where the disk is full, before anything waits for it."""
    if free_bytes < SPACE_BYTES:
        raise ClickHouseError(
            NOT_ENOUGH_SPACE, f"No space left on the disk of {folder} ({free_bytes >> 10} KiB free): free some there"
        )


def _filed(connection: Connection, work: Work, path: Path) -> Answer:
    """A result with a head or a foot: in memory the engine would need several times its size."""
    try:
        _, summary = connection.query(work.into(path), work.call.format, work.call.params)
        return Answer(work.format, summary, _pieces(path.open("rb")))
    except FileNotFoundError:
        return Answer(work.format, summary, iter(()))
    finally:
        path.unlink(missing_ok=True)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(CHUNK):
            yield piece


def summary_header(summary: Summary, elapsed_ns: int) -> bytes:
    """The X-ClickHouse-Summary header: numbers as strings, as ClickHouse writes them."""
    numbers: Mapping[str, int] = {**msgspec.structs.asdict(summary), "total_rows_to_read": 0, "elapsed_ns": elapsed_ns}
    return msgspec.json.encode({name: str(number) for name, number in numbers.items()})
