"""Logging: one line an event, to standard error, never more than one per kind and ten seconds for repeats."""

import logging
import sys
from collections.abc import Callable
from time import monotonic

LIBRARIES = ("aiokafka", "faust", "mode", "urllib3")
"""They say what goes wrong as often as they try."""

KINDS = 1000
"""Remembered at a time: messages with their values in them are a kind each."""


def configure(process: str, level: int = logging.INFO) -> None:
    """Set up logging of this process: time, process, level, message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s {process} %(levelname)s %(message)s", "%H:%M:%S"))
    handler.addFilter(Libraries(Repeats()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in LIBRARIES:
        logging.getLogger(chatty).setLevel(logging.WARNING)


class Repeats:
    """Lets one message of a kind through per interval and says how many it held back."""

    def __init__(self, interval_s: float = 10.0, now: Callable[[], float] = monotonic) -> None:
        self._interval_s, self._now = interval_s, now
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def log(self, logger: logging.Logger, level: int, kind: str, message: str) -> None:
        held = self.held(kind)
        if held is not None:
            logger.log(level, message + more(held))

    def held(self, kind: str) -> int | None:
        """How many were held back before this one that may go; None where it is held back itself."""
        now = self._now()
        if now - self._last.get(kind, float("-inf")) < self._interval_s:
            self._held[kind] = self._held.get(kind, 0) + 1
            return None
        if len(self._last) >= KINDS:
            self._last, self._held = {}, {}
        self._last[kind] = now
        return self._held.pop(kind, 0)


def more(held: int) -> str:
    """What is put behind a message for those that were held back."""
    return f" ({held} more like this)" if held else ""


class Libraries(logging.Filter):
    """Of what `LIBRARIES` say, one message of a kind an interval; a kind is a message before values are filled in."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in LIBRARIES:
            return True
        held = self._repeats.held(f"{record.name} {str(record.msg)[:200]}")
        if held is None:
            return False
        record.msg = f"{record.msg}{more(held)}"
        return True
