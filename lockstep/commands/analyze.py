"""`lockstep analyze PATHS`: find stragglers and hangs in files one already has."""

import json
import sys
import time
from pathlib import Path

import click
import msgspec

from lockstep.analyze import READERS, analyze, events


class _Ticker:
    """One line on standard error, renewed at most every half second, only where a person watches."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._wrote = False

    def __call__(self, what: str, count: int) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._shown >= 0.5:
            self._shown, self._wrote = now, True
            sys.stderr.write(f"\r\x1b[K{what}: {count:,}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._wrote:
            sys.stderr.write("\r\x1b[K")


@click.command(
    epilog="Example: lockstep analyze /var/log/nccl-inspector --format json --fail-on-incident",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(sorted(READERS)), help="What the files are, instead of recognising them.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the answer."
)
@click.option("--events", "listed", is_flag=True, help="List the decoded records instead, one JSON object a line.")
@click.option("--fail-on-incident", is_flag=True, help="Exit with status 1 where anything is out of step.")
def command(paths: tuple[Path, ...], kind: str | None, form: str, listed: bool, fail_on_incident: bool) -> None:
    """Judge recorded files (NCCL Inspector lines, step times) with the detectors of the live system.

    PATHS are files or folders; gzip is fine. Nothing else has to run. Several runs in one file are judged one by one.
    """
    if listed:
        for record in events(paths, kind):
            click.echo(msgspec.json.encode(record))
        return
    ticker = _Ticker()
    try:
        report = analyze(paths, kind, ticker)
    finally:
        ticker.clear()
    click.echo(json.dumps(report.to_json(), indent=1) if form == "json" else report.to_text(), nl=form == "json")
    if fail_on_incident and not report.healthy:
        raise click.exceptions.Exit(1)
