"""The roller: keeps the roll-ups equal to the raw rows, whatever was stored again, late, or by whom.

It asks which windows have rows stored since it last asked, and computes those windows anew from all their raw rows.
Nothing is added up twice because nothing is added up; it may die anywhere, run twice at once, or be run over all of
history again.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from runtime.clock import Clock
from runtime.health import Counters
from runtime.log import Repeats
from storage.client import one_line
from storage.rollups import ROLLUPS, Rollup

log = logging.getLogger("lockstep.roller")

MARGIN_S = 90
"""How long an insert may take from the stamp on its rows to being visible: longer than the writer waits for one (60 s)
before it sends the rows again, which stamps them anew. Windows that recent are computed again each time."""

SPAN_S = 600
"""Windows that follow each other are computed together, up to this long: it bounds what one statement reads."""

MARKS = "roll_marks"

SETTINGS = {
    "optimize_aggregation_in_order": 1,
    "do_not_merge_across_partitions_select_final": 1,
    "max_partitions_per_insert_block": 0,
    "async_insert": 0,
}


def spans(windows: Iterable[int], width_s: int, longest_s: int = SPAN_S) -> Iterator[tuple[int, int]]:
    """Windows (their starts in seconds, in order) that follow each other, as spans of seconds [from, until).

    >>> list(spans([0, 10, 20, 50], 10))
    [(0, 30), (50, 60)]
    """
    begin = end = -1
    for start in windows:
        if start != end or end + width_s - begin > max(longest_s, width_s):
            if end > begin:
                yield begin, end
            begin = start
        end = start + width_s
    if end > begin:
        yield begin, end


class Roller:
    """Brings roll-ups up to date. `client` is its own: one thread at a time."""

    def __init__(self, client: Client, rollups: Mapping[str, Rollup] = ROLLUPS) -> None:
        self._client, self._rollups = client, rollups

    def roll_all(self, *, anew: bool = False, stop: threading.Event | None = None) -> int:
        """Every roll-up; with `anew` from all raw rows there are. How many spans were computed."""
        return sum(self.roll(name, anew=anew, stop=stop) for name in self._rollups)

    def roll(self, name: str, *, anew: bool = False, stop: threading.Event | None = None) -> int:
        """One roll-up. Raises clickhouse-connect's errors; what was done until then stays right."""
        rollup = self._rollups[name]
        now_ms = self._number("SELECT toUnixTimestamp64Milli(now64(3))")
        since_ms = 0 if anew else self._mark(name)
        done = 0
        for begin, end in spans(self._stale(rollup, since_ms), rollup.width_s):
            if stop is not None and stop.is_set():
                return done
            bounds = {"from": begin * 1000, "until": end * 1000}
            self._client.command(rollup.insert(), parameters=bounds, settings=SETTINGS)
            done += 1
        # Behind the rows: a death in between computes the same windows again.
        self._client.insert(MARKS, [[name, now_ms]], column_names=["name", "through_ms"])
        return done

    def _mark(self, name: str) -> int:
        """Rows stored from then on (milliseconds) may not be in the roll-up yet."""
        asked = f"SELECT max(through_ms) FROM {MARKS} WHERE name = {{name:String}}"
        return max(0, self._number(asked, {"name": name}) - MARGIN_S * 1000)

    def _stale(self, rollup: Rollup, since_ms: int) -> list[int]:
        found = self._client.query(
            f"SELECT DISTINCT toUnixTimestamp(toStartOfInterval(ts, INTERVAL {rollup.width_s} SECOND)) AS start"
            f" FROM {rollup.source} WHERE stored_at >= fromUnixTimestamp64Milli({{since:Int64}}) ORDER BY start",
            parameters={"since": since_ms},
        )
        return [int(start) for (start,) in found.result_rows]

    def _number(self, sql: str, parameters: dict[str, str] | None = None) -> int:
        return int(self._client.query(sql, parameters=parameters).result_rows[0][0])


def keep_rolling(client: Client, counters: Counters, clock: Clock, stop: threading.Event) -> None:
    """Roll each roll-up at its pace until `stop`. An error is counted and logged, and tried again: no row is lost by
    it, roll-ups are only late meanwhile."""
    roller, repeats = Roller(client), Repeats(now=clock.monotonic)
    due = dict.fromkeys(ROLLUPS, clock.monotonic())
    while not stop.is_set():
        for name in sorted(due, key=lambda one: due[one]):
            if stop.is_set() or due[name] > clock.monotonic():
                break
            try:
                roller.roll(name, stop=stop)
                counters.add("sent", label=f"roll_{name}")
            except Error as error:
                counters.add("errors", label="roll")
                repeats.log(log, logging.WARNING, name, f"roll-up {name} is late: {one_line(error)}")
            due[name] = clock.monotonic() + ROLLUPS[name].pace_s
        stop.wait(max(0.1, min(due.values()) - clock.monotonic()))
