"""`lockstep broker`."""

import click

from lockstep.options import run_until_signal
from runtime.broker import run
from runtime.settings import Connection


@click.command(epilog="Example: lockstep broker   # prints: ready 127.0.0.1:PORT")
def command() -> None:
    """The embedded broker: Kafka's protocol on this machine, records in memory, a port of its own choice.

    For trying Lockstep and for one machine. Other processes need LOCKSTEP_BROKER=ADDRESS and
    LOCKSTEP_BROKER_EMBEDDED=yes.
    """

    run_until_signal("broker", lambda stop: run(Connection(), lambda address: click.echo(f"ready {address}"), stop))
