"""`lockstep doctor`: what is missing on this machine, and how to get it."""

import importlib.util
import json
import os
import sys
from typing import Any, NamedTuple

import click

from lockstep.cli import EXTRAS
from lockstep.options import settings, settings_options
from runtime.errors import UserError
from runtime.settings import ClickHouse, Connection


class Check(NamedTuple):
    """One thing looked at: fine or not, what was seen, what to do about it. `needed_for` says who misses it."""

    name: str
    fine: bool
    seen: str
    remedy: str = ""


@click.command(epilog="Example: lockstep doctor --broker kafka-1:9092 --format json")
@settings_options(Connection)
@settings_options(ClickHouse)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(form: str, **options: Any) -> None:
    """Look at this machine: packages, GPU driver, kernel log, broker, database. Exit status 1 if something is amiss."""
    connection, database = settings(Connection, options), settings(ClickHouse, options)
    checks = [*_packages(), _crc32c(), _driver(), _kernel_log(), _broker(connection), _database(database)]
    if form == "json":
        click.echo(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            click.echo(f"{'ok ' if check.fine else '-- '} {check.name:<18} {check.seen}")
            if not check.fine:
                click.echo(f"    {'':<18} {check.remedy}")
    sys.exit(0 if all(check.fine for check in checks) else 1)


def _packages() -> list[Check]:
    found: dict[str, list[str]] = {}
    for module, extra in EXTRAS.items():
        found.setdefault(extra, [])
        if importlib.util.find_spec(module) is None:
            found[extra].append(module)
    return [
        Check(
            f"extra {extra}",
            not missing,
            "installed" if not missing else "without " + ", ".join(missing),
            f"pip install 'gpu-lockstep[{extra}]', where this machine needs it",
        )
        for extra, missing in found.items()
    ]


def _crc32c() -> Check:
    there = importlib.util.find_spec("crc32c") is not None
    return Check(
        "crc32c",
        there,
        "compiled" if there else "missing: Kafka checksums are computed in Python",
        "pip install crc32c",
    )


def _driver() -> Check:
    from collectors.nvml import driver_version

    version = driver_version()
    return Check(
        "NVIDIA driver",
        version is not None,
        version or "none: the agent sends host and kernel log only",
        "install the driver where this machine has GPUs",
    )


def _kernel_log() -> Check:
    readable = os.access("/dev/kmsg", os.R_OK)
    return Check(
        "kernel log",
        readable,
        "/dev/kmsg can be read" if readable else "/dev/kmsg cannot be read: XIDs come from NVML only",
        "run the agent as root or with CAP_SYSLOG",
    )


def _broker(chosen: Connection) -> Check:
    from runtime.kafka import wait_for_broker

    try:
        wait_for_broker(chosen, 3)
    except UserError as error:
        return Check("broker", False, str(error), "start one with `lockstep up`, or give --broker")
    return Check("broker", True, f"{chosen.broker} answers")


def _database(chosen: ClickHouse) -> Check:
    if importlib.util.find_spec("clickhouse_connect") is None:
        return Check("database", False, "not tried", "pip install 'gpu-lockstep[storage]'")
    from storage.client import get_client

    try:
        version = get_client(chosen).server_version
    except UserError as error:
        return Check("database", False, str(error), "start one with `lockstep up`, or give --clickhouse-host")
    return Check("database", True, f"ClickHouse {version} at {chosen.clickhouse_host}:{chosen.clickhouse_port}")
