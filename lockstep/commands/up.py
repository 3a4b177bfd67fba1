"""`lockstep up`: everything on this machine."""

import os
import signal
import threading

import click

from lockstep.local import data_folder, hold, services
from lockstep.supervisor import Supervisor
from runtime.clock import SystemClock
from runtime.ports import free_port, require_free


@click.command(
    epilog="Example: lockstep up --http-port 8123 &\n\n"
    "Then: lockstep agent --broker ADDRESS, with the address that `up` prints."
)
@click.option("--data", metavar="DIR", help="Data folder [LOCKSTEP_DATA]  [default: ~/.local/share/lockstep]")
@click.option("--http-port", type=click.IntRange(0, 65535), default=8123, show_default=True, help="0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 4), default=1, show_default=True, help="Detection processes.")
@click.option("--quiet", is_flag=True, help="Only the log file gets the processes' lines.")
def command(data: str | None, http_port: int, workers: int, quiet: bool) -> None:
    """Run broker, database, detection, storage and alerts on this machine until Ctrl-C.

    The embedded broker keeps its records in memory; the database is on disk in the data folder.
    """
    folder = data_folder(data, os.environ)
    if http_port:
        require_free(http_port, "the database", "--http-port")
    with hold(folder):
        paged = bool(os.environ.get("LOCKSTEP_PAGERDUTY_ROUTING_KEY"))
        log = folder / "log" / "lockstep.log"
        plan = services(folder, http_port=http_port or free_port(), workers=workers, paged=paged)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        supervisor = Supervisor(plan, os.environ, log, SystemClock(), echo=not quiet)
        try:
            supervisor.start(lambda name: click.echo(f"starting {name}", err=True))
            click.echo(f"broker    {supervisor.addresses['broker']}  (embedded: LOCKSTEP_BROKER_EMBEDDED=true)")
            click.echo(f"database  http://{supervisor.addresses['database']}  (ClickHouse's HTTP interface)")
            click.echo(f"log       {log}")
            if not paged:
                click.echo("alerts    off: set LOCKSTEP_PAGERDUTY_ROUTING_KEY to page somebody")
            while not stop.wait(1.0):
                supervisor.tend()
        finally:
            supervisor.stop()
