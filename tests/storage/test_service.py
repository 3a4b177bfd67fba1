"""The writer as a process, on real brokers."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from local_kafka import LocalKafka

from runtime.errors import UserError
from runtime.groups import WRITER
from runtime.health import Counters
from runtime.kafka import Offsets, Producer, create_topics, read_topic, wait_for_broker
from runtime.settings import ClickHouse, Connection
from schemas import NodeFrame
from schemas.codec import decode
from schemas.matrix import Matrix
from storage.client import get_client
from storage.migrate import migrate
from storage.service import WriterSettings, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TICK = 1_800_000_000_000


def until(said: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not said():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.05)


def writer_settings(connection: Connection, clickhouse: ClickHouse, **own: object) -> WriterSettings:
    return msgspec.convert(msgspec.to_builtins(connection) | msgspec.to_builtins(clickhouse) | own, WriterSettings)


def frames(cluster: str, nodes: int, ticks: int) -> Iterator[NodeFrame]:
    for seq in range(ticks):
        for n in range(nodes):
            matrix = Matrix.of([f"GPU-{n}-{g}" for g in range(4)], ["power_w"], [[seq + g] for g in range(4)])
            yield NodeFrame(
                cluster=cluster, ts_ms=TICK + 1000 * seq, node=f"n{n}", run_id=1, seq=seq, sections={"gpu": matrix}
            )


def publish(connection: Connection, cluster: str, nodes: int, ticks: int) -> int:
    """Send the frames; returns how many GPU samples they hold."""
    producer = Producer(connection, "test", Counters(), bound=100_000)
    for frame in frames(cluster, nodes, ticks):
        producer.send_record(frame)
    producer.send("node-frames", "n0", b"poison")
    assert producer.flush(60)
    producer.close(5)
    return nodes * ticks * 4


def count(client: Client, final: str = "FINAL") -> int:
    return int(client.query(f"SELECT count() FROM gpu_samples {final}").result_rows[0][0])


@pytest.fixture
def own(clickhouse_database: ClickHouse) -> Iterator[tuple[ClickHouse, Client]]:
    """A migrated database of this test's own."""
    with contextlib.closing(get_client(clickhouse_database)) as client:
        migrate(client, clickhouse_database.clickhouse_database)
        yield clickhouse_database, client


def test_from_topics_to_tables_on_the_embedded_broker(embedded: Connection, own: tuple[ClickHouse, Client]) -> None:
    clickhouse, client = own
    settings = writer_settings(embedded, clickhouse, batch_s=0.2)
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(settings, stop))
    thread.start()
    try:
        expected = publish(embedded, "embedded", nodes=5, ticks=20)
        until(lambda: count(client) == expected, "every sample stored")
        # The writer's own letter and health come back through the topics into their tables.
        until(lambda: client.query("SELECT count() FROM dead_letters").result_rows == [(1,)], "the poison buried")
        until(lambda: client.query("SELECT count() > 0 FROM health").result_rows == [(1,)], "health stored")
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert [decode(m.value).key for m in read_topic(embedded, "dead-letters")] == [
        f"node-frames/{client.query('SELECT origin_partition FROM dead_letters').result_rows[0][0]}"
    ]
    with contextlib.closing(Offsets(embedded)) as offsets:
        partitions = offsets.partitions(["node-frames"])
        ends = {partition: end for partition, end in offsets.ends(partitions).items() if end}
        assert offsets.committed(WRITER, ends) == ends


def test_a_database_without_tables_is_one_line(embedded: Connection, clickhouse_database: ClickHouse) -> None:
    with pytest.raises(UserError, match=r"table \w+ is missing and \d+ more: run `lockstep storage migrate`"):
        run(writer_settings(embedded, clickhouse_database), threading.Event())


@pytest.mark.kafka
def test_writers_killed_at_any_moment_lose_nothing_and_double_nothing(
    own_kafka: LocalKafka, own: tuple[ClickHouse, Client]
) -> None:
    clickhouse, client = own
    connection = Connection(broker=own_kafka.address)
    wait_for_broker(connection, 60)
    create_topics(connection, 4, 1)
    expected = publish(connection, "killed", nodes=10, ticks=90)
    settings = writer_settings(connection, clickhouse, batch_rows=100, batch_s=0.2)
    environment = os.environ | {
        f"LOCKSTEP_{name.upper()}": str(value) for name, value in msgspec.to_builtins(settings).items() if value != ""
    }
    deaths = 0
    while True:
        writer = subprocess.Popen([sys.executable, "-m", "lockstep", "writer"], cwd=ROOT, env=environment)
        try:
            before = count(client)
            enough = min(expected, before + expected // 3)
            until(lambda enough=enough: count(client) >= enough, "progress")  # type: ignore[misc]
            if enough == expected:
                break
        finally:
            writer.kill()
            writer.wait()
        deaths += 1
    assert deaths >= 2
    assert count(client) == expected
    assert client.query("SELECT count(), uniqExact(node, seq, gpu) FROM gpu_samples FINAL").result_rows == [
        (expected, expected)
    ]
