"""From "so many false findings may there be" to the p-value that an alarm needs.

The bound holds however much neighbouring ticks resemble each other: a finding takes k ticks below the limit, so of the
expected number of such ticks each finding uses up at least k (Markov). It is a bound on healthy things alike to those
the model was calibrated on; what a stretch of healthy data can prove beyond that is a Poisson bound.
"""

from math import exp

SECONDS_A_DAY = 86_400.0
PER_DAYS = 10_000.0
"""Budgets are findings per so many days of one GPU (or whatever is judged)."""


def alarm_p(findings: float, needed_ticks: int, interval_s: float = 1.0) -> float:
    """The p-value limit of one tick for at most `findings` per 10,000 days, where a finding takes `needed_ticks`.

    >>> f"{alarm_p(10, 8):.1e}"
    '9.3e-08'
    """
    if findings <= 0:
        raise ValueError(f"a budget of {findings:g} findings; it must be more than 0")
    return min(findings / PER_DAYS * needed_ticks * interval_s / SECONDS_A_DAY, 1.0)


def findings_within(p: float, needed_ticks: int, interval_s: float = 1.0) -> float:
    """The reverse: at most so many findings per 10,000 days with a limit of `p`."""
    return p * PER_DAYS * SECONDS_A_DAY / (needed_ticks * interval_s)


def events_at_most(seen: int, confidence: float = 0.95) -> float:
    """The largest Poisson mean that healthy data with `seen` events does not rule out at this confidence.

    >>> round(events_at_most(0), 2)
    3.0
    """
    low, high = float(seen), 2.0 * seen + 50.0
    while high - low > 1e-9 * high:
        mean = (low + high) / 2
        term = at_most = exp(-mean)
        for k in range(1, seen + 1):
            term *= mean / k
            at_most += term
        low, high = (mean, high) if at_most > 1 - confidence else (low, mean)
    return high
