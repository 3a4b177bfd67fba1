"""`lockstep simulate`: the simulated fleet alone, onto a broker."""

import logging
from typing import Any

import click

from lockstep.options import run_until_signal, say, settings, settings_options
from lockstep.progress import by_topic
from lockstep.simulate import run
from runtime.settings import Connection
from simulator.settings import FleetSettings


@click.command(
    epilog="Example: lockstep simulate --broker kafka-1:9092 --fault fabric_link --target r03-t07/mlx5_2/1 --speed 2"
)
@settings_options(FleetSettings)
@settings_options(Connection)
def command(**options: Any) -> None:
    """Send what the agents of a simulated fleet would send.

    8 NVL72 racks with a 512-GPU job, unless asked otherwise. The records are those of real agents: workers, database
    and alerts cannot tell the difference.
    """
    # A hundred agents in one process would each say once what they do not find.
    logging.getLogger("collectors").setLevel(logging.WARNING)
    fleet, connection = settings(FleetSettings, options), settings(Connection, options)
    run_until_signal("simulate", lambda stop: say(by_topic(run(fleet, connection, stop))))
