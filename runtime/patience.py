"""A wait that is said: silence makes a person think that the program hangs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE_S = 1.0
"""A wait that is longer than this says what it waits for."""


@contextmanager
def waiting_for(what: str, say: Callable[[str], object], after_s: float = SILENCE_S) -> Iterator[None]:
    """Tell `say` once that this waits for `what`, if the block takes longer than `after_s`."""
    timer = threading.Timer(after_s, say, (f"waiting for {what} ...",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
