"""`lockstep query`: the history, in SQL."""

import json
import sys
from typing import Any

import click

from lockstep.options import settings, settings_options
from runtime.errors import UserError
from runtime.settings import ClickHouse
from storage.client import ask, get_client


@click.command(
    epilog='Example: lockstep query "SELECT id, cause, summary FROM v_incidents ORDER BY onset_at DESC LIMIT 5"'
)
@click.argument("sql")
@settings_options(ClickHouse)
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def command(sql: str, form: str, **options: Any) -> None:
    """Ask ClickHouse SQL, read-only; `-` reads it from standard input."""
    statement = _standard_input() if sql == "-" else sql
    if not statement.strip():
        empty = "standard input is empty" if sql == "-" else "the statement is empty"
        raise UserError(f'{empty}: give SQL, for instance lockstep query "SHOW TABLES"')
    wire = {"table": "PrettyCompactMonoBlock", "json": "JSON", "csv": "CSVWithNames"}[form]
    text = ask(get_client(settings(ClickHouse, options)), statement, wire).decode("utf-8", "replace")
    if form == "json":
        text = json.dumps(json.loads(text)["data"], indent=2) + "\n"
    click.echo(text, nl=False)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is no UTF-8 text (byte {error.start}): give SQL") from None
