"""The embedded engine: ClickHouse in one process, behind ClickHouse's HTTP interface.

    client --HTTP--> server (aiohttp loop) --> lanes (threads) --> connections --> the engine in this process (chdb)

For trying the product, and for one machine: `clickhouse-connect`, `curl` and Grafana speak to it as to a server.
"""

import logging
import os
import threading
from collections.abc import Callable

from runtime.errors import UserError
from storage.engine.confine import confine
from storage.engine.folder import hold
from storage.engine.settings import EngineSettings, check

__all__ = ["EngineSettings", "serve"]

_log = logging.getLogger(__name__)


def serve(settings: EngineSettings, ready: Callable[[int], None], stop: threading.Event) -> None:
    """Run the engine until `stop`; `ready` is called with the port once it answers.

    Raises UserError for a folder that another process holds, an address that is taken, or one that others can reach
    without a password. Only one engine can run in a process.
    """
    check(settings)
    folder, lock = hold(settings)
    with lock:
        try:
            # Here and not above: chdb takes a third of a second and 200 MB, also from who only wants the settings. It
            # starts threads, which must be confined as well, and a trial engine in a temporary folder; aiohttp reads
            # what is known of file types, and is before.
            import aiohttp.web  # noqa: F401

            os.environ["TMPDIR"] = os.fspath(folder / "spool")
            if not confine(folder):
                _log.warning(
                    "no Landlock in this kernel (Linux 5.13 or newer has it): that statements reach no file outside %s "
                    "rests on what they are refused by name; give a password to nobody whom you would give no shell",
                    folder,
                )
            from storage.engine.service import run
        except ImportError as error:
            raise UserError(f"no module {error.name}: pip install 'gpu-lockstep[embedded]'") from None
        run(folder, settings, ready, stop)
