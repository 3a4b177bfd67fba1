"""Counters become rates on the node, from integers in full width.

A float32 has 24 bits: a byte counter past 16 MiB would already lose single bytes, one past a terabyte whole seconds of
traffic. See docs/decisions/counters-become-rates.md.
"""

from collections.abc import Hashable

Value = float | str
"""A number, or the reason why there is none (counted as missing{reason})."""


class Rates:
    """Remembers the last value of each counter.

    >>> rates = Rates()
    >>> [rates.rate("tx", count, at) for at, count in enumerate((10, 20, 5, 15))]
    ['first_reading', 10.0, 'counter_fell', 10.0]
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[int, float]] = {}

    def rate(self, key: Hashable, count: int, at_s: float) -> Value:
        """Growth per second since the last call; `at_s` is monotonic.

        A counter that falls was reset: a new epoch begins and there is no rate, however small the fall.
        """
        before = self._last.get(key)
        self._last[key] = (count, at_s)
        if before is None or at_s <= before[1]:
            return "first_reading"
        if count < before[0]:
            return "counter_fell"
        return (count - before[0]) / (at_s - before[1])

    def forget(self) -> None:
        """Begin a new epoch of everything: the device was reset, lost or reloaded."""
        self._last.clear()
