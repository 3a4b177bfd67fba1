"""One tick of a node's host in two compiled passes: what is read, and how it compares with what is usual.

The arrays are those of `condition.Averages` (`ring`), `Baseline` (`cells`) and `Couplings`, each of one row.
"""

import numpy as np

from detectors.compile import compiled
from detectors.condition import Float32, Index, mean_row
from detectors.node.baseline import MEMORY_TICKS, compare_row, learn_row
from detectors.node.coupling import learn_row as couple_row

FAR = 4.0
"""Spreads from which a reading counts as moved (as for the signs of a GPU's alarm)."""

UNJUDGED, USUAL, MOVED = range(3)
"""What a tick's readings are: none that can be judged, none that moved the wrong way, some that did."""

VALUES, READINGS, Z, CENTRE = range(4)
"""The lines of a tick's numbers: what was read, its average, how it compares with the baseline, the baseline."""


@compiled
def read(
    given: Float32,
    source: Index,
    target: Index,
    low: Float32,
    high: Float32,
    new: bool,
    ring: Float32,
    step: int,
    tick: Float32,
) -> bool:
    """The wanted readings in range, and their averages over the `ring`, which a `new` series of readings starts anew;
    False, and nothing done, where none of those that are judged is there."""
    values, readings = tick[VALUES], tick[READINGS]
    size, found = ring.shape[2], False
    for c in range(len(values)):
        values[c] = np.nan
    for k in range(len(target)):
        c, value = target[k], given[0, source[k]]
        if value >= low[c] and value <= high[c]:
            values[c] = value
            found |= c < size
    if not found:
        return False
    for c in range(size):  # a slice takes the compiler longer than all the rest: it would word what does not fit
        if new:
            for k in range(len(ring)):
                ring[k, 0, c] = np.nan
        ring[step, 0, c] = values[c]
    mean_row(ring[:, 0], readings[:size])
    return True


@compiled
def judge(
    tick: Float32,
    state: int,
    age: int,
    calm: bool,
    ways: Float32,
    settle: Float32,
    floor: Float32,
    cells: Float32,
    covariance: Float32,
    count: Float32,
) -> tuple[int, bool]:
    """Compare the readings with what is usual in this `state`, and where nothing moved and the host is `calm`, learn
    from them. Returns what they are, and whether the root of the couplings is due."""
    size, found = len(floor), UNJUDGED
    settled = np.empty(size, dtype=np.uint8)
    for c in range(size):
        settled[c] = age >= settle[c]
    z = tick[Z, :size]
    compare_row(cells[0, state], floor, tick[READINGS, :size], settled, z, tick[CENTRE, :size])
    for c in range(size):
        worse = ways[c] * z[c] if ways[c] != 0 else abs(z[c])
        if worse >= FAR:
            found = MOVED
        elif worse == worse and found == UNJUDGED:
            found = USUAL
    due = False
    if calm and found != MOVED:
        due = learn_from(tick, state, age, settle, floor, cells, covariance, count)
    return found, due


@compiled
def learn_from(
    tick: Float32,
    state: int,
    age: int,
    settle: Float32,
    floor: Float32,
    cells: Float32,
    covariance: Float32,
    count: Float32,
) -> bool:
    """Learn what is usual from a tick; whether the root of the couplings is to be drawn anew, is returned."""
    size = len(floor)
    settled = np.empty(size, dtype=np.uint8)
    for c in range(size):
        settled[c] = age >= settle[c]
    learn_row(cells[0, state], floor, MEMORY_TICKS, tick[READINGS, :size], settled)
    count[0], due = couple_row(covariance[0], count[0], MEMORY_TICKS, tick[Z, :size])
    return due
