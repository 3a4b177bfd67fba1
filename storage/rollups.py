"""Roll-ups: what raw rows come to in windows of ten seconds, a minute and an hour.

A row of a roll-up is computed from the raw rows of its window, read with FINAL, never added to: so a replay changes
nothing. The row of a window that was computed from more raw rows replaces one computed from fewer (`samples` is the
version), so late data raises it, and neither a slower computation nor raw rows that are gone by age take it back.
"""

from collections.abc import Iterator
from typing import NamedTuple

from schemas.metrics import SECTIONS, Metric, Section
from schemas.record import Natural, TimeMs
from storage.tables import TABLES
from storage.values import NAME, READING, Stored, stored

_WORD, _FLOAT = NAME, READING
_NATURAL = stored(Natural, "count")
_RANK = stored(Natural | None, "rank")
_SUM = stored(float, "sum")
_TIME = stored(TimeMs, "ts")


class Rolled(NamedTuple):
    """One column of a roll-up: the SQL over the raw table that makes it, and what it means."""

    name: str
    stored: Stored
    sql: str
    said: str


class Rollup(NamedTuple):
    """One roll-up: of which table, over windows of how many seconds, kept for how many days, keyed by what.

    `group` are columns of the raw table that a row is for, `after` those of them that stand behind the time in the
    sort key. `pace_s` is how long an open window may lag behind.
    """

    name: str
    source: str
    width_s: int
    days: int
    pace_s: float
    group: tuple[str, ...]
    after: tuple[str, ...]
    measures: tuple[Rolled, ...]
    what: str
    ranged: tuple[str, ...] = ()
    version: str = "samples"

    @property
    def columns(self) -> tuple[Rolled, ...]:
        kinds = {column.name: column.stored for column in TABLES[self.source].columns}
        keys = [Rolled(name, kinds[name], name, _KEYS[name]) for name in self.group if name not in self.after]
        window = f"toStartOfInterval(ts, INTERVAL {self.width_s} SECOND)"
        behind = [Rolled(name, kinds[name], name, _KEYS[name]) for name in self.after]
        return (*keys, Rolled("ts", _TIME, window, "start of the window, UTC"), *behind, *self.measures)

    @property
    def key(self) -> tuple[str, ...]:
        return (*(name for name in self.group if name not in self.after), "ts", *self.after)

    @property
    def partition(self) -> str:
        return "toStartOfMonth(ts)" if self.days > 100 else "toDate(ts)"

    def insert(self) -> str:
        """The statement that computes the windows from {from:Int64} to {until:Int64} (milliseconds) anew."""
        inner = ", ".join(f"{column.sql} AS `{_inner(column.name)}`" for column in self.columns)
        outer = ", ".join(f"`{_inner(column.name)}`" for column in self.columns)
        names = ", ".join(f"`{column.name}`" for column in self.columns)
        keys = ", ".join(f"`{_inner(name)}`" for name in self.key)
        return (
            f"INSERT INTO {self.name} ({names})\nSELECT {outer} FROM (SELECT {inner} FROM {self.source} FINAL\n"
            "WHERE ts >= fromUnixTimestamp64Milli({from:Int64}) AND ts < fromUnixTimestamp64Milli({until:Int64})\n"
            f"GROUP BY {keys})"
        )


def _inner(name: str) -> str:
    # An alias that is also a column of the raw table would stand for it inside the aggregates.
    return f"r_{name}"


_KEYS = {
    "cluster": "the cluster",
    "node": "the node",
    "gpu": "UUID of the GPU",
    "link": "the link",
    "job": "key of the job; empty where there is none",
    "rack": "the rack",
    "loop": "cooling loop",
    "rank": "global rank in the job",
    "communicator": "hash of the communicator, as the source printed it",
    "function": "the collective: AllReduce, AllGather, ...",
    "phase": "train, or what the process calls it",
}

_SAMPLES = Rolled("samples", _NATURAL, "count()", "raw rows that the row was computed from")
_RACK = Rolled("rack", _WORD, "max(rack)", "the rack")
_NODE = Rolled("node", _WORD, "max(node)", "the node")


def mean(name: str) -> Rolled:
    return Rolled(name, _FLOAT, f"avgIf({name}, isFinite({name}))", f"mean of {name}; NaN where missing")


def least(name: str) -> Rolled:
    sql = f"ifNull(minOrNullIf({name}, isFinite({name})), nan)"
    return Rolled(f"{name}_min", _FLOAT, sql, f"least {name}; NaN where missing")


def most(name: str) -> Rolled:
    sql = f"ifNull(maxOrNullIf({name}, isFinite({name})), nan)"
    return Rolled(f"{name}_max", _FLOAT, sql, f"greatest {name}; NaN where missing")


def total(name: str, said: str) -> Rolled:
    return Rolled(f"{name}_sum", _SUM, f"sumIf({name}, isFinite({name}))", said)


