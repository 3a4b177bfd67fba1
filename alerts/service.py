"""The alerter as a process: topics on one side, receivers on the other."""

import logging
import socket
import threading
from collections.abc import Callable

from alerts.alerter import PROCESS, Alerter
from alerts.alertmanager import Alertmanager
from alerts.known import Known
from alerts.manners import HOLDS, least
from alerts.pagerduty import PagerDuty, keys
from alerts.receiver import Receiver
from alerts.settings import AlertsSettings, check_addresses, check_files
from alerts.slack import Slack
from alerts.webhook import Webhook
from runtime.clock import Clock, SystemClock
from runtime.errors import UserError
from runtime.groups import ALERTS
from runtime.health import Counters, HealthReporter, serve_metrics
from runtime.kafka import Consumer, Producer, wait_for_broker
from schemas import Record
from schemas.codec import encode

__all__ = ["RECEIVERS", "AlertsSettings", "receivers", "run"]

log = logging.getLogger("lockstep.alerts")

STORE_TIMEOUT_S = 30.0
HEALTH_INTERVAL_S = 10.0

# A receiver: one line here, one file beside, the same behaviour for all.
RECEIVERS: dict[str, Callable[[AlertsSettings, Clock], Receiver | None]] = {
    "pagerduty": lambda settings, clock: PagerDuty(settings) if keys(settings) else None,
    "webhook": lambda settings, clock: Webhook(settings, clock) if settings.webhook_url else None,
    "alertmanager": lambda settings, clock: Alertmanager(settings, clock) if settings.alertmanager_url else None,
    "slack": lambda settings, clock: Slack(settings) if settings.slack_token and settings.slack_channel else None,
}


def receivers(settings: AlertsSettings, clock: Clock) -> list[Receiver]:
    """The receivers that are set up; UserError where there is none, or one of them only half."""
    check_files(settings)
    check_addresses(settings)
    if bool(settings.slack_token) != bool(settings.slack_channel):
        missing = "LOCKSTEP_SLACK_CHANNEL" if settings.slack_token else "LOCKSTEP_SLACK_TOKEN"
        raise UserError(f"Slack is set up without {missing}: it needs a bot's token and a channel's id")
    made = [receiver for make in RECEIVERS.values() if (receiver := make(settings, clock)) is not None]
    if not made:
        raise UserError(
            "no receiver is configured: set LOCKSTEP_PAGERDUTY_ROUTING_KEY to an Events API v2 key, or "
            "LOCKSTEP_WEBHOOK_URL, LOCKSTEP_ALERTMANAGER_URL, or LOCKSTEP_SLACK_TOKEN and LOCKSTEP_SLACK_CHANNEL"
        )
    return made


def run(settings: AlertsSettings, stop: threading.Event) -> None:
    """Until `stop`: read incidents, deliver what is due. UserError where no receiver or no broker is there."""
    clock, counters = SystemClock(), Counters()
    made = receivers(settings, clock)
    wait_for_broker(settings, 30, stop=stop)
    stop_metrics = serve_metrics(PROCESS, counters, settings.prometheus_port) if settings.prometheus_port else None
    known = Known(settings)
    log.info("%d incidents and silences known from before", len(known.records))
    producer = Producer(settings, client_id=PROCESS, counters=counters)
    consumer = Consumer(settings, group=ALERTS, topics=("incidents",), instance_id="alerts-0")
    health = HealthReporter(settings.cluster, PROCESS, socket.gethostname(), clock.now_ms(), counters, clock)

    def store(record: Record) -> None:
        producer.send_and_wait(record.topic, record.key, encode(record), STORE_TIMEOUT_S)

    holds = (*HOLDS, least(settings.alerts_least))
    alerter = Alerter(settings.cluster, made, known.records, store, clock, counters, holds)
    next_health = 0.0
    try:
        while not stop.is_set():
            alerter.accept(consumer.poll(max_records=500, timeout_s=0.2))
            consumer.commit()
            for silence in known.new_silences():
                alerter.silences.put(silence)
            alerter.deliver()
            if clock.monotonic() >= next_health:
                next_health = clock.monotonic() + HEALTH_INTERVAL_S
                producer.send_record(health.record(alerter.note()))
    finally:
        consumer.close()
        known.close()
        producer.close(5)
        if stop_metrics is not None:
            stop_metrics()
