"""How to reach a broker: options, TLS, and whether anything is there at all."""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from runtime.errors import BrokerUnreachable, UserError
from runtime.settings import Connection

MAX_MESSAGE_BYTES = 1_000_000
"""Kafka's own default for a topic is 1,048,588 bytes for a batch with its headers."""

SESSION_S = 10.0
"""A member of a group that does not come back is given up after this. One with the same instance id is back at once."""

EMBEDDED_SESSION_S = 5.0
"""The embedded broker knows no instance ids, and every join after the first waits one second less than this. It must
be more than the three seconds that the first join takes."""

PROBE_S = 3.0
_QUESTION = bytes.fromhex("0000000a 0012 0000 4c6f636b ffff")
"""ApiVersions, version 0: length, key 18, version, a correlation id to get back, no client name."""

BUSY_MS = 50.0
"""A sender whose broker cannot take more yet looks again after this, or when the broker says something."""

T = TypeVar("T")


class PatientClient(KafkaNetClient):  # type: ignore[misc]
    """A producer's connections. kafka-python 3.0.12's sender takes the seconds until it may connect again for
    milliseconds, and none at all for a broker that is being connected to or has not answered five requests yet: while a
    broker is silent it would keep a core busy on every node."""

    def connection_delay(self, node_id: object) -> float:
        """Milliseconds until it is worth while to look at a broker that takes nothing now."""
        return max(1000.0 * float(super().connection_delay(node_id)), BUSY_MS)


class Message(NamedTuple):
    """One message as it lay on the topic; a deletion (tombstone) has an empty value."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    timestamp_ms: int


def tls(connection: Connection) -> ssl.SSLContext | None:
    """The TLS context, None for plain text; UserError naming the file that does not serve."""
    ca, cert, key = connection.broker_tls_ca, connection.broker_tls_cert, connection.broker_tls_key
    if not (connection.broker_tls or ca or cert or key):
        return None
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"LOCKSTEP_BROKER_TLS_CA={ca}: {_plain(error)}; give a PEM file of certificates") from None
    if cert or key:
        try:
            context.load_cert_chain(cert or key, key or None)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"LOCKSTEP_BROKER_TLS_CERT={cert}, LOCKSTEP_BROKER_TLS_KEY={key}: {_plain(error)}; "
                "give a PEM certificate and its PEM key"
            ) from None
    return context


def session_s(connection: Connection) -> float:
    """The session time-out of every member of a group, Faust workers included."""
    return EMBEDDED_SESSION_S if connection.broker_embedded else SESSION_S


def options(connection: Connection) -> dict[str, Any]:
    """What every client of kafka-python is told."""
    context = tls(connection)
    chosen: dict[str, Any] = {
        "bootstrap_servers": [address.strip() for address in connection.broker.split(",")],
        # The embedded broker closes the connection on a newer client's first question.
        "api_version": (2, 3) if connection.broker_embedded else None,
        "security_protocol": "PLAINTEXT" if context is None else "SSL",
        "reconnect_backoff_max_ms": 1000,
    }
    if context is not None:
        chosen["ssl_context"] = context
    if connection.broker_user:
        chosen["security_protocol"] = "SASL_PLAINTEXT" if context is None else "SASL_SSL"
        chosen["sasl_mechanism"] = connection.broker_sasl_mechanism
        chosen["sasl_plain_username"] = connection.broker_user
        chosen["sasl_plain_password"] = connection.broker_password
    return chosen


def unreachable(connection: Connection) -> str:
    """Empty where a broker answers at one of the addresses, else why not, for a person.

    Asks Kafka's first question (ApiVersions) on a socket of its own: kafka-python says only that time ran out.
    """
    context = tls(connection)
    reason = ""
    for address in connection.broker.split(","):
        host, _, port = address.strip().rpartition(":")
        host = host.strip("[]")
        try:
            with contextlib.ExitStack() as stack:
                link: socket.socket = stack.enter_context(socket.create_connection((host, int(port)), PROBE_S))
                if context is not None:
                    link = stack.enter_context(context.wrap_socket(link, server_hostname=host))
                link.sendall(_QUESTION)
                if link.recv(8, socket.MSG_WAITALL if context is None else 0)[4:8] == _QUESTION[8:12]:
                    return ""
                reason = "what listens there is no Kafka broker, or wants TLS"
        except ssl.SSLError as error:
            reason = f"TLS failed: {_plain(error)}"
        except TimeoutError:
            reason = "no answer"
        except UnicodeError:  # a part of the name is empty, too long, or of signs that no name has
            reason = f"{host!r} is no host name"
        except (OSError, OverflowError) as error:
            reason = _plain(error)
    return reason


def connected(connection: Connection, make: Callable[..., T], *arguments: Any, **given: Any) -> T:
    """`make(*arguments, **options, **given)`; BrokerUnreachable, with nothing left open, where that fails."""
    reason = unreachable(connection)
    if reason:
        raise BrokerUnreachable(f"no broker at {connection.broker}: {reason}; start one, or give --broker HOST:PORT")
    made: list[KafkaNetClient] = []
    kind = PatientClient if make is KafkaProducer else KafkaNetClient

    def client(**configuration: Any) -> KafkaNetClient:
        made.append(kind(**configuration))
        # kafka-python 3.0.12 does not hand on its option of this name: topics would be made with a broker's defaults.
        made[-1].cluster.config["allow_auto_create_topics"] = connection.broker_embedded
        return made[-1]

    try:
        return make(*arguments, kafka_client=client, **options(connection), **given)
    except KafkaError as error:
        for left in made:
            left.close()
        # kafka-python keeps a refusal to itself and goes on trying; the broker did answer just now.
        raise BrokerUnreachable(
            f"the broker at {connection.broker} answers, but {_refusal(connection)} ({_plain(error)})"
        ) from None


def _refusal(connection: Connection) -> str:
    check = "check LOCKSTEP_BROKER_USER, LOCKSTEP_BROKER_PASSWORD and LOCKSTEP_BROKER_SASL_MECHANISM"
    if connection.broker_user:
        return f"does not let {connection.broker_user} in: {check}"
    if connection.broker_embedded:
        return "does not go on as an embedded one: is it a Kafka? then leave out --broker-embedded"
    # The embedded broker closes the connection on a client that was not told what it speaks to.
    return (
        "does not go on: if it is the embedded broker of `lockstep up`, give --broker-embedded yes "
        f"(LOCKSTEP_BROKER_EMBEDDED=true); if it is a Kafka that wants a user, {check}"
    )


def all_partitions(connection: Connection, client: KafkaConsumer, topics: Iterable[str]) -> list[TopicPartition]:
    """Every partition of those `topics` that exist. The embedded broker makes a topic when a producer asks for it."""
    topics = list(topics)
    if connection.broker_embedded:
        producer = connected(connection, KafkaProducer, metrics_enabled=False)
        for topic in topics:
            producer.partitions_for(topic)
        producer.close()
    found = {topic: client.partitions_for_topic(topic) or set() for topic in topics}
    return [TopicPartition(topic, number) for topic, numbers in found.items() for number in sorted(numbers)]


def _plain(error: Exception) -> str:
    said = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error) or type(error).__name__
    return str(said).splitlines()[0]
