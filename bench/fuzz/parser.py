"""One parser as the fuzzer sees it, and the limits that hold for every input."""

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SCRATCH = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
"""Where inputs that must be files are put: in memory, where there is such a place."""


class Parser(NamedTuple):
    """`run` gives the bytes to the parser and goes through all that it says. `seeds` are samples of the real formats.

    `refuses` are the exceptions by which it says that it cannot use them; `limit_s` is the CPU time that one input may
    take, by far more than it needs.
    """

    run: Callable[[bytes], object]
    seeds: Sequence[bytes]
    refuses: tuple[type[Exception], ...] = ()
    limit_s: float = 2.0


PATIENCE_S = 300.0
"""For the samples themselves, which may have to be compiled for."""


class TooSlow(BaseException):
    """The input took longer than its limit. No Exception: nothing on the way may take it for its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TooSlow in the block once it has used so much CPU time, be it inside a regular expression."""

    def late(*_: object) -> None:
        raise TooSlow(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fed(parser: Parser, data: bytes) -> bool:
    """Whether the parser took `data`; False where it refused. Whatever else it raises is a fault of the parser."""
    try:
        with limited(parser.limit_s):
            parser.run(data)
    except parser.refuses:
        return False
    return True
