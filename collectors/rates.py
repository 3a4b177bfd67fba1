"""Counters become rates on the node, from integers in full width.

A float32 has 24 bits: a byte counter past 16 MiB would already lose single bytes, one past a terabyte whole seconds of
traffic. See docs/decisions/counters-become-rates.md.
"""

from collections.abc import Hashable, Sequence

Value = float | str
"""A number, or the reason why there is none (counted as missing{reason})."""


class Rates:
    """Remembers the last values of counters, by key.

    >>> rates = Rates()
    >>> [rates.rate("tx", (count,), at) for at, count in enumerate((10, 20, 5, 15))]
    ['first_reading', 10.0, 'counter_fell', 10.0]
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[Sequence[int], float, object]] = {}

    def rate(self, key: Hashable, counts: Sequence[int], at_s: float, who: object = None) -> Value:
        """Growth per second of all `counts` together since the last call; `at_s` is monotonic.

        A counter that falls was reset: a new epoch begins and there is no rate, however small the fall, and however
        much the others grew. `who` names the counters where they may be others next time.
        """
        before = self._last.get(key)
        self._last[key] = (counts, at_s, who)
        if before is None or before[2] != who or at_s <= before[1]:
            return "first_reading"
        if len(counts) == 1:
            grown = counts[0] - before[0][0]
            return grown / (at_s - before[1]) if grown >= 0 else "counter_fell"
        growth = [now - then for now, then in zip(counts, before[0], strict=True)]
        if min(growth) < 0:
            return "counter_fell"
        return sum(growth) / (at_s - before[1])
