"""The alerter as a process: topics on one side, receivers on the other."""

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from alerts.alerter import PROCESS, Alerter
from alerts.pagerduty import PagerDuty, PagerDutySettings
from alerts.receiver import Receiver
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.groups import ALERTS
from runtime.health import Counters, HealthReporter, serve_metrics
from runtime.kafka import Consumer, Producer, read_topic, wait_for_broker
from runtime.settings import Connection, Port
from schemas import AlertState, Record
from schemas.codec import WireError, decode, encode

log = logging.getLogger("lockstep.alerts")

STORE_TIMEOUT_S = 30.0
HEALTH_INTERVAL_S = 10.0


class AlertsSettings(PagerDutySettings, frozen=True, kw_only=True):
    """Everything the alerter is told."""

    prometheus_port: Port = 0


# A receiver: one line here, one file beside, the same behaviour for all.
RECEIVERS: dict[str, Callable[[AlertsSettings], Receiver | None]] = {
    "pagerduty": lambda settings: PagerDuty(settings) if settings.pagerduty_routing_key else None,
}


def run(settings: AlertsSettings, stop: threading.Event) -> None:
    """Until `stop`: read incidents, deliver what is due. UserError where no receiver or no broker is there."""
    receivers = [made for make in RECEIVERS.values() if (made := make(settings)) is not None]
    if not receivers:
        raise UserError("no receiver is configured: set LOCKSTEP_PAGERDUTY_ROUTING_KEY to an Events API v2 key")
    if settings.pagerduty_ca and not Path(settings.pagerduty_ca).is_file():
        raise UserError(f"LOCKSTEP_PAGERDUTY_CA={settings.pagerduty_ca}: no such file")
    wait_for_broker(settings, 30)
    clock, counters = SystemClock(), Counters()
    stop_metrics = serve_metrics(PROCESS, counters, settings.prometheus_port) if settings.prometheus_port else None
    known = _known_states(settings)
    log.info("%d incidents known from before", len(known))
    producer = Producer(settings, client_id=PROCESS, counters=counters)
    consumer = Consumer(settings, group=ALERTS, topics=("incidents",), instance_id="alerts-0")
    health = HealthReporter(settings.cluster, PROCESS, socket.gethostname(), clock.now_ms(), counters, clock)

    def store(record: Record) -> None:
        producer.send_and_wait(record.topic, record.key, encode(record), STORE_TIMEOUT_S)

    alerter = Alerter(settings.cluster, receivers, known, store, clock, counters)
    next_health = 0.0
    try:
        while not stop.is_set():
            alerter.accept(consumer.poll(max_records=500, timeout_s=0.2))
            if alerter.may_commit():
                consumer.commit()
            alerter.deliver()
            if clock.monotonic() >= next_health:
                next_health = clock.monotonic() + HEALTH_INTERVAL_S
                producer.send_record(health.record())
    finally:
        consumer.close()
        producer.close(5)
        if stop_metrics is not None:
            stop_metrics()


def _known_states(settings: Connection) -> list[AlertState]:
    newest: dict[tuple[str, str], AlertState] = {}
    for message in read_topic(settings, "alert-state"):
        try:
            record = decode(message.value, topic="alert-state")
        except WireError as error:
            log.warning("alert-state/%d@%d cannot be read: %s", message.partition, message.offset, error)
            continue
        if isinstance(record, AlertState) and record.cluster == settings.cluster:
            newest[record.receiver, record.incident] = record
    return list(newest.values())
