"""The SQL of docs/kafka-table-engine.md runs; queues are stood in for by tables that one inserts into."""

import contextlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import rows, store

from runtime.settings import ClickHouse
from schemas import Event
from schemas.examples import EXAMPLES
from storage import ddl
from storage.client import get_client
from storage.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "kafka-table-engine.md"
STATEMENTS = [
    statement.strip()
    for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for statement in block.split(";\n")
    if statement.strip()
]
POSITION = (
    "`_topic` String, `_partition` UInt64, `_offset` UInt64, `_timestamp_ms` Nullable(DateTime64(3, 'UTC')),"
    " `_key` String, `_error` String, `_raw_message` String"
)


@pytest.fixture
def made(clickhouse_database: ClickHouse) -> Iterator[Client]:
    """A database with the page's tables; a queue has what Kafka adds to each message as ordinary columns."""
    with contextlib.closing(get_client(clickhouse_database)) as client:
        client.command(ddl.create_table(TABLES["events"]))
        for statement in STATEMENTS:
            stand_in = re.sub(
                r"\)\nENGINE = Kafka\nSETTINGS.*", f", {POSITION})\nENGINE = Null", statement, flags=re.DOTALL
            )
            client.command(stand_in)
        yield client


def test_every_statement_is_clickhouses_sql(database: Client) -> None:
    assert sum("ENGINE = Kafka" in statement for statement in STATEMENTS) == 2
    for statement in STATEMENTS:
        database.query("SELECT formatQuery({sql:String})", parameters={"sql": statement})


def test_an_event_in_json_is_the_row_that_the_writer_makes(made: Client) -> None:
    sent = [e for e in EXAMPLES if isinstance(e, Event)]
    sent.append(Event(cluster="eos", ts_ms=sent[0].ts_ms, node="n", run_id=2, seq=7, kind="agent_started"))
    lines = "\n".join(json.dumps(msgspec.to_builtins(event)) for event in sent)
    for _ in range(2):
        made.raw_insert("events_queue", insert_block=lines, fmt="JSONEachRow",
                        settings={"input_format_skip_unknown_fields": 1})  # fmt: skip
    by_kafka = rows(made, "events", "eos")
    made.command("TRUNCATE TABLE events")
    store(made, *sent)
    assert by_kafka == rows(made, "events", "eos")
    assert len(by_kafka) == 2


def test_what_cannot_be_read_is_kept_beside_with_its_reason(made: Client) -> None:
    broken = {"_topic": "events-json", "_partition": 1, "_offset": 9, "_error": "no JSON", "_raw_message": "{"}
    made.raw_insert("events_queue", insert_block=json.dumps(broken), fmt="JSONEachRow")
    assert made.query("SELECT * FROM events_unreadable").result_rows == [("events-json", 1, 9, "{", "no JSON")]
    assert made.query("SELECT count() FROM events").result_rows == [(0,)]


def test_an_archive_keeps_a_message_once_however_often_it_is_read(made: Client) -> None:
    sent_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.000")  # what is older than a year is not kept
    message = {"payload": "bytes", "_topic": "steps", "_partition": 2, "_offset": 5, "_key": "job"}
    message["_timestamp_ms"] = sent_at
    for _ in range(2):
        made.raw_insert("archive_queue", insert_block=json.dumps(message), fmt="JSONEachRow")
    assert made.query("SELECT topic, part, position, key, payload FROM archive FINAL").result_rows == [
        ("steps", 2, 5, "job", "bytes")
    ]
