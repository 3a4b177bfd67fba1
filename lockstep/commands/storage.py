"""`lockstep storage`: ClickHouse's tables, and the embedded engine."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockstep.group import Group
from lockstep.options import run_until_signal, say, settings, settings_options
from runtime.errors import UserError
from runtime.settings import ClickHouse

if TYPE_CHECKING:
    from storage.engine import EngineSettings

_ENGINE_DATA = "default lockstep-data/clickhouse [LOCKSTEP_ENGINE_DATA]"


@click.group(cls=Group)
def command() -> None:
    """ClickHouse: migrate, check, serve the embedded engine."""


@command.command(
    short_help="Bring the database up to date.",
    epilog="Example: lockstep storage migrate --clickhouse-host ch-1 --dry-run",
)
@settings_options(ClickHouse)
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be run, change nothing.")
@click.option("--allow-dangerous", is_flag=True, help="Also run what takes data away or rewrites it.")
def migrate(dry_run: bool, allow_dangerous: bool, **options: Any) -> None:
    """Bring the database up to date: each migration once, in order."""
    from storage import migrate as migrations
    from storage.client import get_client

    chosen = settings(ClickHouse, options)
    client = get_client(chosen, database=False)
    done = migrations.migrate(
        client,
        chosen.clickhouse_database,
        dry_run=dry_run,
        cluster=chosen.clickhouse_cluster,
        dangerous=allow_dangerous,
    )
    if dry_run and (why := migrations.first_danger(done)):
        click.echo(f"-- {why}")
    for migration in done:
        click.echo(migration.sql if dry_run else f"applied {migration.name}")
    if not done:
        click.echo(f"database {chosen.clickhouse_database} is up to date")


@command.command(
    short_help="Compare the database with what it should be.",
    epilog="Example: lockstep storage check --clickhouse-host ch-1",
)
@settings_options(ClickHouse)
def check(**options: Any) -> None:
    """Compare the database with the record classes. Exit status 1 where they differ."""
    from storage.check import differences
    from storage.client import get_client

    chosen = settings(ClickHouse, options)
    found = differences(get_client(chosen), chosen.clickhouse_database)
    for difference in found:
        click.echo(difference.text)
    if not found:
        click.echo(f"database {chosen.clickhouse_database} is as it should be")
    sys.exit(1 if found else 0)


@command.command(short_help="Bring the roll-ups up to date now.", epilog="Example: lockstep storage roll --anew")
@settings_options(ClickHouse)
@click.option("--anew", is_flag=True, help="From all raw rows there are, not only from what is new.")
def roll(anew: bool, **options: Any) -> None:
    """Bring the roll-ups up to date now. The writer of slot 0 does so all the time."""
    import contextlib

    from storage.client import get_client, working
    from storage.roll import Roller
    from storage.rollups import ROLLUPS

    with contextlib.closing(get_client(settings(ClickHouse, options), timeout_s=3600)) as client:
        for name in ROLLUPS:
            with working(f"roll-up {name}"):
                done = Roller(client).roll(name, anew=anew)
            click.echo(f"{name}: {done} spans computed")


@command.command(
    short_help="Run the embedded engine.", epilog="Example: lockstep storage serve --data ./data --port 8123"
)
@click.option("--data", metavar="DIR", help=f"Folder; {_ENGINE_DATA}")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="0 takes a free one [LOCKSTEP_CLICKHOUSE_PORT]  [default: 8123]",
)
@click.option("--host", metavar="TEXT", help="Loopback unless a password is set [LOCKSTEP_CLICKHOUSE_HOST]")
def serve(data: str | None, port: int | None, host: str | None) -> None:
    """ClickHouse's engine in this process, behind ClickHouse's HTTP interface: for trying, and for one machine."""
    from runtime.settings import from_environment
    from storage.engine import EngineSettings
    from storage.engine import serve as serve_engine

    chosen = from_environment(EngineSettings, os.environ, engine_data=data, clickhouse_port=port, clickhouse_host=host)

    def ready(number: int) -> None:
        click.echo(f"ready {chosen.clickhouse_host}:{number}")

    run_until_signal("database", lambda stop: serve_engine(chosen, ready, stop))


@command.command(
    short_help="Embedded engine: its data into a file.",
    epilog="Example: lockstep storage backup --data ./data history.tar",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--data", metavar="DIR", help=f"Folder; {_ENGINE_DATA}")
def backup(file: Path, data: str | None) -> None:
    """Write the embedded engine's data folder into a file, while no engine runs on it."""
    from storage.engine.backup import backup as write

    size = write(_engine(data), file)
    click.echo(f"{file}: {size / (1 << 20):.1f} MiB")


@command.command(
    short_help="Embedded engine: its data from a file.",
    epilog="Example: lockstep storage restore --data ./new history.tar",
)
@click.argument("file", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--data", metavar="DIR", help=f"New or empty; {_ENGINE_DATA}")
def restore(file: Path, data: str | None) -> None:
    """Make a data folder for the embedded engine from a backup."""
    from storage.engine.backup import restore as read

    chosen = _engine(data)
    read(chosen, file)
    click.echo(f"restored into {chosen.engine_data}")


@command.command(
    short_help="The whole history into another ClickHouse.",
    epilog="Example: lockstep storage copy --from 127.0.0.1:8123 --clickhouse-host ch-1",
)
@settings_options(ClickHouse)
@click.option("--from", "origin", metavar="HOST:PORT", required=True, help="Where the rows are: an embedded engine.")
@click.option("--from-database", metavar="TEXT", default="lockstep", show_default=True, help="Their database.")
def copy(origin: str, from_database: str, **options: Any) -> None:
    """Copy the whole history from one ClickHouse into another: from the embedded engine to a server.

    Both must be migrated. It may be run again: rows replace themselves.
    """
    import contextlib

    from storage.client import get_client
    from storage.copy import copy as copy_all

    host, _, port = origin.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise UserError(f"--from {origin}: give HOST:PORT")
    there = settings(ClickHouse, options)
    here = ClickHouse(clickhouse_host=host, clickhouse_port=int(port), clickhouse_database=from_database)
    with (
        contextlib.closing(get_client(here, timeout_s=3600)) as source,
        contextlib.closing(get_client(there, timeout_s=3600)) as target,
    ):
        click.echo(f"{copy_all(source, target, say):,} rows copied")


def _engine(data: str | None) -> "EngineSettings":
    from runtime.settings import from_environment
    from storage.engine import EngineSettings

    return from_environment(EngineSettings, os.environ, engine_data=data)
