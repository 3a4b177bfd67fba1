"""A wall clock that is set while the agent runs, as an event: the node's records go on at another place in time.

Ticks follow the new clock at once (`collectors.agent.pace`). That a node's clock is wrong only the others can tell
(`detectors.silence`); that it was set, and by how much, only its own monotonic clock can.
"""

import logging

from collectors.base import event
from runtime.clock import Clock
from schemas.event import Event

logger = logging.getLogger(__name__)

STEP_S = 1.0
"""A tick: what is set by less leaves every record in its own second, or the next one. Synchronisation corrects a clock
by at most half a millisecond a second, which from one look to the next is nothing."""

LOOK_S = 0.1
"""Reading both clocks may take so long; in a process that was held up in between they do not belong together."""


class ClockWatch:
    """Compares `clock`'s wall with its monotonic time at each look. A machine that slept looks like one that was set
    forward: it is missing in its own past either way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = self._read()

    def stepped(self) -> Event | None:
        """What happened to the wall clock since the last look; None for nothing."""
        before_s, now_s = self._ahead_s, self._read()
        if now_s is None:
            return None
        self._ahead_s = now_s
        if before_s is None or abs(now_s - before_s) < STEP_S:
            return None
        step_s = round(now_s - before_s, 1)
        text = f"the node's clock was set {'forward' if step_s > 0 else 'back'} by {abs(step_s):g} s"
        logger.warning("%s", text)
        return event("clock_stepped", severity="warning", text=text, detail={"step_s": f"{step_s:g}"})

    def _read(self) -> float | None:
        """How far the wall clock is ahead of the monotonic one; None where that cannot be said just now."""
        begun_s = self._clock.monotonic()
        wall_s = self._clock.now_ms() / 1000
        return wall_s - begun_s if self._clock.monotonic() - begun_s < LOOK_S else None
