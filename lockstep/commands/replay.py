"""`lockstep replay`: recorded telemetry onto the topics."""

from collections import Counter
from typing import Any

import click

from lockstep.options import Number, say, settings, settings_options
from lockstep.progress import by_topic
from lockstep.reach import reach
from lockstep.replay import RECORDING_SUFFIX, Paced, check, files, read, send_all
from lockstep.replay.table import Columns
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.groups import READS, WORKER, WRITER
from runtime.health import Counters
from runtime.kafka import Producer
from runtime.pace import EmbeddedPacer
from runtime.settings import Connection
from schemas import Record

TOGETHER = 2000
"""Records between two looks at the readers: well under a megabyte of any partition."""

PATIENCE_S = 60.0


@click.command(
    epilog="Example: lockstep replay power.parquet --map power_w=node_power_w --speed 100\n\n"
    "Example: lockstep topics tail node-frames --format record --from-start > monday.records; "
    "lockstep replay monday.records"
)
@click.argument("paths", nargs=-1, required=True, metavar="FILES")
@settings_options(Connection)
@click.option("--speed", type=Number(0), default=0, show_default=True, help="Times real time; 0 is as fast as it goes.")
@click.option("--map", "mapping", multiple=True, metavar="COLUMN=METRIC", help="What a column of a table means.")
@click.option("--run-id", type=click.IntRange(0), help="Run number of the records of tables  [default: now]")
def command(paths: tuple[str, ...], speed: float, mapping: tuple[str, ...], run_id: int | None, **options: Any) -> None:
    """Put recorded telemetry onto the topics with its own timestamps.

    FILES are recordings (.records) and tables (.parquet, .csv, .jsonl) of node or GPU readings. Replaying a file
    with the --run-id of an earlier replay makes the same rows again, not more of them: it says which that was.
    """
    connection = settings(Connection, options)
    clock, counters = SystemClock(), Counters()
    columns = Columns(dict(_pair(text) for text in mapping))
    chosen = files(paths)
    check(chosen, columns, connection.cluster)
    reach(connection)
    producer = Producer(connection, client_id="replay", counters=counters, bound=100_000)
    pacer = EmbeddedPacer(connection, {group: READS[group] for group in (WORKER, WRITER)})
    began = shown = clock.monotonic()
    waiting = 0
    topics: Counter[str] = Counter()

    def send(record: Record) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == TOGETHER:
            waiting = 0
            if not producer.flush(PATIENCE_S) or not pacer.wait(PATIENCE_S):
                raise UserError(f"nobody reads any more, stopped ({pacer.fullest or 'the broker takes nothing'})")
        topics[record.topic] += 1
        producer.send_record(record)

    def progress(count: int, ts_ms: int) -> None:
        nonlocal shown
        if clock.monotonic() - shown >= 2:
            shown = clock.monotonic()
            say(f"{count:,} records, {count / (shown - began):,.0f}/s")

    total = 0
    try:
        first = run_id if run_id is not None else clock.now_ms()
        for run, path in enumerate(chosen, first):
            # Each file is a run of its own: its sequence numbers start anew.
            total += send_all(read(path, columns, connection.cluster, run), send, Paced(speed, clock), progress)
            say(f"{path.name}: done")
    finally:
        sent = producer.flush(PATIENCE_S)
        producer.close(5)
        pacer.close()
    dropped = counters.totals().get("dropped{buffer_full}", 0)
    if not sent or dropped:
        raise UserError(f"{total:,} records read, but the broker did not take all of them ({dropped:g} dropped)")
    click.echo(f"{total:,} records in {clock.monotonic() - began:.1f} s; {by_topic(topics)}")
    if any(not path.name.endswith(RECORDING_SUFFIX) for path in chosen):
        say(f"run number {first}: the same files with --run-id {first} make the same rows again, not more of them")


def _pair(text: str) -> tuple[str, str]:
    column, equals, name = text.partition("=")
    if not (column and equals and name):
        raise UserError(f"--map {text}: give COLUMN=METRIC")
    return column, name
