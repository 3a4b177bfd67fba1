"""What the HTTP library says of requests that are no HTTP: one line, and not one for each of a flood."""

import logging

from runtime.log import Repeats


class OneLine(logging.Filter):
    """Takes the traceback from a record, and lets one of a kind through every ten seconds."""

    def __init__(self, repeats: Repeats | None = None) -> None:
        super().__init__()
        self._repeats = repeats or Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        said = (str(error).splitlines() or [""])[0][:200]
        text = f"a request was refused: {said or type(error).__name__}"
        self._repeats.log(_log, logging.WARNING, type(error).__name__, text)
        return False


_log = logging.getLogger(__name__)


def http_logger() -> logging.Logger:
    """The logger for aiohttp's server."""
    logger = logging.getLogger("lockstep.engine.http")
    if not any(isinstance(one, OneLine) for one in logger.filters):
        logger.addFilter(OneLine())
    return logger
