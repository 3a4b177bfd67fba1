"""What is usual for each rank: a robust centre and spread of a vector that arrives round after round."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""

WARM_UP = 90
"""Rounds whose exact median makes the first baseline (the published online rule on the Ascend runs uses 90)."""

MEMORY = 1024
"""After as many rounds a centre moves by at most 2 spreads in as many more: fast adaptation unlearns a slow fault."""


POOL_EVERY = 16


class Past:
    """Centre and spread (as a standard deviation) of `size` series, learned only from what the caller calls usual.

    Up to `warm_up` rounds the exact median over them; then small clipped steps. A NaN teaches nothing. Wrong where a
    series has two modes: the centre sits in one of them and the spread does not tell.

    `pooled` is the median spread over the series, renewed now and then.
    """

    def __init__(self, size: int, warm_up: int = WARM_UP) -> None:
        self.centre: Floats = np.full(size, np.nan)
        self.spread: Floats = np.full(size, np.nan)
        self.learned = 0
        self.pooled = 0.0
        self._warm_up = warm_up
        self._rows: list[Floats] = []
        self._fitted = 0

    @property
    def size(self) -> int:
        return len(self.centre)

    def grow(self, size: int) -> None:
        """Make room for series that were not there before; their past begins now."""
        extra = size - self.size
        if extra > 0:
            self.centre = np.concatenate([self.centre, np.full(extra, np.nan)])
            self.spread = np.concatenate([self.spread, np.full(extra, np.nan)])
            self._rows = [np.concatenate([row, np.full(extra, np.nan)]) for row in self._rows]

    def learn(self, values: Floats, usual: NDArray[np.bool_] | None = None) -> None:
        """Take one round in; `usual` False keeps a series out of it."""
        row = values if usual is None else np.where(usual, values, np.nan)
        self.learned += 1
        if self.learned <= self._warm_up:
            self._rows.append(row)
            if self.learned <= 12 or self.learned >= 1.1 * self._fitted or self.learned == self._warm_up:
                self._fit()
            return
        self._rows = []
        if self.learned % POOL_EVERY == 0:
            self._pool()
        new = np.isnan(self.centre) & ~np.isnan(row)
        self.centre[new], self.spread[new] = row[new], np.abs(row[new]) / 10
        deviation = row - self.centre
        bounded = np.clip(deviation, -2 * self.spread, 2 * self.spread)
        known = ~np.isnan(bounded)
        rate = max(1 / MEMORY, 1 / self.learned)
        self.centre[known] += bounded[known] * rate
        size = np.minimum(np.abs(deviation), 4 * self.spread)
        grows = MAD_TO_SIGMA * size - self.spread
        self.spread[known] = np.maximum(self.spread + grows * rate, 1e-9)[known]

    def _fit(self) -> None:
        rows = np.array(self._rows)
        if np.isnan(rows).any():
            heard = ~np.isnan(rows).all(axis=0)
            rows = rows[:, heard]
            self.centre[heard] = np.nanmedian(rows, axis=0)
            self.spread[heard] = MAD_TO_SIGMA * np.nanmedian(np.abs(rows - self.centre[heard]), axis=0)
        else:
            self.centre = np.median(rows, axis=0)
            self.spread = MAD_TO_SIGMA * np.median(np.abs(rows - self.centre), axis=0)
        self._fitted = self.learned
        self._pool()

    def _pool(self) -> None:
        known = self.spread[~np.isnan(self.spread)]
        self.pooled = float(np.median(known)) if len(known) else 0.0

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint: the centre and spread, not the rounds."""
        return {"c": self.centre.astype("<f4").tobytes(), "s": self.spread.astype("<f4").tobytes(), "n": self.learned}

    @classmethod
    def of(cls, state: dict[str, Any], warm_up: int = WARM_UP) -> "Past":
        """The past of a checkpoint. A warm-up that was cut short counts as over: it goes on in small steps."""
        centre = np.frombuffer(state["c"], "<f4").astype(np.float64)
        past = cls(len(centre), warm_up)
        past.centre, past.spread = centre, np.frombuffer(state["s"], "<f4").astype(np.float64)
        past.learned = max(int(state["n"]), 0)
        if past.learned:
            past._warm_up = min(warm_up, past.learned)
            past._pool()
        return past
