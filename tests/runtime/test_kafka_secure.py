"""TLS and users: the right ones get in, and each wrong setting is one line that says which."""

from pathlib import Path

import pytest
from local_kafka import PASSWORD, USER, LocalKafka

from runtime.errors import BrokerUnreachable, UserError
from runtime.health import Counters
from runtime.kafka import Consumer, Producer, tls, wait_for_broker
from runtime.settings import Connection


def secure(kafka: LocalKafka, **other: object) -> Connection:
    settings = {
        "broker": kafka.secure_address,
        "broker_tls_ca": str(kafka.certificate),
        "broker_user": USER,
        "broker_password": PASSWORD,
    }
    return Connection(**(settings | other))  # type: ignore[arg-type]


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_user_sends_and_reads_over_tls(own_kafka: LocalKafka, new_topic, mechanism: str) -> None:
    topic = new_topic(Connection(broker=own_kafka.address))
    connection = secure(own_kafka, broker_sasl_mechanism=mechanism)
    wait_for_broker(connection, 30)
    producer = Producer(connection, "test", Counters())
    producer.send_and_wait(topic, "k", b"sealed", 30)
    producer.close(5)
    consumer = Consumer(connection, None, (topic,), None)
    assert [message.value for message in consumer.to_the_end()] == [b"sealed"]
    consumer.close()


@pytest.mark.kafka
def test_a_wrong_password_is_one_line_without_the_password(own_kafka: LocalKafka) -> None:
    with pytest.raises(UserError, match="does not let lockstep in") as told:
        wait_for_broker(secure(own_kafka, broker_password="guess-42"), 5)
    assert "guess-42" not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.kafka
def test_a_certificate_that_nobody_vouches_for_is_refused(own_kafka: LocalKafka) -> None:
    with pytest.raises(BrokerUnreachable, match=r"TLS failed.*CERTIFICATE_VERIFY_FAILED"):
        wait_for_broker(secure(own_kafka, broker_tls_ca="", broker_tls=True), 2)


@pytest.mark.kafka
def test_plain_text_where_tls_is_wanted_is_one_line(own_kafka: LocalKafka) -> None:
    with pytest.raises(BrokerUnreachable, match="or wants TLS"):
        wait_for_broker(Connection(broker=own_kafka.secure_address), 2)


def test_a_file_that_does_not_serve_is_named(tmp_path: Path) -> None:
    rubbish = tmp_path / "ca.pem"
    rubbish.write_text("not a certificate")
    with pytest.raises(UserError, match=r"LOCKSTEP_BROKER_TLS_CA=.*ca\.pem"):
        tls(Connection(broker_tls_ca=str(rubbish)))
    with pytest.raises(UserError, match="LOCKSTEP_BROKER_TLS_CA=/nowhere: No such file"):
        tls(Connection(broker_tls_ca="/nowhere"))
    with pytest.raises(UserError, match="LOCKSTEP_BROKER_TLS_CERT=/nowhere"):
        tls(Connection(broker_tls_cert="/nowhere", broker_tls_key="/nowhere"))
    assert tls(Connection()) is None
