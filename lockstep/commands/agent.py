"""`lockstep agent`."""

import os
from typing import Any

import click

from collectors.agent.look import look
from collectors.agent.service import run
from collectors.agent.settings import AgentSettings, Machine
from lockstep.options import run_until_signal, settings, settings_options
from lockstep.show import shown


@click.command(
    epilog="Example: lockstep agent --broker kafka-1:9092 --cluster eos\n\n"
    "Example: lockstep agent --sink stdout --once\n\n"
    "Example: lockstep agent --sink stdout --format json --collectors gpu | jq .sections.gpu"
)
@settings_options(AgentSettings)
@click.option("--sink", type=click.Choice(["kafka", "stdout"]), default="kafka", show_default=True, help="Where to.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="On stdout."
)
@click.option("--once", is_flag=True, help="Collect for a few ticks, then end.")
def command(sink: str, form: str, once: bool, **options: Any) -> None:
    """The agent of a node: collect and publish.

    --sink stdout shows the records instead of sending them; a running agent beside is not disturbed, and needs no
    broker.
    """
    chosen = settings(AgentSettings, options)
    if sink == "kafka":
        run_until_signal("agent", lambda stop: run(chosen, stop, once))
        return
    run_until_signal(
        "agent",
        lambda stop: look(chosen, stop, Machine(), os.environ, lambda record: click.echo(shown(record, form)), once),
    )
