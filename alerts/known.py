"""What the alert-state topic holds: where each incident stands at each receiver, and silences; of every cluster, as the
alerter pages for whatever is on the topic of incidents."""

import logging
from collections.abc import Iterable

from runtime.kafka import Consumer, Message
from runtime.log import more
from runtime.settings import Connection
from schemas import AlertState, Record, Silence
from schemas.codec import WireError, decode

TOPIC = "alert-state"

log = logging.getLogger("lockstep.alerts")


class Known:
    """`records`: the newest of every key when this was made; `new_silences` what people have asked for since."""

    def __init__(self, connection: Connection) -> None:
        self._consumer = Consumer(connection, None, (TOPIC,), None)
        newest: dict[str, AlertState | Silence] = {}
        for record in self._decoded(self._consumer.to_the_end()):
            newest[record.key] = record
        self.records: tuple[AlertState | Silence, ...] = tuple(newest.values())

    def new_silences(self) -> list[Silence]:
        """Silences that were added or ended since the last call; never waits."""
        return [r for r in self._decoded(self._consumer.poll(500, 0.0)) if isinstance(r, Silence)]

    def close(self) -> None:
        self._consumer.close()

    def _decoded(self, messages: Iterable[Message]) -> Iterable[AlertState | Silence]:
        bad: list[str] = []
        for message in messages:
            try:
                record: Record = decode(message.value, topic=TOPIC)
            except WireError as error:
                bad.append(f"{TOPIC}/{message.partition}@{message.offset} cannot be read: {error}")
                continue
            if isinstance(record, AlertState | Silence):
                yield record
        if bad:
            log.warning("%s%s", bad[0], more(len(bad) - 1))
