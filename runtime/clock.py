"""Time as an argument: the real clock, and the protocol that tests and the simulator fill."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds, a monotonic second counter, and a way to wait."""

    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
