"""`lockstep analyze PATHS`: find stragglers and hangs in files one already has."""

import json
import os
import sys
import time
from pathlib import Path

import click
import msgspec

from lockstep.analyze import READERS, analyze, events

EVERY_S = 5.0
"""Seconds between two lines of progress where no terminal shows them."""


class _Ticker:
    """On a terminal one line on standard error, renewed every half second; elsewhere a line every five seconds."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = time.monotonic() if not self._live else 0.0
        self._wrote = False

    def __call__(self, what: str, count: int) -> None:
        now = time.monotonic()
        if now - self._shown < (0.5 if self._live else EVERY_S):
            return
        self._shown, self._wrote = now, self._live
        sys.stderr.write(f"\r\x1b[K{what}: {count:,}" if self._live else f"{what}: {count:,}\n")
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
    """Judge recorded files with the detectors of the live system.

    PATHS are files or folders; gzip is fine. Nothing else has to run. Several runs are judged one by one.

    What is read (--kind): NCCL Inspector's JSON lines (inspector) and metrics (inspector-metrics), step times (steps),
    PyTorch's Flight Recorder dumps (flight-recorder), NCCL's RAS (ras), job logs (job-log), nccl-tests (nccl-tests),
    CoMMA (comma), kernel logs (kernel-log), pipeline traces (pipeline-trace), batch times (batch-times), GPU readings
    (dcgm), recorded topics (frames), cooling (cooling-bms, redfish).
    """
    if listed:
        _list(paths, kind)
        return
    ticker = _Ticker()
    try:
        report = analyze(paths, kind, ticker)
    finally:
        ticker.clear()
    click.echo(json.dumps(report.to_json(), indent=1) if form == "json" else report.to_text(), nl=form == "json")
    if fail_on_incident and not report.healthy:
        raise click.exceptions.Exit(1)


def _list(paths: tuple[Path, ...], kind: str | None) -> None:
    """The decoded records; a reader that has enough (`| head`) ends it quietly."""
    try:
        for record in events(paths, kind, lambda what: click.echo(what, err=True)):
            click.echo(msgspec.json.encode(record))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still held back goes nowhere, or Python complains of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
