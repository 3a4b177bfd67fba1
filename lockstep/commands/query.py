"""`lockstep query`: the history, in SQL."""

import json
import sys
from typing import Any

import click

from lockstep.options import settings, settings_options
from runtime.errors import UserError
from runtime.settings import ClickHouse
from storage.client import get_client


@click.command(
    epilog='Example: lockstep query "SELECT id, cause, summary FROM v_incidents ORDER BY onset DESC LIMIT 5"'
)
@click.argument("sql")
@settings_options(ClickHouse)
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def command(sql: str, form: str, **options: Any) -> None:
    """Ask ClickHouse SQL, read-only; `-` reads it from standard input."""
    from clickhouse_connect.driver.exceptions import DatabaseError

    statement = sys.stdin.read() if sql == "-" else sql
    client = get_client(settings(ClickHouse, options))
    wire = {"table": "PrettyCompactMonoBlock", "json": "JSON", "csv": "CSVWithNames"}[form]
    try:
        answer = client.raw_query(statement, fmt=wire, settings={"readonly": 2})
    except DatabaseError as error:
        raise UserError(_first_line(str(error))) from None
    text = answer.decode("utf-8", "replace")
    if form == "json":
        text = json.dumps(json.loads(text)["data"], indent=2) + "\n"
    click.echo(text, nl=False)


def _first_line(text: str) -> str:
    return " ".join(text.split())[:400]
