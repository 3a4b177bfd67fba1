"""When the whole job becomes slower: is it one node, or everything?

Three averages over a window are held against their own past: the step; its *floor*, the shortest blocked time of a
step, which is that of the last to arrive and so holds no waiting; and the *delay*, the largest own time of a step above
that rank's past, whoever's it is. The step is floor and delay together.

The job is slower when the step is, or when the floor is while most ranks of a node spend more time by themselves (the
floor does not beat, so a busy host shows at once). If most ranks of one node moved, or the delay holds most of the rise
and comes from ranks of one node in turn, it is that node; ranks of several nodes, or none, are the job. Where only some
ranks moved and one is already blamed, nothing more is said.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.job.past import Past
from detectors.job.two_sided import StepTable, wide

Floats = NDArray[np.float64]

WINDOW = 24
"""Steps averaged: enough to cover the two-step beat of a host-bound job many times (average 3 steps at the least)."""

TRIM = 2
"""The largest values of a window that do not count: a checkpoint or evaluation between steps is no slowdown."""

RISE = 0.10
Z = 5.0
"""A job is slower when its mean step is up by 10 %, the published floor for verified change points, and by 5 spreads.
Half of both is enough where most ranks of a node rose by themselves too: then two independent signals say so."""

FLOOR_RISE = 0.03
"""... and where they did, so is a floor up by 3 % and 5 spreads: over 24 steps it moves by no more than 2.1 % in any
clean part of the Ascend runs, host-bound ones included (0.6 %)."""

DELAY_PART = 0.5
"""The delay is the reason when it rose by at least this part of the step's rise."""

STEADY = 0.25
"""A rank is slower in nearly every step where even the lowest quarter of its steps shows it."""

LONE = 2.0
"""... and it alone, where nobody else shows half as much, nor the middle rank of its node a quarter on average."""

LEAST = 12
"""Steps in which the window must say so, half a window: the first ones see only part of the change."""

READY = 30
"""Steps before the first judgement: a window, and a few of its positions."""

OWN_RISE = 0.02
"""A node moved when the own time of its middle rank is up by 2 % of the step: more than half of its ranks moved
together. In clean parts of the Ascend runs the middle rank of 16 moves by no more than 1.2 %, the noisiest host's."""

OWN_PART = 0.25
"""The ranks themselves are the reason when their own rise is at least this part of the job's; else all waited for
something outside of them."""

MOST = 0.6
"""A node holds the job up when this part of the delay comes from its ranks."""

DELAY = 2 * WINDOW
"""A window is learned only this many steps later, and only if nothing was raised since: a slow rise is not unlearned
before it is seen."""

HOST_SIZE = 16
"""Ranks that one host can have; more ranks without a node's name are not taken for one node."""


class Shift(NamedTuple):
    """The job became slower. `node` is set where one node's ranks are the reason, `rank` where one of them alone is
    slower in nearly every step (a noisy host hides that in single ones); `own` says whether the ranks' own
    time is, `in_turn` that they hold the others up one after the other rather than all of them in every step; `moved`
    counts the ranks whose own time rose."""

    node: str | None
    rank: int | None
    own: bool
    in_turn: bool
    moved: int
    step_us: float
    step_past_us: float
    own_us: float
    own_past_us: float
    delay_us: float
    delay_past_us: float
    onset_ms: int
    onset_step: int


class _Window(NamedTuple):
    """Means over the window."""

    step_us: float
    floor_us: float
    delay_us: float
    own: Floats


STEP, FLOOR, HELD = range(3)
"""The averages of a window: the step, its floor, and the delay of whoever was last."""


