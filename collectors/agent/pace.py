"""Ticks on the wall clock's own seconds, so that all nodes speak of the same moments."""

from collections.abc import Callable, Iterator

from runtime.clock import Clock


def ticks(clock: Clock, interval_s: float, stopped: Callable[[], bool], late: Callable[[int], None]) -> Iterator[int]:
    """Milliseconds of each tick, at multiples of `interval_s`, until `stopped`.

    One that comes late skips what it missed and never bunches; `late` is told how many. A clock that steps, either
    way, is followed at once: the next tick is the next multiple on the new clock, possibly one that was there before.
    """
    step_ms = max(1, round(1000 * interval_s))
    last_ms = clock.now_ms() // step_ms * step_ms
    while not stopped():
        # A sleep may end a hair early; that belongs to the tick it was meant for.
        clock.sleep((step_ms + EARLY_MS - (clock.now_ms() + EARLY_MS) % step_ms) / 1000)
        tick_ms = (clock.now_ms() + EARLY_MS) // step_ms * step_ms
        if tick_ms == last_ms:
            continue
        missed = (tick_ms - last_ms) // step_ms - 1
        if 0 < missed < LONGEST_GAP:
            late(missed)
        last_ms = tick_ms
        yield tick_ms


EARLY_MS = 2
LONGEST_GAP = 3600
"""More ticks than this at once is the clock's step, not our lateness."""
