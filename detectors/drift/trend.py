"""Which way a series goes, how sure that is, and when it will be at a limit.

The slope is the median of the slopes between all pairs of points (Theil 1950, Sen 1968), which a quarter of wild points
does not move. Whether it is one at all is Kendall's S, the count of pairs that rise less those that fall: of `n`
independent points its variance is n(n-1)(2n+5)/18, less t(t-1)(2t+5)/18 for each group of t equal ones (Kendall 1975).
Points of a load that comes and goes are not independent: the variance is raised by (1+r)/(1-r), r the correlation of
neighbours in what is left beside a parabola, its bias of so few points removed (after Yue and Wang 2004; beside a
line, a drift that quickens would look like correlation). The bounds of the slope are Sen's: the pair slopes so many
ranks from the middle.

How often noise is taken for a slope: by the normal law that is behind Z, once in 1e7 judgements; Kendall's S has
lighter tails. Simulated windows of 24 and 30 points, 20,000 of each kind: none with neighbours correlated by 0, 0.3
or 0.5; 5 to 15 in 100,000 by 0.7; 6 to 10 in 10,000 by 0.9; 2 to 3 in 1,000 of a random walk, which is a drift. A limit
that is near (`AHEAD`) is asked for besides.

When it is wrong: a load that grows day by day is a drift of what depends on it; a drift that quickens reaches the limit
before the stated time.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Z = 5.2
"""One-sided p-value 1e-7. A GPU with five series, of which each is judged 39 times a day (24 by hours, 8, 4, 2 and 1 by
longer points), has 71,000 judgements a year: at most one false slope in 140 GPU-years, were all of them independent,
whether a limit is near or not."""

Z_BOUNDS = 1.645
"""The stated bounds hold in nine of ten cases."""

AHEAD = 2.0
"""How many times the window that was seen the line is followed beyond it: what a day shows says nothing of a month."""

LEAST_CONCORDANCE = 0.5
"""Of all pairs, rising less falling: with fewer no window of up to 30 points reaches Z. Spares the work on the rest."""

MOST_CORRELATED = 0.9


class Slope(NamedTuple):
    """Steps of one point; `value` is the line's at the last point, `first` at the first point that is not missing, `at`
    its place. `low` and `high` are the bounds of the slope, `value_low` and `value_high` what their lines end at."""

    slope: float
    low: float
    high: float
    value: float
    value_low: float
    value_high: float
    first: float
    at: int
    z: float


class Arrival(NamedTuple):
    """Points until the limit: most likely, not before, not after (infinite where the bound never gets there)."""

    likely: float
    soonest: float
    latest: float


def concordance(values: Floats) -> Floats:
    """Kendall's S as a share of the pairs there are, of rows of values (rows, points); 0 where there is no pair."""
    total, pairs = np.zeros(len(values)), np.ones(len(values))
    moves = np.flatnonzero(np.fmax.reduce(values, axis=1) > np.fmin.reduce(values, axis=1))
    i, j = _pairs(values.shape[1])
    signs = np.sign(values[moves][:, j] - values[moves][:, i])
    total[moves], pairs[moves] = np.nansum(signs, axis=1), np.count_nonzero(~np.isnan(signs), axis=1)
    return total / pairs


@lru_cache(maxsize=64)
def _pairs(points: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(points, 1)


def rising(values: Floats, z_least: float = Z) -> Slope | None:
    """The slope of one row of values (NaN is missing) where it surely rises, else None."""
    at = np.flatnonzero(~np.isnan(values))
    there, n = values[at], len(at)
    if n < 3 or at[-1] < len(values) * 3 // 4:
        return None
    i, j = _pairs(n)
    apart = (at[j] - at[i]).astype(np.float64)
    differences = there[j] - there[i]
    rises = float(np.sign(differences).sum())
    variance = _variance(there)
    if variance <= 0 or (rises - 1) / variance**0.5 < z_least:
        return None  # the next factor is at least 1
    variance *= _inflation(there, at)
    if (rises - 1) / variance**0.5 < z_least:
        return None
    slopes = np.sort(differences / apart)
    off = Z_BOUNDS * variance**0.5 / 2
    middle = (len(slopes) - 1) / 2
    low = float(slopes[max(int(middle - off), 0)])
    high = float(slopes[min(int(np.ceil(middle + off)), len(slopes) - 1)])
    slope = float(np.median(slopes))

    def ends(of: float) -> float:
        return float(np.median(there - of * at) + of * (len(values) - 1))

    return Slope(
        slope=slope,
        low=low,
        high=high,
        value=ends(slope),
        value_low=ends(low),
        value_high=ends(high),
        first=ends(slope) - slope * float(len(values) - 1 - at[0]),
        at=int(at[0]),
        z=(rises - 1) / variance**0.5,
    )


def arrival(slope: Slope, limit: float) -> Arrival:
    """When a rising line meets `limit`: 0 where it has."""

    def after(value: float, rise: float) -> float:
        return 0.0 if value >= limit else (limit - value) / rise if rise > 0 else float("inf")

    return Arrival(
        after(slope.value, slope.slope), after(slope.value_high, slope.high), after(slope.value_low, slope.low)
    )


def _variance(there: Floats) -> float:
    """Of Kendall's S for independent points, ties counted."""
    n = len(there)
    ties = np.unique(there, return_counts=True)[1].astype(np.float64)
    return float(n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18


def _inflation(there: Floats, at: NDArray[np.intp]) -> float:
    """(1+r)/(1-r) of what a parabola leaves; neighbours are points next to each other, gaps are none."""
    n = len(there)
    if n < 8:
        return 1.0
    t = (at - at.mean()) / n
    shape = np.stack([np.ones(n), t, t * t], axis=1)
    left = there - shape @ np.linalg.lstsq(shape, there, rcond=None)[0]
    power = float((left * left).sum())
    scale = float((there * there).sum())
    if power <= 1e-12 * scale:
        return 1.0  # nothing is left but rounding
    next_to = np.diff(at) == 1
    r = float((left[1:] * left[:-1])[next_to].sum()) / power
    r = min(max((r * n + 3) / (n - 5), 0.0), MOST_CORRELATED)
    return (1 + r) / (1 - r)
