"""streams.incident: findings of all detectors become one incident a fault."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from schemas import Finding, Incident, Inventory, Record
from schemas.codec import decode, encode
from streams.acknowledge import Token
from streams.lane import Key, Step, Write
from streams.partition import Surroundings
from streams.state import Saved, States

log = logging.getLogger(__name__)

TOPICS = ("findings",)

SETTLE_MS = 10_000
"""Time passes for incidents this far behind the nodes: a job's findings wait for its slowest node and for transport."""


class Book(Protocol):
    """All incidents of one cluster."""

    def apply(self, record: Finding | Inventory, /) -> Sequence[Incident]: ...
    def advance(self, ts_ms: int, /) -> Sequence[Incident]: ...
    def state(self) -> dict[str, bytes]: ...
    def restore(self, state: dict[str, bytes], /) -> None: ...


class IncidentPartition:
    """One book a cluster. What it says is stored, then what changed in it, and only then it is said.

    The book forgets an incident with its last word; so the words are stored by themselves, and a worker that was
    killed in between says them when it is back.
    """

    def __init__(
        self, number: int, saved: Mapping[Key, Saved], around: Surroundings, make: Callable[[str], Book]
    ) -> None:
        self._around, self._make = around, make
        self._states = States(saved, around.checkpoint_ms)
        self._books: dict[Key, Book] = {}
        self._stored = {key: one.of("decisions") for key, one in saved.items()}
        self._newest_ms = {key: one.ts_ms for key, one in saved.items()}
        self._placed: dict[Key, int] = {}
        self._again = [decode(raw) for one in saved.values() for raw in _words(one.of("said"))]
        for key in saved:
            self._open(key)

    def restored(self) -> Step:
        return Step(findings=self._again)

    def take(self, record: Record, token: Token, lag_s: float) -> Sequence[Step]:
        if not isinstance(record, Finding):
            return (Step((token,)),)
        key = Key(record.cluster, "")
        if key not in self._books:
            self._open(key)
        now_ms = self._newest_ms[key] = max(record.ts_ms, self._newest_ms.get(key, 0))
        try:
            self._place(key)
            incidents = self._books[key].apply(record)
        except Exception as error:
            self._failed(key, f"finding {record.id} left out")
            return (Step((token,), (self._around.letter(token, record, "detector_failed", repr(error)),)),)
        said_by = (key,) if incidents else ()
        return (Step((token,), (), self._store(key, incidents, now_ms), incidents, said_by),)

    def tick(self) -> Sequence[Step]:
        now = {key: self._around.event_time.now_ms(key.cluster) for key in self._books}
        return [step for key, ms in now.items() if ms is not None for step in self._grow_old(key, ms - SETTLE_MS)]

    def ahead(self) -> Collection[str]:
        return ()

    def close(self) -> None: ...

    def _grow_old(self, key: Key, now_ms: int) -> Sequence[Step]:
        if now_ms <= self._newest_ms.get(key, 0):
            return ()
        self._newest_ms[key] = now_ms
        try:
            incidents = self._books[key].advance(now_ms)
        except Exception:
            self._failed(key, "time could not pass")
            return ()
        return (Step((), (), self._store(key, incidents, now_ms), incidents, (key,)),) if incidents else ()

    def _place(self, key: Key) -> None:
        """Tell the book where nodes are, when that has changed."""
        version = self._around.places.version(key.cluster)
        if self._placed.get(key) != version:
            self._placed[key] = version
            for inventory in self._around.places.nodes(key.cluster):
                self._books[key].apply(inventory)

    def _open(self, key: Key) -> None:
        """The book as it was stored last."""
        self._books[key] = self._make(key.cluster)
        self._placed.pop(key, None)
        if self._stored.get(key):
            self._books[key].restore(self._stored[key])

    def _store(self, key: Key, incidents: Sequence[Incident], now_ms: int) -> tuple[Write, ...]:
        self._stored[key] = self._books[key].state()
        said = {"": msgspec.msgpack.encode([encode(incident) for incident in incidents])} if incidents else {}
        return (
            *(self._states.write(key, "said", said, now_ms) if said else ()),
            *self._states.write(key, "decisions", self._stored[key], now_ms),
        )

    def _failed(self, key: Key, what: str) -> None:
        self._around.counters.add("errors", 1, "detector_failed")
        log.exception("%s, the incidents of %s go on from what was stored", what, key.cluster)
        self._open(key)


def _words(said: Mapping[str, bytes]) -> list[bytes]:
    return msgspec.msgpack.decode(said[""], type=list[bytes]) if "" in said else []
