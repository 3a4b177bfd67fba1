"""`lockstep query`: the history, in SQL."""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from lockstep.options import say, settings, settings_options
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.settings import ClickHouse

FORMATS = {"table": "PrettyCompactMonoBlock", "json": "JSON", "csv": "CSVWithNames", "parquet": "Parquet"}


def _names(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from storage.questions import QUESTIONS

    return [name for name in QUESTIONS if name.startswith(begun)]


@click.command(
    epilog='Example: lockstep query "SELECT id, cause, summary FROM v_incidents ORDER BY onset_at DESC LIMIT 5"\n\n'
    "Example: lockstep query --name worst-gpus --param job=slurm:eos/71/0"
)
@click.argument("sql", required=False)
@click.option("--name", metavar="NAME", help="Ask a question by its name instead.", shell_complete=_names)
@click.option("--param", "given", metavar="NAME=VALUE", multiple=True, help="A parameter: {NAME:String} in the SQL.")
@click.option("--list", "listed", is_flag=True, help="List the questions that have names, and their parameters.")
@click.option("--show", is_flag=True, help="Print the SQL of the named question, ask nothing.")
@settings_options(ClickHouse, hidden=("clickhouse_cluster",))
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="table", show_default=True, help="Of the answer."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the answer into this file.")
def command(
    sql: str | None,
    name: str | None,
    given: tuple[str, ...],
    listed: bool,
    show: bool,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Ask ClickHouse SQL, read-only; `-` reads it from standard input. With --name, ask a question that has a name."""
    from storage.questions import QUESTIONS, arguments, question

    if listed:
        click.echo(_list(QUESTIONS, form), nl=False)
        return
    if (sql is None) == (name is None):
        raise UserError('give SQL, or --name NAME (--list shows them): lockstep query "SHOW TABLES"')
    parameters = _parameters(given)
    if name is not None:
        statement = question(name).sql
        if show:
            click.echo(statement)
            return
        parameters = arguments(name, parameters, SystemClock().now_ms())
    else:
        statement = _standard_input() if sql == "-" else str(sql)
        if not statement.strip():
            empty = "standard input is empty" if sql == "-" else "the statement is empty"
            raise UserError(f'{empty}: give SQL, for instance lockstep query "SHOW TABLES"')
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise UserError("Parquet is not for a terminal: give --output FILE, or redirect the output")
    _ask(settings(ClickHouse, options), statement, parameters, form, output)


def _ask(chosen: ClickHouse, statement: str, parameters: Mapping[str, str], form: str, output: Path | None) -> None:
    from storage.ask import answer, check, columns, whole_scans
    from storage.client import get_client

    check(statement)
    with contextlib.closing(get_client(chosen, timeout_s=3600)) as client:
        for hint in whole_scans(client, statement, parameters):
            say(f"hint: {hint}")
        show = say if sys.stderr.isatty() else None
        pieces = answer(client, lambda: get_client(chosen), statement, FORMATS[form], parameters, show)
        if form == "json":
            text = json.dumps(json.loads(b"".join(pieces))["data"], indent=2) + "\n"
            pieces = iter([text.encode()])
        empty = True
        with _sink(output) as write:
            for piece in pieces:
                empty = False
                write(piece)
            if empty and form == "table":
                names = columns(client, statement, parameters)
                write("".join(f"{line}\n" for line in ("  ".join(names), "0 rows") if line).encode())


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[Any]:
    if output is None:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("wb") as file:
            yield file.write
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}: choose another --output") from None


def _list(questions: Mapping[str, Any], form: str) -> str:
    if form == "json":
        said = [
            {"name": name, "question": one.asks, "parameters": {k: p._asdict() for k, p in one.parameters.items()}}
            for name, one in questions.items()
        ]
        return json.dumps(said, indent=2) + "\n"
    lines = []
    for name, one in questions.items():
        lines.append(f"{name:20}{one.asks}")
        for parameter, about in one.parameters.items():
            default = "" if about.default is None else f" [{about.default or 'empty'}]"
            lines.append(f"{'':22}{parameter}: {about.said}{default}")
    return "\n".join(lines) + "\n"


def _parameters(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"--param {one}: give NAME=VALUE")
        found[name] = value
    return found


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is no UTF-8 text (byte {error.start}): give SQL") from None
