"""The past of slow series on a fixed ladder of points: the last day by hours, three days, a week, two weeks and a month
by longer and longer ones. What began a while ago is the whole of one of them, however slow it is.

Memory is constant, whatever the time: 134 points for each row and column, two bytes each when saved. Readings are
averaged over the hour (event time, hours of UTC), hours over three hours, and so on. A gap is a gap: missing points.
Points are rounded to half precision (three digits), so that a restored ladder is the one that was saved.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.condition import Float32, blank
from detectors.state import StateError, floats, to_bytes

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

LEAST_READINGS = 3
"""An hour with fewer has no point: somebody only looked in."""

FORGET_MS = 30 * DAY_MS
"""A row that was not seen for longer has nothing left on the ladder."""

MOST_ROWS = 256


class Rung(NamedTuple):
    """`points` points of `hours` hours each, as said in `words`."""

    words: str
    hours: int
    points: int


RUNGS = (
    Rung("24 hours", 1, 24),
    Rung("24 times three hours", 3, 24),
    Rung("28 quarters of a day", 6, 28),
    Rung("28 half days", 12, 28),
    Rung("30 days", 24, 30),
)
"""Each is averaged from the one below it."""

_TOTAL, _COUNT, _POINTS = 0, 1, 2
_BEGIN = tuple(_POINTS + sum(rung.points for rung in RUNGS[:i]) for i in range(len(RUNGS) + 1))
_AT = tuple(slice(_BEGIN[i], _BEGIN[i + 1]) for i in range(len(RUNGS)))
_CELLS = _BEGIN[-1]


class LadderState(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    hour: int
    rows: tuple[str, ...]
    seen_ms: tuple[int, ...]
    open: bytes
    told: bytes
    points: bytes


class Ladder:
    """Rows by name, `columns` series each; of those in `counted` a point is log10(1 + mean), for what is 0 mostly and
    grows by orders of magnitude."""

    def __init__(self, columns: int, counted: Sequence[int] = ()) -> None:
        self.columns, self._counted = columns, tuple(counted)
        self._hour = -1
        self.rows: tuple[str, ...] = ()
        self._seen_ms: list[int] = []
        self._cells: Float32 = np.zeros((0, columns, _CELLS), dtype=np.float32)

    def points(self, rung: int) -> NDArray[np.float64]:
        """(rows, columns, points of RUNGS[rung]), the oldest first; NaN is missing."""
        return self._cells[:, :, _AT[rung]].astype(np.float64)

    def seen_ms(self, row: str) -> int | None:
        """When the row was added to last; None where it never was."""
        return self._seen_ms[self.rows.index(row)] if row in self.rows else None

    def advance(self, ts_ms: int) -> tuple[int, ...]:
        """Let time pass; returns the rungs that have new points. Time does not go back."""
        hour, before = ts_ms // HOUR_MS, self._hour
        if before < 0 or hour <= before:
            self._hour = max(before, hour)
            return ()
        month = RUNGS[-1].hours * RUNGS[-1].points
        if hour - self._hour > month:  # of what was before so long a gap nothing is left
            self._cells[:, :, :_POINTS], self._cells[:, :, _POINTS:] = 0, np.nan
            self._hour = hour - 1
        for ended in range(self._hour, hour):
            self._end(ended)
        self._hour = hour
        self._keep([i for i, seen_ms in enumerate(self._seen_ms) if ts_ms - seen_ms <= FORGET_MS])
        return tuple(i for i, rung in enumerate(RUNGS) if hour // rung.hours > before // rung.hours)

    def rewind(self, ts_ms: int) -> None:
        """The clock was wrong and is right now: what is known stays, time goes on from here."""
        self._hour = ts_ms // HOUR_MS

    def add(self, ts_ms: int, rows: Sequence[str], values: Float32) -> None:
        """Readings (rows, columns) of a moment in the present hour; NaN is none. Rows beyond MOST_ROWS are left out."""
        if tuple(rows) != self.rows:
            self._enrol(rows)
        place = {row: i for i, row in enumerate(self.rows)}
        known = [i for i, row in enumerate(rows) if row in place]
        at = [place[rows[i]] for i in known]
        there = ~np.isnan(values[known])
        self._cells[at, :, _TOTAL] += np.where(there, values[known], np.float32(0))
        self._cells[at, :, _COUNT] += there
        for i in at:
            self._seen_ms[i] = ts_ms

    def give(self, row: str) -> "Ladder":
        """A ladder with this row alone, which is forgotten here."""
        place, out = self.rows.index(row), Ladder(self.columns, self._counted)
        out._hour, out.rows = self._hour, (row,)
        out._seen_ms, out._cells = [self._seen_ms[place]], self._cells[[place]]
        self._keep([i for i in range(len(self.rows)) if i != place])
        return out

    def adopt(self, other: "Ladder", ts_ms: int) -> None:
        """Take the one row of `other`, brought to this ladder's time, instead of what was known of it here."""
        (row,) = other.rows
        if row in self.rows:
            self.give(row)
        other.advance(ts_ms)
        if self._hour == other._hour and len(self.rows) < MOST_ROWS:
            self.rows = (*self.rows, *other.rows)
            self._seen_ms += other._seen_ms
            self._cells = np.concatenate([self._cells, other._cells])

    def save(self) -> LadderState:
        points = self._cells[:, :, _POINTS:]
        told = ~np.isnan(points).all(axis=2)
        return LadderState(
            hour=self._hour,
            rows=self.rows,
            seen_ms=tuple(self._seen_ms),
            open=to_bytes(self._cells[:, :, :_POINTS]),
            told=told.tobytes(),
            points=points[told].astype("<f2").tobytes(),
        )

    def restore(self, old: LadderState) -> None:
        """Continue from a saved ladder; raises StateError where it does not fit."""
        shape = (len(old.rows), self.columns)
        told = np.frombuffer(old.told, dtype=np.bool_)
        width = _CELLS - _POINTS
        if (told.size, len(old.seen_ms)) != (shape[0] * shape[1], shape[0]) or len(
            old.points
        ) != 2 * width * told.sum():
            raise StateError(f"a saved ladder of {len(old.points)} bytes for {len(old.rows)} rows")
        points = blank(*shape, width)
        points[told.reshape(shape)] = np.frombuffer(old.points, dtype="<f2").reshape(-1, width)
        self._cells = np.concatenate([floats(old.open, *shape, _POINTS), points], axis=2)
        self._hour, self.rows, self._seen_ms = old.hour, old.rows, list(old.seen_ms)

    def _end(self, hour: int) -> None:
        """Close an hour, and what ends with it."""
        cells = self._cells
        count = cells[:, :, _COUNT]
        mean = cells[:, :, _TOTAL] / np.maximum(count, np.float32(1))
        mean[:, self._counted] = np.log10(1 + mean[:, self._counted])
        self._append(0, np.where(count >= LEAST_READINGS, mean, np.float32(np.nan)))
        cells[:, :, :_POINTS] = 0
        for i, rung in enumerate(RUNGS[1:], start=1):
            if (hour + 1) % rung.hours:
                return
            below = RUNGS[i - 1]
            self._append(i, _mean(cells[:, :, _AT[i - 1]][:, :, -(rung.hours // below.hours) :]))

    def _append(self, rung: int, values: Float32) -> None:
        points = self._cells[:, :, _AT[rung]]
        points[:, :, :-1] = points[:, :, 1:]
        points[:, :, -1] = values.astype(np.float16)

    def _enrol(self, rows: Sequence[str]) -> None:
        known = set(self.rows)
        new = [row for row in dict.fromkeys(rows) if row not in known][: MOST_ROWS - len(known)]
        cells = np.full((len(new), self.columns, _CELLS), np.nan, dtype=np.float32)
        cells[:, :, :_POINTS] = 0
        self._cells = np.concatenate([self._cells, cells])
        self.rows, self._seen_ms = (*self.rows, *new), self._seen_ms + [0] * len(new)

    def _keep(self, places: list[int]) -> None:
        if len(places) < len(self.rows):
            self.rows = tuple(self.rows[i] for i in places)
            self._seen_ms = [self._seen_ms[i] for i in places]
            self._cells = self._cells[places]


def _mean(values: Float32) -> Float32:
    """Over the last axis, missing ones left out."""
    there = ~np.isnan(values)
    total = np.where(there, values, np.float32(0)).sum(axis=2)
    out: Float32 = np.where(there.any(axis=2), total / np.maximum(there.sum(axis=2), 1), np.float32(np.nan))
    return out.astype(np.float32)
