"""Logging: one line an event, to standard error, never more than one per kind and ten seconds for repeats."""

import logging
import sys
from collections.abc import Callable
from time import monotonic


def configure(process: str, level: int = logging.INFO) -> None:
    """Set up logging of this process: time, process, level, message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s {process} %(levelname)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("aiokafka", "faust", "mode", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class Repeats:
    """Lets one message of a kind through per interval and says how many it held back."""

    def __init__(self, interval_s: float = 10.0, now: Callable[[], float] = monotonic) -> None:
        self._interval_s, self._now = interval_s, now
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def log(self, logger: logging.Logger, level: int, kind: str, message: str) -> None:
        now = self._now()
        if now - self._last.get(kind, float("-inf")) < self._interval_s:
            self._held[kind] = self._held.get(kind, 0) + 1
            return
        held = self._held.pop(kind, 0)
        self._last[kind] = now
        logger.log(level, message + (f" ({held} more like this)" if held else ""))
