"""What the writer has taken from the topics and not yet stored: records by class, and what cannot be one."""

from collections import Counter
from typing import Any, NamedTuple, Protocol

from runtime.deadletters import Brake
from schemas.codec import WireError, decode
from schemas.record import Record
from storage.columns import row_count, unknown_sections


class Message(Protocol):
    """A message as the consumer hands it out."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def value(self) -> bytes: ...
    @property
    def timestamp_ms(self) -> int: ...


class Taken(NamedTuple):
    """A record and the message it came in."""

    record: Record
    message: Message


class Bad(NamedTuple):
    """A message that cannot be used: `reason` is one word, counted; `detail` says what and where."""

    message: Message
    reason: str
    detail: str


class Brakes:
    """One brake per topic: a wrong version of one record class shows on its own topic first. It hears of good messages
    when the next bad one comes."""

    def __init__(self) -> None:
        self._of: dict[str, Brake] = {}
        self._good: Counter[str] = Counter()

    def good(self, topic: str) -> None:
        self._good[topic] += 1

    def bad(self, bad: Bad) -> None:
        """Count a bad message; raises TooManyBadMessages when it is one too many."""
        topic = bad.message.topic
        brake = self._of.setdefault(topic, Brake())
        if good := self._good.pop(topic, 0):
            brake.good(good)
        brake.bad(f"{topic}/{bad.message.partition}@{bad.message.offset} {bad.reason}: {bad.detail}")


class Batch:
    """Messages of one commit, and the consumer's `position` after them. `rows` counts the rows, over all tables, that
    its records become; `unknown` the sections of newer agents that no table is for."""

    def __init__(self) -> None:
        self.taken: dict[type[Record], list[Taken]] = {}
        self.bad: list[Bad] = []
        self.unknown: Counter[str] = Counter()
        self.position: Any = None
        self.messages = 0
        self.rows = 0
        self.bytes = 0
        self.newest_sent_ms = 0
        self.newest_tick_ms = 0

    def add(self, message: Message, brakes: Brakes) -> None:
        """Decode and keep; raises TooManyBadMessages when bad ones are too many."""
        self.messages += 1
        self.bytes += len(message.value)
        self.newest_sent_ms = max(self.newest_sent_ms, message.timestamp_ms)
        if not message.value:
            # A tombstone: compacted topics delete a key by it. History is not deleted here.
            return
        try:
            record = decode(message.value, message.topic)
        except WireError as error:
            self.refuse(Bad(message, error.reason, error.detail), brakes)
            return
        brakes.good(message.topic)
        self.newest_tick_ms = max(self.newest_tick_ms, record.ts_ms)
        self.taken.setdefault(type(record), []).append(Taken(record, message))
        self.rows += row_count(record)
        if strangers := unknown_sections(record):
            self.unknown.update(strangers)

    def refuse(self, bad: Bad, brakes: Brakes) -> None:
        """Keep a message for the dead letters, once; raises as `add` does."""
        if all(known.message is not bad.message for known in self.bad):
            self.bad.append(bad)
            brakes.bad(bad)
