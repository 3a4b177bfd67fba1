"""`lockstep up`: everything on this machine."""

import os
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import click

from lockstep.doctor.alerts import is_set_up
from lockstep.extras import lacking_for_whole, not_installed
from lockstep.local import data_folder, hold, services
from lockstep.options import program
from lockstep.supervisor import Addresses, Supervisor
from runtime.clock import SystemClock
from runtime.ports import free_port, require_free
from runtime.signals import set_on


@click.command(
    epilog="Example: lockstep up --http-port 8123\n\n"
    "It prints the command of an agent for this machine: lockstep agent --broker ADDRESS --broker-embedded yes "
    "--spool-dir DIR"
)
@click.option("--data", metavar="DIR", help="Data folder [LOCKSTEP_DATA]  [default: ~/.local/share/lockstep]")
@click.option("--http-port", type=click.IntRange(0, 65535), default=8123, show_default=True, help="0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 4), default=1, show_default=True, help="Detection processes.")
@click.option("--quiet", is_flag=True, help="Only the log file gets the processes' lines.")
def command(data: str | None, http_port: int, workers: int, quiet: bool) -> None:
    """Run broker, database, detection, storage and alerts on this machine until Ctrl-C.

    The embedded broker keeps its records in memory; the database is on disk in the data folder.
    """
    if missing := lacking_for_whole():
        raise not_installed("up", missing)
    folder = data_folder(data, os.environ)
    if http_port:
        require_free(http_port, "the database", "--http-port")
    with hold(folder):
        paged = is_set_up(os.environ)
        log = folder / "log" / "lockstep.log"
        plan = services(folder, http_port=http_port or free_port(), workers=workers, paged=paged)
        stop = threading.Event()
        set_on(stop, signal.SIGTERM, signal.SIGINT)

        def starting(name: str) -> None:
            if stop.is_set():
                raise click.Abort
            click.echo(f"starting {name}", err=True)

        supervisor = Supervisor(plan, os.environ, log, SystemClock(), echo=not quiet)
        try:
            supervisor.start(starting)
            click.echo(ready(supervisor.addresses, folder, log, paged=paged))
            for addresses in others(supervisor, stop):
                click.echo("started anew elsewhere: give agents and other readers these addresses")
                click.echo(ready(addresses, folder, log, paged=paged))
        finally:
            supervisor.stop()
        click.echo(f"stopped; the history is in {folder}, a later `lockstep up` goes on with it")


class Tended(Protocol):
    """Of a supervisor: restart what has died, and where everything is now."""

    addresses: dict[str, str]

    def tend(self) -> None: ...


def others(tended: Tended, stop: threading.Event) -> Iterator[dict[str, str]]:
    """Keep all running until `stop`; the addresses whenever they are others than before: a broker that died comes back
    at another port, and whoever is not of the house would wait at the old one for ever."""
    told = dict(tended.addresses)
    while not stop.wait(1.0):
        tended.tend()
        if tended.addresses != told:
            told = dict(tended.addresses)
            yield told


def ready(addresses: Addresses, folder: Path, log: Path, *, paged: bool) -> str:
    """What one does next, with commands to copy."""
    broker, database = addresses["broker"], addresses["database"]
    port, spool, run = database.rpartition(":")[2], shlex.quote(str(folder / "agent")), program()
    return "\n".join(
        [
            f"all ready: broker {broker} (embedded), database http://{database} (ClickHouse's HTTP interface)",
            f"log       {log}",
            *(
                []
                if paged
                else ["alerts    off: set LOCKSTEP_PAGERDUTY_ROUTING_KEY to page somebody (or another: docs/alerts.md)"]
            ),
            f"watch     {run} agent --broker {broker} --broker-embedded yes --spool-dir {spool}",
            f"look      {run} topics tail node-frames --broker {broker} --broker-embedded yes",
            f'ask       {run} query --clickhouse-port {port} "SELECT id, state, cause, summary FROM v_incidents"',
        ]
    )
