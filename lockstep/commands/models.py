"""`lockstep models`: which forest scores the GPUs: show, publish, go back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockstep.group import Group
from lockstep.moments import moment_ms, shown
from lockstep.options import say, settings, settings_options
from lockstep.reach import reach
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.settings import Connection

if TYPE_CHECKING:
    from detectors.forest.model import Forest

SOON = "soon"
FROM = click.option(
    "--from",
    "begins",
    default=SOON,
    show_default=True,
    help="First tick: a time (UTC); soon is in 10 s, when all workers know it.",
)


@click.group(cls=Group)
def command() -> None:
    """The forests that score the GPUs of a cluster: show, publish, go back."""


@command.command("list", short_help="What was published.", epilog="Example: lockstep models list --broker kafka-1:9092")
@settings_options(Connection)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the answer."
)
def list_(form: str, **options: Any) -> None:
    """Show what was published, from when on it holds, and what it was trained on."""
    from lockstep.publish import published, states

    connection = _reached(options)
    known = published(connection)
    rows: list[dict[str, Any]] = []
    for one, state in zip(known, states(known, SystemClock().now_ms()), strict=True):
        forest = one.found.forest if one.found is not None else None
        about = one.refused or (forest.training.source if forest is not None else "what each worker was started with")
        rows.append(
            {"from_ms": one.record.ts_ms, "model": one.record.model, "state": state, "about": about}
            | ({"rows": forest.training.rows} if forest is not None else {})
        )
    if form == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo(f"{shown(row['from_ms'])}  {row['state']:<8}  {row['model']}  {row['about']}")
    if not any(row["state"] == "in force" for row in rows):
        click.echo("in force: what each worker was started with")


@command.command(
    short_help="Let a model score the cluster.",
    epilog="Example: lockstep models publish fleet.forest --broker kafka-1:9092",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@FROM
@settings_options(Connection)
def publish(file: Path, begins: str, **options: Any) -> None:
    """Let the forest in FILE score all GPUs of the cluster, from one tick on; no worker is restarted."""
    from lockstep.publish import publish as announce
    from lockstep.publish import published

    forest = _read(file)
    connection = _reached(options)
    known = published(connection)
    record = announce(connection, forest, first_tick_ms(begins), known)
    click.echo(f"{record.model} scores from {shown(record.ts_ms)} UTC on")
    later = [one for one in known if one.record.ts_ms > record.ts_ms and not one.refused]
    if later:
        say(f"until {shown(later[0].record.ts_ms)}, then {later[0].record.model}, which was published for then")


@command.command(short_help="Go back to another.", epilog="Example: lockstep models rollback --broker kafka-1:9092")
@click.option("--to", "model", default="", metavar="MODEL", help="Which; otherwise the one before the newest.")
@FROM
@settings_options(Connection)
def rollback(model: str, begins: str, **options: Any) -> None:
    """Go back to the model before the newest, or to another that `list` shows ("own": the workers' own).

    A second rollback undoes the first. A newest one that is still to come is replaced.
    """
    from lockstep.publish import before, published
    from lockstep.publish import publish as announce

    connection = _reached(options)
    known = published(connection)
    newest, forest = before(known, model)
    to_come = newest.ts_ms > SystemClock().now_ms()
    record = announce(connection, forest, first_tick_ms(begins), known, newest.name if to_come else "")
    click.echo(f"{record.model} scores from {shown(record.ts_ms)} UTC on")


def _read(file: Path) -> "Forest":
    from detectors.forest.model import Forest, ModelError

    try:
        return Forest.from_bytes(file.read_bytes())
    except (OSError, ModelError) as error:
        raise UserError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def first_tick_ms(begins: str) -> int:
    """`--from` in milliseconds."""
    from lockstep.publish import LEAD_MS

    now_ms = SystemClock().now_ms()
    return now_ms + LEAD_MS if begins == SOON else moment_ms(begins, "--from", now_ms)


def _reached(options: dict[str, Any]) -> Connection:
    connection = settings(Connection, options)
    reach(connection)
    return connection
