"""The writer as a process: topics on one side, ClickHouse on the other."""

import contextlib
import gc
import logging
import socket
import threading
from typing import Annotated

from clickhouse_connect.driver.client import Client
from msgspec import Meta

from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.groups import READS, WRITER
from runtime.health import Counters, HealthReporter, serve_metrics
from runtime.kafka import Consumer, Producer, wait_for_broker
from runtime.settings import (
    ClickHouse,
    Connection,
    Database,
    Host,
    HttpPort,
    Positive,
    PrometheusPort,
    Secure,
    Servers,
    User,
)
from schemas.record import Natural
from storage.check import differences
from storage.client import StorageUnreachable, get_client
from storage.roll import keep_rolling
from storage.writer import PROCESS, Limits, Writer

log = logging.getLogger("lockstep.writer")

ROLLED_S = 5.0
"""How long the end waits for a roll-up that is being computed."""

COLLECT_AFTER = 1_000_000
"""Objects between two looks for circular garbage: more than two batches are, so that only what stays makes it look.
Looking through batches again and again was up to a quarter of the time of decoding them, and 65,000 messages left
some hundred objects in circles."""

PATIENCE_S = 2.0
"""Between two tries while ClickHouse does not answer yet."""


class WriterSettings(Connection, frozen=True, kw_only=True):
    """Everything the writer is told. The clickhouse_* fields are those of `runtime.settings.ClickHouse`."""

    clickhouse_host: Host = "127.0.0.1"
    clickhouse_port: HttpPort = 8123
    clickhouse_user: User = "default"
    clickhouse_password: str = ""
    clickhouse_database: Database = "lockstep"
    clickhouse_secure: Secure = False
    clickhouse_cluster: Servers = ""
    slot: Annotated[Natural, Meta(description="Number of this writer, from 0; fixed across restarts")] = 0
    prometheus_port: PrometheusPort = 0
    roll: Annotated[bool, Meta(description="Keep the roll-ups; done by the writer of slot 0")] = True
    batch_rows: Annotated[int, Meta(ge=1, description="Rows after which a batch is stored")] = Limits().batch_rows
    batch_s: Annotated[Positive, Meta(description="Seconds after which a batch is stored")] = Limits().batch_s

    def clickhouse(self) -> ClickHouse:
        """Where ClickHouse is."""
        return ClickHouse(**{name: getattr(self, name) for name in ClickHouse.__struct_fields__})


def run(settings: WriterSettings, stop: threading.Event) -> None:
    """Until `stop`: topics into ClickHouse. UserError where broker, tables or rights are missing."""
    client = _connected(settings.clickhouse(), stop)
    if client is None:
        return
    require_tables(client, settings.clickhouse_database)
    wait_for_broker(settings, 30, stop=stop)
    clock, counters = SystemClock(), Counters()
    stop_metrics = serve_metrics(PROCESS, counters, settings.prometheus_port) if settings.prometheus_port else None
    instance = f"{socket.gethostname()}-{settings.slot}"
    producer = Producer(settings, client_id=f"{PROCESS}-{settings.slot}", counters=counters)
    slot = f"{PROCESS}-{settings.slot}"
    consumer = Consumer(settings, group=WRITER, topics=READS[WRITER], instance_id=slot, counters=counters)
    health = HealthReporter(settings.cluster, PROCESS, instance, clock.now_ms(), counters, clock)
    limits = Limits(batch_rows=settings.batch_rows, batch_s=settings.batch_s)
    ended = threading.Event()
    roller = _roller(settings, counters, clock, ended)
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER)
    try:
        Writer(consumer, producer, client, settings.cluster, health, counters, clock, limits).run(stop)
    finally:
        gc.set_threshold(*thresholds)
        ended.set()
        consumer.close()
        producer.close(5)
        if roller is not None:
            roller.join(ROLLED_S)
        client.close()
        if stop_metrics is not None:
            stop_metrics()


def _roller(
    settings: WriterSettings, counters: Counters, clock: SystemClock, ended: threading.Event
) -> threading.Thread | None:
    """The thread that keeps the roll-ups; none where another writer does. It may be left behind in a statement: the
    roll-ups it has not marked are computed again."""
    if not settings.roll or settings.slot:
        return None

    def work() -> None:
        with contextlib.closing(get_client(settings.clickhouse(), timeout_s=600)) as client:
            keep_rolling(client, counters, clock, ended)

    thread = threading.Thread(target=work, name="roller", daemon=True)
    thread.start()
    return thread


def require_tables(client: Client, database: str) -> None:
    """UserError where the database lacks what the writer writes; a newer database that has it is fine."""
    lacking = [difference.text for difference in differences(client, database) if difference.blocks_writer]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise UserError(f"database {database!r}: {lacking[0]}{more}: run `lockstep storage migrate`")


def _connected(settings: ClickHouse, stop: threading.Event) -> Client | None:
    """A client, as soon as ClickHouse answers; None where `stop` came first."""
    while not stop.is_set():
        try:
            return get_client(settings)
        except StorageUnreachable as error:
            log.warning("%s", error)
            stop.wait(PATIENCE_S)
    return None
