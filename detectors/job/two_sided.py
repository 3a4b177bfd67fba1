"""The two-sided score of a training step: own time up against its own past, and the peers waiting for it.

Own time is step - compute - comm - wait (data loading in it); blocked time is the rest, the waiting in collectives in
it. With both taken against each rank's own past,

    score = min(own - median of all own, median of all blocked - blocked)

is what the job loses to that rank in that step: the median takes the motion common to all out of the first side, and
the second side is zero unless the others are held up while this rank is not. A rank's own step or compute time never
enters. At one step time for all both sides are two views of the same times: a rank that reports less compute than
before, in a step that takes no longer, shows both. So the peers must also wait longer than they used to (`lost_us`), or
the step must be one that would have ended sooner without that rank (`sooner`).

Wrong where more than half of the ranks are slow at once (`detectors.job.shift` judges these), and where a table
has none of the columns: own time is then unknown and nobody is named.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.groups import Floats
from schemas.step import RankStep

PEERS = 0.25
"""A rank costs the job something where a quarter of its lateness reaches its peers: all of it does, half of it the
median of two ranks, and the rest is room for noise. It reaches them where they are held up longer than they used to be,
or, step by step, where the step would have ended sooner without it (`sooner`): on a host that was restless before and
is calm under the fault they wait less than they used to, and all of it for the culprit. Where it costs nothing, a
rank's account of its own time changed (a phase it no longer reports, a slack it now uses)."""


class StepTable(NamedTuple):
    """One step as arrays over ranks, microseconds, NaN for a rank or time that is not there."""

    step: Floats
    data: Floats
    own: Floats
    blocked: Floats
    allocator: Floats
    work: Floats
    score: Floats
    """The two-sided score of this step alone; NaN while there is no past."""
    step_us: float
    """The job's step time, the median over its ranks."""
    floor_us: float
    """The shortest blocked time: that of the last to arrive, who waits for nobody. It is the step's compute and
    communication without any waiting, as the shortest time of a collective is its transfer."""
    lost_us: float = math.nan
    """By how much the middle rank is held up more than usual: what the job loses to whoever is late."""
    end_ms: int = 0
    """When the last rank ended it."""
    number: int = 0
    """Which step it is."""


def step_table(rows: Mapping[int, RankStep], size: int) -> StepTable:
    """The rows of one step. Without compute, communication and waiting times own time is the data time alone."""
    table = np.full((8, size), np.nan)
    ranks = np.fromiter(rows, np.intp, len(rows))
    table[:, ranks] = np.array(
        [
            (r.step_us, r.data_us, r.compute_us, r.comm_us, r.wait_us, r.allocator_stall_us, r.work, r.shape)
            for r in rows.values()
        ]
    ).T
    step, data, parts = table[0], table[1], table[2:5]
    absent = np.isnan(parts)
    # A rank without a time that others report has an unknown own time: what is missing is not its own.
    told = ~absent.all(axis=1)
    spent = np.where(absent, 0.0, parts).sum(axis=0)
    own = np.where(absent[told].any(axis=0), np.nan, np.maximum(step - spent, 0.0)) if told.any() else data
    work = np.where(np.isnan(table[6]), table[7], table[6])
    blocked = step - own
    floor = float(np.fmin.reduce(blocked)) if size else math.nan
    return StepTable(step, data, own, blocked, table[5], work, np.full(size, np.nan), median(step), floor)


def two_sided(now: StepTable, own_past: Floats, blocked_past: Floats) -> Floats:
    """The score of each rank, given what is usual for each."""
    own = now.own - own_past
    blocked = now.blocked - blocked_past
    return np.minimum(own - median(own), median(blocked) - blocked)


def lost(now: StepTable, blocked_past: Floats) -> float:
    """How much longer than usual the middle rank is held up; NaN while there is no past."""
    return median(now.blocked - blocked_past)


def sooner(now: StepTable, rank: int, floor_past_us: float, blocked_past: Floats) -> float:
    """By how much sooner this step would have ended had the rank not been late, microseconds: the time between its
    arrival and that of the next to last, as far as it is more than usual and no more than its own score.

    Only the last to arrive holds a step up, and it waits for nobody: its blocked time is the floor. One below the usual
    floor is a matter of its account, for the work of a step takes no less, and does not count.
    """
    score = float(now.score[rank])
    if not score > 0:
        return 0.0
    usual = _ahead(wide(blocked_past, len(now.blocked)), rank, floor_past_us)
    return min(score, max(_ahead(now.blocked, rank, floor_past_us) - usual, 0.0))


def costs(rows: Sequence[StepTable], rank: int, floor_past_us: float, blocked_past: Floats) -> bool:
    """Whether enough of a rank's lateness in these steps would not have been lost without it."""
    late, least = _late(rows, rank)
    return bool(late) and sum(sooner(row, rank, floor_past_us, blocked_past) for row in late) >= least


def waited_for(rows: Sequence[StepTable], rank: int, floor_past_us: float, blocked_past: Floats) -> bool:
    """Whether the peers of a rank that is late by its own account are held up for it, on average over these steps."""
    late, least = _late(rows, rank)
    if not late or sum(row.lost_us for row in late) >= least:
        return True
    return sum(sooner(row, rank, floor_past_us, blocked_past) for row in late) >= least


def _late(rows: Sequence[StepTable], rank: int) -> tuple[list[StepTable], float]:
    """The steps in which a rank was late, and how much of its lateness in them must reach its peers."""
    late = [row for row in rows if len(row.score) > rank and row.score[rank] > 0]
    return late, PEERS * sum(float(row.score[rank]) for row in late)


def _ahead(blocked: Floats, rank: int, floor_us: float) -> float:
    """How much longer everybody else is blocked than this rank or than the floor; 0 where somebody is not."""
    others = float(np.fmin.reduce(np.delete(blocked, rank), initial=np.inf))
    ahead = others - max(float(blocked[rank]), floor_us)
    return ahead if 0 < ahead < math.inf else 0.0


def median(values: Floats) -> float:
    """The median of those that are there; NaN of none."""
    heard = np.sort(values[values == values])
    n = len(heard)
    if not n:
        return math.nan
    return float(heard[n // 2]) if n % 2 else float(heard[n // 2 - 1] + heard[n // 2]) / 2


def lone(score: Floats, times: float) -> NDArray[np.bool_]:
    """The one rank whose score is at least `times` anybody else's; nobody where there is none."""
    out = np.zeros(len(score), np.bool_)
    known = np.nan_to_num(score, nan=-np.inf)
    first = int(np.argmax(known))
    if known[first] > 0:
        out[first] = bool((np.delete(known, first) <= known[first] / times).all())
    return out


def wide(values: Floats, size: int) -> Floats:
    """The values of the ranks known before, NaN for those that came later."""
    return np.concatenate([values, np.full(size - len(values), np.nan)]) if len(values) < size else values