class ShiftWatch:
    """The window over a job's steps. `raised` is True from the first raised window on, before it is a verdict; `open`
    while it is one."""

    PASTS = ("job", "own")
    """What is learned, and saved with the job's learning."""

    def __init__(self) -> None:
        self.job = Past(3)
        self.own = Past(0)
        self.raised = False
        self._rows: deque[tuple[float, float, float, int, Floats, Floats]] = deque(maxlen=WINDOW)
        self._score = 0
        self.open = False
        self._since = (0, 0)
        self.seen = 0
        self._blamed = 0
        self._node: str | None = None
        self._in_turn = False
        self._rank: int | None = None
        self._unlearned: deque[_Window] = deque()

    def update(
        self, now: StepTable, usual_own: Floats, node_of: dict[int, str], ts_ms: int, number: int, blamed: bool
    ) -> Shift | None:
        """One step: what each rank did in it, its usual own time, and whether single ranks are blamed already."""
        self.own.grow(len(now.own))
        excess = now.own - usual_own
        known = bool((excess == excess).any())
        last = int(np.nanargmax(excess)) if known else -1
        delay = float(excess[last]) if known else float("nan")
        self._rows.append((now.step_us, now.floor_us, delay, last, _of_nodes(now.own, node_of), excess))
        self.seen += 1
        if len(self._rows) < WINDOW // 2:
            return None
        size = len(now.own)
        three = _trimmed(np.array([row[:3] for row in self._rows]))
        owns = _trimmed(np.array([wide(row[4], size) for row in self._rows]))
        window = _Window(float(three[0]), float(three[1]), float(three[2]), owns)
        self._blamed = WINDOW if blamed else max(self._blamed - 1, 0)
        up = self.seen >= READY and self._up(window, node_of)
        if up and not self._score:
            self._since = (ts_ms, number)
        self.raised = up
        self._score = min(self._score + 1, 2 * LEAST) if up else max(self._score - 1, 0)
        self.open = self._score >= LEAST or (self.open and self._score > 0)
        if not self.open:
            self._node, self._rank, self._in_turn = None, None, False
        self._learn(window)
        return self._shift(window, node_of) if self.open else None

    def _up(self, window: _Window, node_of: dict[int, str]) -> bool:
        together = bool(_movers(self._moved(window.own), node_of))
        if _risen(window.step_us, self.job, STEP, RISE, 0.5 if together else 1.0):
            return together or not self._blamed
        return together and _risen(window.floor_us, self.job, FLOOR, FLOOR_RISE)

    def _moved(self, owns: Floats) -> NDArray[np.bool_]:
        limit = np.maximum(OWN_RISE * float(self.job.centre[STEP]), 2 * np.nan_to_num(self.own.spread))
        moved: NDArray[np.bool_] = owns - self.own.centre > limit
        return moved

    def _learn(self, window: _Window) -> None:
        if self.raised or self.open or self._blamed:
            self._unlearned.clear()
            return
        self._unlearned.append(window)
        if self.seen < READY or len(self._unlearned) > DELAY:
            old = self._unlearned.popleft()
            self.own.grow(len(old.own))
            self.job.learn(np.array([old.step_us, old.floor_us, old.delay_us]))
            self.own.learn(np.concatenate([old.own, np.full(self.own.size - len(old.own), np.nan)]))

    def _shift(self, window: _Window, node_of: dict[int, str]) -> Shift:
        usual = float(self.job.centre[STEP])
        rise = window.own - self.own.centre
        moved = self._moved(window.own)
        own_rise = float(np.nanmedian(rise[moved])) if moved.any() else 0.0
        own = own_rise >= OWN_PART * (window.step_us - usual)
        # A node once named stays named: near the bar the count of its ranks comes and goes.
        if self._node is None and self._rank is None:
            self._rank = self._steadily_slow(window)
            if self._rank is None and own:
                self._node = self._one_node(moved, node_of)
            if self._node is None and self._rank is None:
                self._node = self._delaying(window, node_of)
                self._in_turn = self._node is not None
        return Shift(
            node=self._node,
            rank=self._rank,
            own=own or self._node is not None,
            in_turn=self._in_turn,
            moved=int(moved.sum()),
            step_us=window.step_us,
            step_past_us=usual,
            own_us=float(np.nanmedian(window.own)) if moved.any() else float("nan"),
            own_past_us=float(np.nanmedian(self.own.centre)) if moved.any() else float("nan"),
            delay_us=window.delay_us,
            delay_past_us=float(self.job.centre[HELD]),
            onset_ms=self._since[0],
            onset_step=self._since[1],
        )

    def _one_node(self, moved: NDArray[np.bool_], node_of: dict[int, str]) -> str | None:
        """The one node whose ranks moved; None where several did, or where ranks are not told apart by node."""
        movers = _movers(moved, node_of)
        return movers[0] if len(movers) == 1 and _told_apart(node_of) else None

    def _steadily_slow(self, window: _Window) -> int | None:
        """The one rank whose own time is up in nearly every step by most of the job's rise; None if there is none."""
        rise = window.step_us - float(self.job.centre[STEP])
        size = len(window.own)
        low = np.nan_to_num(np.quantile([wide(row[5], size) for row in self._rows], STEADY, axis=0), nan=0.0)
        first = int(np.argmax(low))
        middle = float(np.fmax.reduce(window.own - self.own.centre, initial=0.0))
        least = max(DELAY_PART * rise, OWN_RISE * float(self.job.centre[STEP]), LONE**2 * middle)
        return first if low[first] >= least and (np.delete(low, first) <= low[first] / LONE).all() else None

    def _delaying(self, window: _Window, node_of: dict[int, str]) -> str | None:
        """The one node whose ranks hold the job up in turn; None where several nodes' do."""
        rise = window.step_us - float(self.job.centre[STEP])
        if not (window.delay_us - float(self.job.centre[HELD]) >= DELAY_PART * rise > 0) or not _told_apart(node_of):
            return None
        held: dict[int, float] = {}
        for _, _, delay, last, *_ in self._rows:
            if last >= 0 and delay > 0:
                held[last] = held.get(last, 0.0) + delay
        total = sum(held.values())
        by_node: dict[str, float] = {}
        for rank, us in held.items():
            by_node[node_of.get(rank, "")] = by_node.get(node_of.get(rank, ""), 0.0) + us
        node, most = max(by_node.items(), key=lambda item: item[1], default=("", 0.0))
        return node if node and most >= MOST * total else None


