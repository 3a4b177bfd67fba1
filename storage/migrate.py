"""Migrations: numbered SQL files, applied once each, in order, never changed afterwards.

ClickHouse has no transactions over statements, so every statement can be run again: a migration that died halfway is
simply run again. A statement ends with a semicolon at the end of a line.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from runtime.errors import UserError
from storage.client import one_line
from storage.placement import placed

FOLDER = Path(__file__).parent / "migrations"

_LEDGER = """CREATE TABLE IF NOT EXISTS schema_migrations
(
    `name` String COMMENT 'the migration',
    `checksum` String COMMENT 'SHA-256 of its text',
    `applied_at` DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was applied'
)
ENGINE = ReplacingMergeTree
ORDER BY name
COMMENT 'what was done to this database'"""


_DANGEROUS = re.compile(
    r"\bDROP (?:TABLE|DATABASE|COLUMN|PARTITION|PART|DETACHED)\b|\bTRUNCATE\b|\bDELETE\b|\bCLEAR COLUMN\b"
    r"|\bUPDATE\b|\bMODIFY TTL\b|\bMODIFY ORDER BY\b|\bRENAME\b|\bEXCHANGE TABLES\b|\bREPLACE TABLE\b"
    r"|\bMODIFY COLUMN (?:IF EXISTS )?`?[\w.]+`?(?! (?:CODEC|COMMENT|REMOVE)\b)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


class Migration(NamedTuple):
    """One file: `name` as on disk without the suffix, its text, and the checksum of the text."""

    name: str
    sql: str
    checksum: str

    @property
    def statements(self) -> list[str]:
        return [text.strip() for text in re.split(r";[ \t]*(?:\n|$)", self.sql) if text.strip()]


def available(folder: Path = FOLDER) -> list[Migration]:
    """The migrations in `folder`, in order. UserError where a name or a number makes no sense."""
    found = []
    for place, path in enumerate(sorted(folder.glob("*.sql")), start=1):
        if not re.fullmatch(rf"{place:04d}_[a-z0-9_]+\.sql", path.name):
            raise UserError(f"{path}: expected the name {place:04d}_words.sql, numbers without gaps")
        text = path.read_text(encoding="utf-8")
        found.append(Migration(path.stem, text, hashlib.sha256(text.encode()).hexdigest()))
    return found


def pending(known: Sequence[Migration], applied: Mapping[str, str]) -> list[Migration]:
    """What is still to be done, given the names and checksums of what was. UserError where the two disagree."""
    names = [migration.name for migration in known]
    if newer := sorted(set(applied) - set(names)):
        raise UserError(f"the database is newer than this program: it has {newer[-1]}; install a newer lockstep")
    for migration in known:
        if applied.get(migration.name, migration.checksum) != migration.checksum:
            raise UserError(
                f"migration {migration.name} was changed after it was applied: restore the file, write a new migration"
            )
    left = [migration for migration in known if migration.name not in applied]
    if left and applied and left[0].name < max(applied):
        raise UserError(f"migration {left[0].name} was never applied, but {max(applied)} was: give it a later number")
    return left


def on_cluster(migration: Migration, cluster: str) -> str:
    """The migration's text as it is run on `cluster`."""
    return "\n".join(f"{placed(statement, cluster)};\n" for statement in migration.statements)


def first_danger(todo: Sequence[Migration]) -> str:
    """What would take data away, rewrite it, or keep old writers from writing; "" where nothing would."""
    for migration in todo:
        for number, statement in enumerate(migration.statements, start=1):
            if found := _DANGEROUS.search(_QUOTED.sub("''", statement)):
                return f"migration {migration.name}, statement {number} is dangerous ({found[0]})"
    return ""


def applied(client: Client, database: str) -> dict[str, str]:
    """Name and checksum of every migration that the database has seen; none where it does not exist yet."""
    known = client.query(
        "SELECT count() FROM system.tables WHERE database = {database:String} AND name = 'schema_migrations'",
        parameters={"database": database},
    )
    if not known.result_rows[0][0]:
        return {}
    rows = client.query(f"SELECT name, checksum FROM `{database}`.schema_migrations FINAL").result_rows
    return {str(name): str(checksum) for name, checksum in rows}


def migrate(
    client: Client,
    database: str,
    *,
    known: Sequence[Migration] | None = None,
    dry_run: bool = False,
    cluster: str = "",
    dangerous: bool = False,
) -> list[Migration]:
    """Bring `database` up to date and say what was done; with `dry_run`, what would be, touching nothing.

    `client` needs no database of its own; `cluster` is that of `storage.placement`. Raises UserError where the
    database's history is not this program's, where a statement fails, and, without `dangerous`, before anything is
    done where a statement would take data away.
    """
    todo = pending(available() if known is None else known, applied(client, database))
    todo = [migration._replace(sql=on_cluster(migration, cluster)) for migration in todo] if cluster else todo
    if dry_run or not todo:
        return todo
    if not dangerous and (why := first_danger(todo)):
        raise UserError(f"{why}; run it with --allow-dangerous once there is a backup")
    client.command(placed(f"CREATE DATABASE IF NOT EXISTS `{database}`", cluster))
    client.database = database
    client.command(placed(_LEDGER, cluster))
    for migration in todo:
        for number, statement in enumerate(migration.statements, start=1):
            try:
                client.command(statement)
            except Error as error:
                raise UserError(f"migration {migration.name}, statement {number}: {one_line(error)}") from error
        client.insert("schema_migrations", [[migration.name, migration.checksum]], column_names=["name", "checksum"])
    return todo
