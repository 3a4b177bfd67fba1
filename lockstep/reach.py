"""The broker, for a command that a person waits for: whether it is there, and one record put on it."""

from collections.abc import Callable

from lockstep.options import say
from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import NotDelivered, Producer, wait_for_broker
from runtime.settings import Connection
from schemas import Record
from schemas.codec import encode

BROKER_S = 5.0
"""Long enough for a broker that is just starting, short enough to notice a wrong address."""

DELIVERED_S = 10.0


def reach(connection: Connection, tell: Callable[[str], object] = say) -> None:
    """Return when the broker answers; `tell` hears of the wait. UserError where it does not."""
    wait_for_broker(connection, BROKER_S, tell)


def put(connection: Connection, record: Record, what: str) -> None:
    """Return when the broker has the record. UserError, with `what` was not done, where it did not take it."""
    producer = Producer(connection, client_id="lockstep", counters=Counters())
    try:
        producer.send_and_wait(record.topic, record.key, encode(record), DELIVERED_S)
    except NotDelivered as error:
        raise UserError(f"{what}: {error}") from None
    finally:
        producer.close(5)
