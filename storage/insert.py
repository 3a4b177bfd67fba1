"""One table's rows into ClickHouse: durable, or known to be impossible, or not now."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from clickhouse_connect.driver.exceptions import DataError, Error, ProgrammingError

from runtime.errors import UserError
from storage.batch import Taken
from storage.client import REFUSED, one_line
from storage.columns import Columns, columns
from storage.native import Packed, block, compressed
from storage.tables import Table

UNFIT = frozenset({6, 27, 38, 41, 53, 69, 70, 72, 117, 128, 131, 190, 321, 349})
"""ClickHouse's codes for a value that a column cannot hold: parse errors, TYPE_MISMATCH, ARGUMENT_OUT_OF_BOUND,
CANNOT_CONVERT_TYPE, INCORRECT_DATA, TOO_LARGE_ARRAY_SIZE, TOO_LARGE_STRING_SIZE, SIZES_OF_ARRAYS_DONT_MATCH,
VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE, CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN."""

MISSING = frozenset({16, 47, 60, 81})
"""NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, UNKNOWN_DATABASE."""


class Inserts(Protocol):
    """The one method of a ClickHouse client that storing needs: `table` is "", the block begins with the statement."""

    def raw_insert(self, table: str, *, insert_block: bytes, compression: str) -> Any: ...


class Away(Exception):
    """ClickHouse cannot take the rows now; the same rows again later. `code` is ClickHouse's, or "unreachable"."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Stored(NamedTuple):
    """What came of an insert: rows that are durable, readings without a column, and records that no row can hold."""

    rows: int
    unknown: Counter[str]
    unfit: list[tuple[Taken, str]]


def put(client: Inserts, table: Table, made: Columns) -> None:
    """One insert of ready columns; nothing where there are no rows."""
    if made.rows:
        names = [column.name for column in table.columns]
        chosen = ", ".join(f"`{name}`" for name in names)
        rows = block(names, [column.stored.type for column in table.columns], made.data, made.rows)
        # The statement goes before the rows: in the URL it would cost as much as a hundred frames.
        statement = f"INSERT INTO {table.name} ({chosen}) FORMAT Native\n".encode()
        client.raw_insert("", insert_block=compressed(statement + rows), compression="lz4")


def insert(client: Inserts, table: Table, taken: Sequence[Taken], known: dict[str, Packed] | None = None) -> Stored:
    """Store what `table` keeps of the records; `known` as in `columns`. Where a value does not fit, halve until it is
    known whose it is.

    Raises Away where the rows may fit later, UserError where no later attempt can help (no table, no right).
    """
    try:
        made = columns(table, [one.record for one in taken], known)
        put(client, table, made)
        return Stored(made.rows, made.unknown, [])
    except (DataError, ValueError, TypeError, OverflowError, LookupError) as error:
        return _halved(client, table, taken, error)
    except Error as error:
        if error.code in UNFIT:
            return _halved(client, table, taken, error)
        if error.code in MISSING:
            raise UserError(
                f"ClickHouse has no place for {table.name}: run `lockstep storage migrate` ({one_line(error)})"
            ) from error
        if error.code in REFUSED or (isinstance(error, ProgrammingError) and error.code is None):
            raise UserError(f"ClickHouse refuses rows for {table.name}: {one_line(error)}") from error
        raise Away(str(error.code or "unreachable"), one_line(error)) from error


def _halved(client: Inserts, table: Table, taken: Sequence[Taken], error: Exception) -> Stored:
    if len(taken) == 1:
        return Stored(0, Counter(), [(taken[0], f"{table.name}: {one_line(error)}")])
    middle = len(taken) // 2
    first, second = insert(client, table, taken[:middle]), insert(client, table, taken[middle:])
    return Stored(first.rows + second.rows, first.unknown + second.unknown, first.unfit + second.unfit)
