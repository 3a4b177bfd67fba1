"""`lockstep train`: a forest from the history in ClickHouse."""

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lockstep.moments import duration_ms, moment_ms, shown
from lockstep.options import Number, settings, settings_options
from lockstep.progress import Progress, left
from lockstep.reach import reach
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.files import write_whole
from runtime.settings import ClickHouse, Connection

if TYPE_CHECKING:
    from lockstep.train import Report, Said

NEWEST = "newest"
SHOWN_ALARMS = 10


@click.command(
    epilog="Example: lockstep train --cluster eos --hours 24 --clickhouse-host ch-1 --output eos.forest\n\n"
    "Example: lockstep train --cluster eos --publish --broker kafka-1:9092 --clickhouse-host ch-1"
)
@settings_options(ClickHouse, hidden=("clickhouse_cluster",))
@settings_options(Connection)
@click.option("--hours", type=Number(0.1, 720), default=24, show_default=True, help="How much of the past.")
@click.option("--to", "until", default=NEWEST, show_default=True, help="Until when (UTC); newest is the last sample.")
@click.option("--nodes", type=click.IntRange(0), default=16, show_default=True, help="Of so many nodes; 0 is of all.")
@click.option("--margin", default="10m", show_default=True, help="Left out before and after each incident.")
@click.option("--findings", type=Number(0, min_open=True), help="Budget of alarms per 10,000 GPU-days  [default: 1000]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the nodes and rows drawn.")
@click.option("--name", default="fleet", show_default=True, help="Of the model; its checksum is added.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Its file  [default: NAME-SUM.forest]")
@click.option("--publish", is_flag=True, help="Let it score the cluster at once: see `lockstep models`.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the report."
)
def command(
    hours: float,
    until: str,
    nodes: int,
    margin: str,
    findings: float | None,
    seed: int,
    name: str,
    output: Path | None,
    publish: bool,
    form: str,
    **options: Any,
) -> None:
    """Train the forest that scores the GPUs of a cluster on its own healthy past.

    GPU samples come from ClickHouse, without what incidents were about. The last quarter of the period is not trained
    on: the report says whose alarms there would have been in it.
    """
    from detectors.node.alarm import FINDINGS
    from lockstep.publish import LEAD_MS, published
    from lockstep.publish import publish as announce
    from lockstep.train import Order, train
    from storage.client import get_client
    from storage.samples import newest_ms
    from streams.plan import load_model

    connection, clock = settings(Connection, options), SystemClock()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise UserError(f"--name={name!r}: give letters, digits, dots and dashes, at most 64")
    if output is not None and not output.parent.is_dir():
        raise UserError(f"--output={output}: there is no folder {output.parent}")
    margin_ms = duration_ms(margin, "--margin")
    if publish:  # what would fail at the end fails now
        reach(connection)
        published(connection)
    with contextlib.closing(get_client(settings(ClickHouse, options), timeout_s=600)) as client:
        newest = newest_ms(client, connection.cluster) if until == NEWEST else None
        to_ms = (newest or clock.now_ms()) + 1000 if until == NEWEST else moment_ms(until, "--to", clock.now_ms())
        order = Order(
            cluster=connection.cluster,
            from_ms=to_ms - int(hours * 3_600_000),
            to_ms=to_ms,
            nodes=nodes,
            seed=seed,
            name=name,
            margin_ms=margin_ms,
            findings=findings or FINDINGS,
        )
        shown_so_far = Progress(clock, sys.stderr.isatty(), lambda text: click.echo(text, err=True, nl=False))
        began = clock.monotonic()

        def progress(doing: str, done: float) -> None:
            more = left(100 * done, 100, clock.monotonic() - began)
            shown_so_far(f"{doing} ({done:.0%}{more})", doing.partition(":")[0])

        forest, report = train(client, order, load_model(""), progress)
        shown_so_far.end()
    path = output or Path(f"{forest.name}.forest")
    data = forest.to_bytes()
    try:
        write_whole(path, data)
    except OSError as error:
        raise UserError(f"--output={path}: {error.strerror}") from None
    answer = msgspec.to_builtins(report) | {"file": str(path)}
    lines = [*_lines(report), f"written      {path}, {len(data) / 1000:.0f} kB"]
    if publish:
        record = announce(connection, forest, clock.now_ms() + LEAD_MS, published(connection))
        answer |= {"published_from_ms": record.ts_ms}
        lines.append(f"published    {record.model} scores from {shown(record.ts_ms)} UTC on")
    elif form == "text":
        lines.append(f"to use it    lockstep models publish {path}")
    click.echo("\n".join(lines) if form == "text" else msgspec.json.format(msgspec.json.encode(answer)).decode())


def _lines(report: "Report") -> list[str]:
    before, after = shown(report.from_ms), shown(report.to_ms)
    lines = [
        f"read         {before} to {after} UTC: {report.nodes} of {report.all_nodes} nodes, {report.gpus} GPUs",
        f"trained on   {report.trained_on:,} of {report.ticks:,} GPU-ticks up to {shown(report.split_ms)}",
        f"left out     {report.left_out:,} for {report.incidents} incidents, {report.not_judged:,} had no baseline yet",
        f"tried on     {report.held_out:,} healthy GPU-ticks after it; the budget is {report.allowed:.2g} alarms there",
    ]
    for said in (report.new, report.own):
        lines += [f"{said.model}: {_summary(said)}"]
        lines += [f"    {alarm.gpu} on {alarm.node} at {shown(alarm.ts_ms)}" for alarm in said.alarms[:SHOWN_ALARMS]]
        if len(said.alarms) > SHOWN_ALARMS:
            lines.append(f"    and {len(said.alarms) - SHOWN_ALARMS} more")
    return lines


def _summary(said: "Said") -> str:
    shares = ", ".join(f"{part:.2g} at or below {share}" for share, part in said.shares.items())
    return f"{len(said.alarms)} alarms; p-values {shares}" if shares else "nothing to judge"
