"""`lockstep topics`: create them, and look at what is on them."""

import json
import sys

import click

from lockstep.group import Group
from lockstep.options import Number, settings, settings_options
from lockstep.reach import reach
from lockstep.replay.recording import frame
from lockstep.show import shown as show
from runtime.errors import UserError
from runtime.kafka import Consumer, create_topics
from runtime.settings import Connection
from schemas.codec import WireError, decode
from schemas.topics import TOPICS
from streams.topics import changelog_topics


@click.group(cls=Group)
def command() -> None:
    """Create topics, look at what is on them."""


@command.command(
    short_help="Create every topic.",
    epilog="Example: lockstep topics create --broker kafka-1:9092 --partitions 12 --replication 3",
)
@settings_options(Connection)
@click.option("--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True, help="Of every topic.")
@click.option("--replication", type=click.IntRange(1, 10), default=1, show_default=True, help="Copies of each.")
def create(partitions: int, replication: int, **options: str | None) -> None:
    """Create every topic with its partitions, retention and compaction; what is there already is checked."""
    connection = settings(Connection, options)
    reach(connection)
    for line in create_topics(connection, partitions, replication, compacted=changelog_topics()):
        click.echo(line)


@command.command(
    short_help="Show the records of a topic.",
    epilog="Example: lockstep topics tail incidents --from-start --count 5\n\n"
    "Example: lockstep topics tail node-frames --format json | jq .sections.gpu\n\n"
    "Example: lockstep topics tail node-frames --from-start --seconds 5 --format record > monday.records",
)
@click.argument("topic")
@settings_options(Connection)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "record"]), default="text", show_default=True, help="How."
)
@click.option("-v", "--verbose", is_flag=True, help="All of each record, not one line of it.")
@click.option("--from-start", is_flag=True, help="From the oldest record kept, not from now on.")
@click.option("--count", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--seconds", type=Number(0.1), help="Stop after so long without a record.")
def tail(
    topic: str,
    form: str,
    verbose: bool,
    from_start: bool,
    count: int | None,
    seconds: float | None,
    **options: str | None,
) -> None:
    """Show the records of TOPIC, decoded; what cannot be decoded is shown with its offset and the reason.

    --format record writes them as they are, for `lockstep replay`.
    """
    if topic not in TOPICS:
        raise UserError(f"no topic {topic!r}; there are: {', '.join(TOPICS)}")
    connection = settings(Connection, options)
    reach(connection)
    shown = 0
    consumer = Consumer(connection, None, (topic,), None, from_start=from_start)
    try:
        while count is None or shown < count:
            messages = consumer.poll(max_records=500, timeout_s=seconds if seconds is not None else 1.0)
            if not messages and seconds is not None:
                break
            for message in messages[: None if count is None else count - shown]:
                shown += 1
                if form == "record":
                    sys.stdout.buffer.write(frame(message.value))
                    continue
                try:
                    record = decode(message.value, topic)
                except WireError as error:
                    _complain(f"{topic}/{message.partition}@{message.offset}", error, form)
                    continue
                click.echo(show(record, form, verbose))
            sys.stdout.flush()
    finally:
        consumer.close()


def _complain(origin: str, error: WireError, form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"type": None, "origin": origin, "reason": error.reason, "detail": error.detail}))
    else:
        click.echo(f"{origin}  cannot be decoded: {error}")
