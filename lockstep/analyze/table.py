"""Rows of a table by column name, whatever its form (CSV, JSON lines, Parquet), and in order however large it is."""

import csv
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lockstep.analyze.files import head, lines
from lockstep.analyze.parquet import batches, open_parquet
from lockstep.analyze.recognise import PARQUET, json_object
from runtime.errors import UserError

Key = tuple[int | float | str, ...]
Row = TypeVar("Row")


class BadRow(Exception):
    """A row that cannot be used; `reason` is one word for the counts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def rows(
    path: Path, columns: Collection[str], blank: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """The rows with their line (0 in Parquet, of which only `columns` are read); None for a line that is no object.

    Raises UserError where the file cannot be read.
    """
    start = head(path)
    if start.startswith(PARQUET):
        return _parquet(path, columns)
    if json_object(next((line for line in start.splitlines() if line.strip()), b"")) is not None:
        return ((number, json_object(line)) for number, line in enumerate(lines(path, blank), 1) if line.strip())
    return _csv(path, blank)


def in_order(keys: Iterable[Key]) -> bool:
    """Whether the keys never fall from one to the next."""
    before: Key = ()
    for key in keys:
        if key < before:
            return False
        before = key
    return True


def sorted_on_disk(found: Iterable[Row], key: Callable[[Row], Key], type_: type[Row]) -> Iterator[Row]:
    """The rows by `key` (all keys of one length) through a temporary database file, which sorts on disk; rows of one
    key stay in their order."""
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.Decoder(type_).decode
    with closing(sqlite3.connect("")) as database:
        places: tuple[str, ...] = ()
        for row in found:
            here = key(row)
            if not places:
                places = tuple(f"k{n}" for n in range(len(here)))
                database.execute(f"CREATE TABLE rows ({', '.join(places)}, row BLOB)")
                insert = f"INSERT INTO rows VALUES ({', '.join('?' * (len(here) + 1))})"
            database.execute(insert, (*here, encode(row)))
        if places:
            for (blob,) in database.execute(f"SELECT row FROM rows ORDER BY {', '.join(places)}, rowid"):
                yield decode(blob)


def _csv(path: Path, blank: Callable[[int], None]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = (
        line.decode("utf-8-sig" if number == 0 else "utf-8", "replace")
        for number, line in enumerate(lines(path, blank))
    )
    reader = csv.DictReader(text, skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{path}: no readable CSV: {error}") from None


def _parquet(path: Path, columns: Collection[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    file = open_parquet(path)
    wanted = [name for name in file.schema_arrow.names if name in columns]
    for batch in batches(path, file, wanted):
        try:
            columns_ = [column.to_pylist() for column in batch.columns]
        except (UnicodeDecodeError, OverflowError) as error:  # times beyond what Python has, text that is none
            raise UserError(f"{path}: damaged Parquet file: {error}") from None
        for values in zip(*columns_, strict=True):
            yield 0, dict(zip(wanted, values, strict=True))
