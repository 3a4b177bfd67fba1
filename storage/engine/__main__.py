"""`python -m storage.engine --data DIR --port 0`: the engine alone; prints its port as the first line."""

import argparse
import os
import signal
import sys
import threading

from runtime.errors import UserError
from runtime.log import configure
from runtime.settings import from_environment
from runtime.signals import set_on
from storage.engine import EngineSettings, serve


def main() -> int:
    """Serve until SIGTERM or Ctrl-C; 2 with one line on standard error where the settings cannot work."""
    parser = argparse.ArgumentParser(prog="python -m storage.engine", description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="data folder [LOCKSTEP_ENGINE_DATA]")
    parser.add_argument("--host", help="address to listen on [LOCKSTEP_CLICKHOUSE_HOST]")
    parser.add_argument("--port", type=int, help="port, 0 for a free one [LOCKSTEP_CLICKHOUSE_PORT]")
    given = parser.parse_args()
    configure("engine")
    stop = threading.Event()
    set_on(stop, signal.SIGTERM, signal.SIGINT)
    try:
        settings = from_environment(
            EngineSettings,
            os.environ,
            engine_data=given.data,
            clickhouse_host=given.host,
            clickhouse_port=given.port,
        )
        serve(settings, lambda port: print(port, flush=True), stop)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