def _risen(value: float, past: Past, which: int, part: float, bar: float = 1.0) -> bool:
    usual, spread = float(past.centre[which]), float(past.spread[which])
    return value - usual > bar * max(part * usual, Z * spread)


def _told_apart(node_of: dict[int, str]) -> bool:
    """Whether ranks have a node's name: more of them than a host can have under one name do not."""
    return len(set(node_of.values())) > 1 or len(node_of) <= HOST_SIZE


def _of_nodes(own: Floats, node_of: dict[int, str]) -> Floats:
    """Each rank's own time replaced by the median of its node's ranks, the lower one of two: more than half of them
    have at least this. A few late ranks do not show in it; a rank alone on its node is no node (NaN)."""
    ranks: dict[str, list[int]] = {}
    for rank, node in node_of.items():
        ranks.setdefault(node, []).append(rank)
    out = np.full(len(own), np.nan)
    for members in ranks.values():
        heard = np.sort(own[members])
        known = int(np.count_nonzero(~np.isnan(heard)))
        if known >= 2:
            out[members] = heard[(known - 1) // 2]
    return out


def _movers(moved: NDArray[np.bool_], node_of: dict[int, str]) -> list[str]:
    """The nodes that moved, in order."""
    return sorted({node_of[rank] for rank in moved.nonzero()[0].tolist() if rank in node_of})


def _trimmed(window: Floats) -> Floats:
    """Mean over axis 0 without the largest TRIM values; NaN rows do not count."""
    ordered = np.sort(window, axis=0)
    heard = np.count_nonzero(~np.isnan(ordered), axis=0)
    kept = np.arange(len(ordered))[:, None] < np.maximum(heard - TRIM, 1)
    total = np.where(kept & ~np.isnan(ordered), ordered, 0.0).sum(axis=0)
    count = np.minimum(np.maximum(heard - TRIM, 1), np.maximum(heard, 1))
    mean: Floats = np.where(heard > 0, total / count, np.nan)
    return mean
