"""`lockstep doctor`: what this machine offers, what is missing, and how to get it."""

import json
import os
from typing import Any

import click
import msgspec

from collectors.agent.settings import AgentSettings
from lockstep.doctor import Check, Machine, examine, reach
from lockstep.options import settings, settings_options
from runtime.settings import PREFIX, ClickHouse

SIGNS = {"ok": "ok", "absent": "--", "attention": "!", "broken": "XX"}


@click.command(
    epilog="Example: lockstep doctor --broker kafka-1:9092 --inspector-dir /var/log/nccl-inspector --format json"
)
@settings_options(AgentSettings)
@settings_options(ClickHouse)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the answer."
)
def command(form: str, **options: Any) -> None:
    """Look at this machine: packages, GPU driver, kernel log, job files, disk, clock, broker, database.

    What is not here is no fault (--): a line says what it would give and how to get it. Something that is set up and
    does not work (XX) makes the exit status 1.
    """
    names = {field.name for cls in (AgentSettings, ClickHouse) for field in msgspec.structs.fields(cls)}
    given = {name for name in names if options.get(name) is not None or PREFIX + name.upper() in os.environ}
    machine = Machine(
        agent=settings(AgentSettings, options),
        database=settings(ClickHouse, options),
        given=frozenset(given),
        environment=dict(os.environ),
    )
    reach.prepare()
    checks = examine(machine)
    if form == "json":
        click.echo(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        click.echo(_text(checks), nl=False)
    if any(check.state == "broken" for check in checks):
        raise click.exceptions.Exit(1)


def _text(checks: list[Check]) -> str:
    lines, section = [], ""
    for check in checks:
        if check.section != section:
            section = check.section
            lines.append(section)
        lines.append(f"  {SIGNS[check.state]:<3} {check.name:<16} {check.seen}")
        if check.remedy:
            lines.append(f"  {'':<3} {'':<16} -> {check.remedy}")
    return "\n".join(lines) + "\n"