def _of_metric(metric: Metric) -> Iterator[Rolled]:
    name = metric.name
    if metric.kind == "bits":
        sql = f"groupBitOr(toUInt64(if(isFinite({name}), {name}, 0)))"
        yield Rolled(name, _NATURAL, sql, f"all bits of {name} that were set in the window")
        return
    if metric.kind in ("gauge", "rate"):
        yield mean(name)
    if metric.kind in ("gauge", "rate", "counter"):
        yield least(name)
    yield most(name)


def _readings(section: Section) -> tuple[Rolled, ...]:
    return tuple(rolled for metric in SECTIONS[section] for rolled in _of_metric(metric))


BUS_FACTOR = (
    "multiIf(function = 'AllReduce', 2 * (communicator_size - 1) / greatest(communicator_size, 1),"
    " function IN ('AllGather', 'ReduceScatter', 'AllToAll'),"
    " (communicator_size - 1) / greatest(communicator_size, 1), 1)"
)
"""From bytes to what the bus carried: nccl-tests' factors (doc/PERFORMANCE.md)."""

_GPU = (
    _SAMPLES,
    _RACK,
    Rolled("slot", _NATURAL, "max(slot)", "slot of the GPU in its node"),
    Rolled("rank", _RANK, "max(rank)", "global rank in the job; NULL where nobody claims the GPU"),
    *_readings("gpu"),
)
_LINK = (_SAMPLES, _RACK, *_readings("nvlink"))
_HOST = (_SAMPLES, _RACK, *_readings("host"))
_LOOP = (_SAMPLES, *_readings("loop"))
_STEP = (
    _SAMPLES,
    _NODE,
    Rolled("gpu", _WORD, "max(gpu)", "UUID of the GPU"),
    Rolled("first_step", _NATURAL, "min(step)", "lowest number of a step in the window"),
    Rolled("last_step", _NATURAL, "max(step)", "highest number of a step in the window"),
    *(mean("step_us"), least("step_us"), most("step_us")),
    *(mean(name) for name in ("data_us", "compute_us", "comm_us", "wait_us")),
    total("work", "work done, such as tokens"),
    total("flops", "floating-point operations done"),
)
_OPERATION = (
    _SAMPLES,
    _NODE,
    Rolled("gpu", _WORD, "max(gpu)", "UUID of the GPU"),
    Rolled("communicator_name", _WORD, "max(communicator_name)", "name of the communicator; need not be unique"),
    Rolled("communicator_size", _NATURAL, "max(communicator_size)", "ranks in the communicator"),
    Rolled("size_bytes_sum", _NATURAL, "sum(size_bytes)", "bytes of the sampled operations"),
    Rolled("bus_bytes_sum", _SUM, f"sum(size_bytes * {BUS_FACTOR})", "what the bus carried for them"),
    *(mean("exec_time_us"), least("exec_time_us"), most("exec_time_us")),
    total("exec_time_us", "their durations, waits included, in microseconds"),
)
_BLOCK = (
    _SAMPLES,
    _NODE,
    Rolled("communicator_name", _WORD, "max(communicator_name)", "name of the communicator; need not be unique"),
    Rolled("operations", _NATURAL, "sum(count)", "collectives, sampled or not"),
    total("sum_us", "their durations, waits included, in microseconds"),
    least("min_us"),
    most("max_us"),
)

WIDTHS = {"10s": (10, 90, 10.0), "1m": (60, 400, 30.0), "1h": (3600, 1200, 300.0)}
"""Of a window: its seconds, for how many days it is kept, and after how many seconds it is computed again."""


def _rollups(
    name: str, source: str, widths: str, group: str, after: str, measures: tuple[Rolled, ...], of: str
) -> list[Rollup]:
    keys = ("cluster", *group.split(), *after.split())
    return [
        Rollup(f"{name}_{width}", source, *WIDTHS[width], keys, tuple(after.split()), measures, f"{of}, {words}")
        for width, words in (("10s", "ten seconds"), ("1m", "a minute"), ("1h", "an hour"))
        if width in widths.split()
    ]


ROLLUPS: dict[str, Rollup] = {
    rollup.name: rollup
    for rollup in (
        *_rollups("gpu", "gpu_samples", "10s 1m 1h", "node gpu", "job", _GPU, "one GPU and job"),
        *_rollups("nvlink", "nvlink_samples", "1m 1h", "node gpu link", "", _LINK, "one NVLink of a GPU"),
        *_rollups("host", "host_samples", "1m 1h", "node", "", _HOST, "one host"),
        *_rollups("loop", "loop_samples", "1m 1h", "rack loop", "", _LOOP, "one cooling loop"),
        *_rollups("steps", "steps", "1m 1h", "job rank", "phase", _STEP, "the training steps of one rank"),
        *_rollups("operations", "collective_operations", "1m 1h", "job communicator function rank", "", _OPERATION,
                  "the sampled collectives of one rank"),
        *_rollups("blocks", "collective_blocks", "1m 1h", "job communicator function rank", "", _BLOCK,
                  "all collectives of one rank"),
    )
}  # fmt: skip
"""Every roll-up, by the name of its table."""

SOURCES: frozenset[str] = frozenset(rollup.source for rollup in ROLLUPS.values())
