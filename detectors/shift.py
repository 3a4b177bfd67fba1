"""When the whole job becomes slower: is it one node, or everything?

Step time averaged over a window rises against its own past. If the ranks of one node spend the additional time by
themselves (self time up), it is the node; if most ranks of all nodes do, or none does, it is the job. Where only some
ranks moved and one is already blamed, nothing more is said.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.past import Past

Floats = NDArray[np.float64]

WINDOW = 24
"""Steps averaged: enough to cover the two-step beat of a host-bound job many times (average 3 steps at the least)."""

TRIM = 2
"""The largest values of a window that do not count: a checkpoint or evaluation between steps is no slowdown."""

RISE = 0.10
Z = 5.0
"""A job is slower when its mean step is up by 10 %, the published floor for verified change points, and by 5 spreads.
Half of both is enough where most ranks of a node rose by themselves too: then two independent signals say so."""

LEAST = 12
"""Steps in which the window must say so, half a window: the first ones see only part of the change."""

READY = 30
"""Steps before the first judgement: a window, and a few of its positions."""

OWN_RISE = 0.02
"""A rank moved when its self time is up by 2 % of the step."""

OWN_PART = 0.25
"""The ranks themselves are the reason when their own rise is at least this part of the job's; else all waited for
something outside of them."""

MOST = 0.6
"""This part of the ranks of a node (or nodes of a job) moving together is the node (or the job)."""

DELAY = 2 * WINDOW
"""A window is learned only this many steps later, and only if nothing was raised since: a slow rise is not unlearned
before it is seen."""

HOST_SIZE = 16
"""Ranks that one host can have; more ranks without a node's name are not taken for one node."""


class Shift(NamedTuple):
    """The job became slower. `node` is set where one node's ranks are the reason; `own` says whether the ranks' own
    time is; `moved` counts the ranks whose own time rose."""

    node: str | None
    own: bool
    moved: int
    step_us: float
    step_past_us: float
    own_us: float
    own_past_us: float
    onset_ms: int
    onset_step: int


class ShiftWatch:
    """The window over a job's steps. `raised` is True from the first raised window on, before it is a verdict."""

    def __init__(self) -> None:
        self.steps = Past(1)
        self.own = Past(0)
        self.raised = False
        self._rows: deque[tuple[float, Floats]] = deque(maxlen=WINDOW)
        self._score = 0
        self._open = False
        self._since = (0, 0)
        self.seen = 0
        self._blamed = 0
        self._node: str | None = None
        self._unlearned: deque[tuple[Floats, Floats]] = deque()

    def update(
        self, own: Floats, step_us: float, node_of: dict[int, str], ts_ms: int, number: int, blamed: bool
    ) -> Shift | None:
        """One step: own time per rank, the job's step time, and whether single ranks are blamed already."""
        self.own.grow(len(own))
        self._rows.append((step_us, own))
        self.seen += 1
        if len(self._rows) < WINDOW // 2:
            return None
        steps = _trimmed(np.array([row[0] for row in self._rows])[:, None])
        size = len(own)
        owns = _trimmed(np.array([np.concatenate([r, np.full(size - len(r), np.nan)]) for _, r in self._rows]))
        self._blamed = WINDOW if blamed else max(self._blamed - 1, 0)
        up = self.seen >= READY and self._up(float(steps[0]), owns, node_of)
        if up and not self._score:
            self._since = (ts_ms, number)
        self.raised = up
        self._score = min(self._score + 1, 2 * LEAST) if up else max(self._score - 1, 0)
        self._open = self._score >= LEAST or (self._open and self._score > 0)
        if not self._open:
            self._node = None
        self._learn(steps, owns)
        return self._shift(float(steps[0]), owns, node_of) if self._open else None

    def _up(self, step_us: float, owns: Floats, node_of: dict[int, str]) -> bool:
        usual, spread = float(self.steps.centre[0]), float(self.steps.spread[0])
        together = bool(_movers(self._moved(owns), node_of))
        bar = 0.5 if together else 1.0
        if not step_us - usual > bar * max(RISE * usual, Z * spread):
            return False
        return together or not self._blamed

    def _moved(self, owns: Floats) -> NDArray[np.bool_]:
        limit = np.maximum(OWN_RISE * float(self.steps.centre[0]), 2 * np.nan_to_num(self.own.spread))
        moved: NDArray[np.bool_] = owns - self.own.centre > limit
        return moved

    def _learn(self, steps: Floats, owns: Floats) -> None:
        if self.raised or self._open or self._blamed:
            self._unlearned.clear()
            return
        self._unlearned.append((steps, owns))
        if self.seen < READY or len(self._unlearned) > DELAY:
            old_steps, old_owns = self._unlearned.popleft()
            self.own.grow(len(old_owns))
            self.steps.learn(old_steps)
            self.own.learn(np.concatenate([old_owns, np.full(self.own.size - len(old_owns), np.nan)]))

    def _shift(self, step_us: float, owns: Floats, node_of: dict[int, str]) -> Shift:
        usual = float(self.steps.centre[0])
        rise = owns - self.own.centre
        moved = self._moved(owns)
        own_rise = float(np.nanmedian(rise[moved])) if moved.any() else 0.0
        own = own_rise >= OWN_PART * (step_us - usual)
        # A node once named stays named: near the bar the count of its ranks comes and goes.
        if own and self._node is None:
            self._node = self._one_node(moved, node_of)
        return Shift(
            node=self._node,
            own=own or self._node is not None,
            moved=int(moved.sum()),
            step_us=step_us,
            step_past_us=usual,
            own_us=float(np.nanmedian(owns)),
            own_past_us=float(np.nanmedian(self.own.centre)),
            onset_ms=self._since[0],
            onset_step=self._since[1],
        )

    def _one_node(self, moved: NDArray[np.bool_], node_of: dict[int, str]) -> str | None:
        """The one node whose ranks moved; None where several did, or where ranks are not told apart by node."""
        movers = _movers(moved, node_of)
        if len(movers) != 1 or (len(set(node_of.values())) == 1 and len(node_of) > HOST_SIZE):
            return None
        return movers[0]


def _movers(moved: NDArray[np.bool_], node_of: dict[int, str]) -> list[str]:
    """The nodes most of whose ranks moved, two at least."""
    ranks: dict[str, list[int]] = {}
    for rank, node in node_of.items():
        ranks.setdefault(node, []).append(rank)
    return [node for node, members in ranks.items() if moved[members].sum() >= max(2, MOST * len(members))]


def _trimmed(window: Floats) -> Floats:
    """Mean over axis 0 without the largest TRIM values; NaN rows do not count."""
    ordered = np.sort(window, axis=0)
    heard = np.count_nonzero(~np.isnan(ordered), axis=0)
    kept = np.arange(len(ordered))[:, None] < np.maximum(heard - TRIM, 1)
    total = np.where(kept & ~np.isnan(ordered), ordered, 0.0).sum(axis=0)
    count = np.minimum(np.maximum(heard - TRIM, 1), np.maximum(heard, 1))
    mean: Floats = np.where(heard > 0, total / count, np.nan)
    return mean
