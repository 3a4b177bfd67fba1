"""Time that a test turns by hand."""


class FakeClock:
    """Wall clock and monotonic clock run together, apart from `step`; sleeping lets time pass at once."""

    def __init__(self, now_ms: int = 1_764_504_000_000, monotonic: float = 5000.0) -> None:
        self._now_ms, self._monotonic = float(now_ms), monotonic
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        self._now_ms += 1000 * seconds
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._now_ms += 1000 * seconds
