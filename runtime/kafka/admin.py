"""Topics as they should be, and whether a broker is there."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.errors import KafkaError

from runtime.errors import BrokerUnreachable, UserError
from runtime.kafka.client import connected
from runtime.kafka.offsets import Offsets
from runtime.patience import waiting_for
from runtime.settings import Connection
from schemas.topics import TOPICS

log = logging.getLogger(__name__)

WAIT_STEP_S = 0.2
ATTEMPT_S = 5.0


def wait_for_broker(
    connection: Connection,
    timeout_s: float,
    say: Callable[[str], object] = log.warning,
    stop: threading.Event | None = None,
) -> None:
    """Return when a broker answers; BrokerUnreachable, saying why, when none does within `timeout_s` or until `stop`.

    `say` is told after a second that this waits, and for whom.
    """
    deadline = time.monotonic() + timeout_s
    with waiting_for(f"the broker at {connection.broker}", say):
        while True:
            left_s = max(1.0, min(ATTEMPT_S, deadline - time.monotonic()))
            try:
                connected(connection, KafkaAdminClient, bootstrap_timeout_ms=int(left_s * 1000)).close()
                return
            except BrokerUnreachable:
                if time.monotonic() + WAIT_STEP_S >= deadline or (stop is not None and stop.is_set()):
                    raise
            time.sleep(WAIT_STEP_S)


def topic_settings(compacted: bool, retention_ms: int | None) -> dict[str, str]:
    """What a topic is created with. Times are the broker's: a node whose clock is wrong must not be refused, nor keep
    its records for ever."""
    common = {"message.timestamp.type": "LogAppendTime"}
    if compacted:
        # Small segments, so that cleaning starts after 64 MiB instead of 1 GiB.
        return common | {"cleanup.policy": "compact", "segment.bytes": str(64 << 20)}
    return common | {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}


def create_topics(
    connection: Connection, partitions: int, replication: int, compacted: Iterable[str] = ()
) -> list[str]:
    """Create the topics that are missing, and say in one line each what was done or found.

    All get `partitions`, because what is read together must have as many; `compacted` are further topics that keep
    the newest record of each key (changelogs). Existing topics are not changed. Where one has another number of
    partitions or another clean-up, nothing is created and one UserError names every difference; other settings may
    differ and are only mentioned. The embedded broker makes topics by itself, with four partitions.
    """
    wanted = {topic.name: topic_settings(topic.retention_ms is None, topic.retention_ms) for topic in TOPICS.values()}
    wanted |= {name: topic_settings(True, None) for name in compacted}
    if connection.broker_embedded:
        offsets = Offsets(connection)
        made = Counter(partition.topic for partition in offsets.partitions(wanted))
        offsets.close()
        return [f"{name}: {count} partitions, as the embedded broker makes them" for name, count in made.items()]
    admin: KafkaAdminClient = connected(connection, KafkaAdminClient, bootstrap_timeout_ms=10_000)
    try:
        present = {t["name"]: len(t["partitions"]) for t in admin.describe_topics() if t["name"] in wanted}
        lines, wrong = _compare(wanted, present, partitions, _configured(admin, list(present)))
        if wrong:
            raise UserError(f"topics are not as they must be: {'; '.join(wrong)}; delete them or change the option")
        missing = {
            name: {"num_partitions": partitions, "replication_factor": replication, "configs": settings}
            for name, settings in wanted.items()
            if name not in present
        }
        if missing:
            admin.create_topics(missing, wait_for_metadata=True)
        return lines + [f"{name}: created, {partitions} partitions" for name in missing]
    except KafkaError as error:
        raise UserError(f"the broker at {connection.broker} did not create the topics: {_said(error)}") from None
    finally:
        admin.close()


def _configured(admin: KafkaAdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    described = admin.describe_configs([ConfigResource("topic", name) for name in names], config_filter="all")
    found: dict[str, dict[str, Any]] = described["topic"]
    return {name: {key: str(entry["value"]) for key, entry in settings.items()} for name, settings in found.items()}


def _compare(
    wanted: dict[str, dict[str, str]],
    present: dict[str, int],
    partitions: int,
    configured: dict[str, dict[str, str]],
) -> tuple[list[str], list[str]]:
    """Lines about existing topics, and what is wrong with them."""
    lines, wrong = [], []
    for name, count in present.items():
        have = configured[name]
        differs = {key: have.get(key) for key, value in wanted[name].items() if have.get(key) != value}
        if count != partitions:
            wrong.append(f"{name} has {count} partitions, not {partitions}")
        if "cleanup.policy" in differs:
            wrong.append(f"{name} has cleanup.policy={differs['cleanup.policy']}, not {wanted[name]['cleanup.policy']}")
        noted = "".join(f", {key}={value} instead of {wanted[name][key]}" for key, value in differs.items())
        lines.append(f"{name}: exists, {count} partitions{noted}")
    return lines, wrong


def _said(error: KafkaError) -> str:
    return str(error).splitlines()[0] or type(error).__name__
