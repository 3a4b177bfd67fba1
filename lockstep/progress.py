"""How far a long run is, for a person at a terminal and for who reads the output of a machine's run."""

from collections.abc import Callable, Mapping

from runtime.clock import Clock

QUIET_S = 30.0
"""Between two lines of one phase where no terminal shows them in place: a log is read afterwards."""


class Progress:
    """The latest line in place on a terminal; elsewhere one at each change of phase, else every 30 s.

    `write` takes text as it is, line ends included.
    """

    def __init__(self, clock: Clock, live: bool, write: Callable[[str], object]) -> None:
        self._clock, self._live, self._write = clock, live, write
        self._phase: object = None
        self._shown = float("-inf")

    def __call__(self, line: str, phase: object) -> None:
        now = self._clock.monotonic()
        if self._live:
            self._write(f"\r\x1b[K{line}")
        elif phase != self._phase or now - self._shown >= QUIET_S:
            self._shown, self._phase = now, phase
            self._write(f"{line}\n")

    def end(self) -> None:
        """Leave the line that was shown in place."""
        if self._live:
            self._write("\n")


def by_topic(sent: Mapping[str, int]) -> str:
    """What was sent in all.

    >>> by_topic({"steps": 12, "node-frames": 12960})
    'sent 12,972 records: node-frames 12,960, steps 12'
    """
    each = ", ".join(f"{topic} {count:,}" for topic, count in sorted(sent.items()))
    return f"sent {sum(sent.values()):,} records" + (f": {each}" if each else "")


SURE_S = 10.0
"""Of what is to be done, before its pace is known: the first seconds are those of everything starting."""


def left(done_s: float, all_s: float, wall_s: float) -> str:
    """How long it still takes at most, at the pace so far; empty where that is not known yet.

    >>> left(30, 120, 20)
    ', at most 60 s more'
    """
    return f", at most {max(0.0, all_s - done_s) * wall_s / done_s:.0f} s more" if done_s >= SURE_S else ""
