"""Which processes make Lockstep on one machine, in the order they start."""

import os
from collections.abc import Mapping
from pathlib import Path

from lockstep.supervisor import Addresses, Service
from runtime.errors import UserError
from runtime.files import Lock, named_folder


def data_folder(given: str | None, environment: Mapping[str, str]) -> Path:
    """Where this machine's data lies: `given`, LOCKSTEP_DATA, or the user's data folder; made where missing."""
    if given == "":
        raise UserError("--data is empty: give a folder, or leave it out")
    default = Path(environment.get("XDG_DATA_HOME") or "~/.local/share") / "lockstep"
    folder = named_folder(given or environment.get("LOCKSTEP_DATA") or str(default), "--data or LOCKSTEP_DATA")
    try:
        (folder / "log").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"data folder {folder}: {error.strerror}; choose another by --data or LOCKSTEP_DATA") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"data folder {folder} cannot be written; choose another by --data or LOCKSTEP_DATA")
    return folder


def hold(folder: Path) -> Lock:
    """The right to run everything on `folder`; UserError where another `lockstep up` has it."""
    try:
        return Lock(folder / "up.lock", f"another `lockstep up` or `lockstep demo` runs on {folder}")
    except OSError as error:
        raise UserError(f"{folder / 'up.lock'}: {error.strerror}; remove it, or choose another --data") from None


def services(
    data: Path, *, http_port: int, workers: int, paged: bool, extra: tuple[Service, ...] = ()
) -> list[Service]:
    """Broker, database, migration, workers, writer, and alerts where a receiver is configured; then `extra`."""

    def both(addresses: Addresses) -> dict[str, str]:
        host, _, port = addresses["database"].rpartition(":")
        return {
            "LOCKSTEP_BROKER": addresses["broker"],
            "LOCKSTEP_BROKER_EMBEDDED": "true",
            "LOCKSTEP_CLICKHOUSE_HOST": host,
            "LOCKSTEP_CLICKHOUSE_PORT": port,
        }

    needs = ("broker", "database")
    return [
        Service(name="broker", arguments=("broker",), publishes=True),
        Service(
            name="database",
            arguments=("storage", "serve", "--data", str(data / "clickhouse"), "--port", str(http_port)),
            publishes=True,
        ),
        Service(name="migrate", arguments=("storage", "migrate"), needs=needs, environment=both, once=True),
        *(
            Service(name=f"worker-{slot}", arguments=("worker", "--slot", str(slot)), needs=needs, environment=both)
            for slot in range(workers)
        ),
        Service(name="writer", arguments=("writer",), needs=needs, environment=both),
        *((Service(name="alerts", arguments=("alerts",), needs=needs, environment=both),) if paged else ()),
        *(
            Service(
                name=service.name,
                arguments=service.arguments,
                needs=needs,
                environment=both,
                once=service.once,
            )
            for service in extra
        ),
    ]
