"""The Faust app: a factory, because an app made at import would hold on to an event loop that never runs."""

import logging
from collections.abc import Mapping
from typing import Any

import aiokafka
import faust
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from faust.types import TP
from faust.types.auth import CredentialsT

from runtime.kafka import MAX_MESSAGE_BYTES, session_s, tls
from streams.settings import WorkerSettings, instance
from streams.transport import Transport

LINGER_S, EMBEDDED_LINGER_S = 0.02, 0.2

FETCH_BYTES = 256 << 10
"""Of one partition at a time: what was fetched is handed out before anything else is, so a backlog of frames would keep
the collectives waiting. A larger message comes all the same, alone."""


class _App(faust.App):
    logger = logging.getLogger("faust")  # or every start and stop of its parts would be told as a message of ours

    async def on_first_start(self) -> None:
        """Faust makes folders for tables here; ours are in memory."""

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)


def create_app(settings: WorkerSettings) -> faust.App:
    """An app without agents. Topics must exist (`lockstep topics create`); nothing is declared from here."""
    hosts = ";".join(f"kafka://{host.strip()}" for host in settings.broker.split(","))
    app = _App(
        settings.group,
        broker=hosts,
        broker_client_id=instance(settings),
        broker_credentials=_credentials(settings),
        # A worker that comes back has its partitions at once, because its instance id is fixed (static membership).
        broker_session_timeout=session_s(settings),
        broker_heartbeat_interval=session_s(settings) / 4,
        broker_commit_interval=settings.commit_interval_s,
        # The embedded broker knows no static membership; without it a worker that stops says so and is gone at once.
        consumer_group_instance_id=None if settings.broker_embedded else instance(settings),
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=FETCH_BYTES,
        producer_compression_type="lz4",
        # What is sent at about the same time goes out together: fewer requests, better compression. The embedded
        # broker gives its readers one batch of a partition at a time, so there the batches are larger.
        producer_linger=EMBEDDED_LINGER_S if settings.broker_embedded else LINGER_S,
        producer_max_batch_size=256 << 10,
        producer_max_request_size=MAX_MESSAGE_BYTES + 1000,
        producer_request_timeout=60.0,
        # The assignor tells workers apart by this address; nothing listens there.
        canonical_url=f"http://{instance(settings)}",
        store="memory://",
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        # Held events are finished by later ones: waiting for them while nothing comes in would never end.
        stream_wait_empty=False,
        stream_buffer_maxsize=1024,
        key_serializer="raw",
        value_serializer="raw",
        processing_guarantee="at_least_once",
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    app.finalize()
    return app


async def commit(app: faust.App, offsets: Mapping[TP, int]) -> bool:
    """Commit exactly these offsets; False where a rebalance came between.

    Faust's consumer offers it to itself only: its public commit works out the offsets from its own acknowledgements.
    """
    consumer: Any = app.consumer
    return bool(await consumer._commit(offsets))


def urgent_producer(settings: WorkerSettings) -> aiokafka.AIOKafkaProducer:
    """A producer that waits for nothing to send along: state and findings hold up what comes after them."""
    return aiokafka.AIOKafkaProducer(
        **_client(settings, "urgent"),
        acks="all",
        compression_type="lz4",
        max_request_size=MAX_MESSAGE_BYTES + 1000,
        request_timeout_ms=60_000,
    )


def reader(settings: WorkerSettings, topic: str) -> aiokafka.AIOKafkaConsumer:
    """A consumer without a group that reads all of `topic` from its start."""
    return aiokafka.AIOKafkaConsumer(
        topic,
        **_client(settings, topic),
        auto_offset_reset="earliest",
    )


def _client(settings: WorkerSettings, purpose: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": [host.strip() for host in settings.broker.split(",")],
        "client_id": f"{instance(settings)}-{purpose}",
        **credentials_to_aiokafka_auth(_credentials(settings)),
    }


def _credentials(settings: WorkerSettings) -> CredentialsT | None:
    context = tls(settings)
    if settings.broker_user:
        return faust.SASLCredentials(
            username=settings.broker_user,
            password=settings.broker_password,
            ssl_context=context,
            mechanism=settings.broker_sasl_mechanism,
        )
    return None if context is None else faust.SSLCredentials(context)
