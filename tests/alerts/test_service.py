"""The alerter as a process on a broker: news in, pages out, silences followed while it runs, health told."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from alerts.known import Known
from alerts.service import AlertsSettings, receivers, run
from runtime.broker import EmbeddedBroker
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import Producer, create_topics, read_topic
from runtime.settings import Connection, from_environment
from schemas import AlertState, Health, Incident, Record, Silence
from schemas.codec import decode, encode
from schemas.examples import EXAMPLES

NOW_MS = SystemClock().now_ms()
INCIDENT = replace(next(e for e in EXAMPLES if isinstance(e, Incident)), ts_ms=NOW_MS)
SILENCE = Silence(
    cluster="eos", ts_ms=NOW_MS, id="s-1", author="mira", reason="pump replaced", from_ms=NOW_MS - 1000,
    until_ms=NOW_MS + 3_600_000, rack="r01",
)  # fmt: skip


@pytest.fixture
def broker() -> Iterator[Connection]:
    with EmbeddedBroker() as running:
        connection = Connection(broker=running.address, broker_embedded=True, cluster="eos")
        create_topics(connection, partitions=1, replication=1)
        yield connection


def until(reached: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.05)


def test_a_silence_holds_a_page_until_it_is_ended_and_health_says_so(broker: Connection, tmp_path: Path) -> None:
    producer = Producer(broker, client_id="test", counters=Counters())

    def publish(*records: Record) -> None:
        for record in records:
            producer.send_and_wait(record.topic, record.key, encode(record), 10.0)

    def states() -> dict[str, AlertState]:
        found = [decode(message.value) for message in read_topic(broker, "alert-state")]
        return {record.incident: record for record in found if isinstance(record, AlertState)}

    with PagerDutyReceiver(tmp_path) as receiver:
        settings = AlertsSettings(
            broker=broker.broker, broker_embedded=True, cluster="eos", pagerduty_routing_key=ROUTING_KEY,
            pagerduty_url=receiver.url, pagerduty_ca=receiver.ca,
        )  # fmt: skip
        publish(SILENCE, INCIDENT)
        stop = threading.Event()
        thread = threading.Thread(target=run, args=(settings, stop))
        thread.start()
        try:
            until(lambda: "silenced by mira" in states().get(INCIDENT.id, AlertState(
                cluster="eos", ts_ms=0, receiver="-", incident="-", revision=0, action="trigger", status="intent",
            )).held)  # fmt: skip
            other = replace(INCIDENT, id="i-elsewhere", culprits=(replace(INCIDENT.culprits[0], rack="r09"),))
            publish(other)
            receiver.wait_for(lambda: receiver.opened == ["i-elsewhere"])
            publish(replace(SILENCE, ended=True))
            receiver.wait_for(lambda: receiver.opened == ["i-elsewhere", INCIDENT.id])
            over = {"revision": 1, "change": "resolve", "state": "resolved"}
            publish(replace(INCIDENT, **over), replace(other, **over))
            receiver.wait_for(lambda: receiver.open_now == set())
        finally:
            stop.set()
            thread.join(20)
        assert not thread.is_alive()
    told = [decode(message.value) for message in read_topic(broker, "health")]
    health = [record for record in told if isinstance(record, Health) and record.process == "alerts"]
    assert {"alerts_open", "alerts_held", "alerts_oldest_s", "alerts_keys_refused", "silences_active"} <= set(
        health[0].gauges
    )
    producer.close(5)


def test_what_was_paged_is_known_for_every_cluster_and_what_cannot_be_read_is_one_line(
    broker: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Forgotten after a restart, a page would be sent twice and never closed."""
    state = next(e for e in EXAMPLES if isinstance(e, AlertState))
    producer = Producer(broker, client_id="test", counters=Counters())
    for record in (replace(state, cluster="eos"), replace(state, cluster="elsewhere", incident="i-2"), SILENCE):
        producer.send_and_wait(record.topic, record.key, encode(record), 10.0)
    for number in range(50):
        producer.send("alert-state", str(number), b"\xc1 no record", None)
    assert producer.flush(10.0)
    producer.close(5)
    known = Known(broker)
    known.close()
    states = {record.cluster for record in known.records if isinstance(record, AlertState)}
    assert states == {"eos", "elsewhere"}
    assert [record for record in known.records if isinstance(record, Silence)] == [SILENCE]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "lockstep.alerts"]
    assert said.endswith(" (49 more like this)")


@pytest.mark.parametrize(
    "url", ["http://h:99999/secret", "http://[::1/secret", "http:///secret", "https://a b/secret", "http://h:0"]
)
def test_an_address_that_can_never_be_reached_is_said_at_the_start_without_its_path(url: str) -> None:
    with pytest.raises(UserError) as error:
        receivers(AlertsSettings(webhook_url=url), SystemClock())
    assert str(error.value) == "LOCKSTEP_WEBHOOK_URL is no address: give one like https://host:8443/path"


@pytest.mark.parametrize("variable", ["LOCKSTEP_WEBHOOK_URL", "LOCKSTEP_ALERTMANAGER_URL"])
def test_an_address_with_a_misspelt_scheme_is_not_said(variable: str) -> None:
    """The way into a channel is often nothing but an address."""
    with pytest.raises(UserError, match=rf"{variable}=\*\*\*: ") as error:
        from_environment(AlertsSettings, {variable: "htps://hooks.example/T0/secret"})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["alerts_ca", "pagerduty_ca"])
@pytest.mark.parametrize("content", [None, b"", b"no PEM", "a" * 5000])
def test_a_file_of_authorities_that_is_none_is_said_at_the_start(
    name: str, content: bytes | str | None, tmp_path: Path
) -> None:
    path = content if isinstance(content, str) else str(tmp_path / "ca.pem")
    if isinstance(content, bytes):
        Path(path).write_bytes(content)
    with pytest.raises(UserError, match=rf"^LOCKSTEP_{name.upper()}=.*(no such file|give a PEM file)"):
        receivers(AlertsSettings(webhook_url="https://h/", **{name: path}), SystemClock())
