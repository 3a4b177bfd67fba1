"""streams.incident: findings of all detectors become one incident a fault."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from schemas import Finding, Incident, Record
from streams.acknowledge import Token
from streams.lane import Step, Write
from streams.partition import Surroundings
from streams.state import Key, Saved, States

log = logging.getLogger(__name__)

TOPICS = ("findings",)

SETTLE_MS = 10_000
"""Time passes for incidents this far behind the nodes: a job's findings wait for its slowest node and for transport."""


class Book(Protocol):
    """All incidents of one cluster. `restore` may repeat last words."""

    def apply(self, record: Finding, /) -> Sequence[Incident]: ...
    def advance(self, ts_ms: int, /) -> Sequence[Incident]: ...
    def state(self) -> dict[str, bytes]: ...
    def restore(self, state: dict[str, bytes], /) -> Sequence[Incident] | None: ...


class IncidentPartition:
    """One book a cluster. Everything in it is a decision: what changed is stored before it is said."""

    def __init__(
        self, number: int, saved: Mapping[Key, Saved], around: Surroundings, make: Callable[[str], Book]
    ) -> None:
        self._around, self._make = around, make
        self._states = States(saved, around.checkpoint_ms)
        self._books: dict[Key, Book] = {}
        self._stored = {key: one.of("decisions") for key, one in saved.items()}
        self._newest_ms = {key: one.ts_ms for key, one in saved.items()}
        self._again = [incident for key in saved for incident in self._open(key)]

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
            incidents = [*self._books[key].apply(record), *self._books[key].advance(now_ms)]
            return (Step((token,), (), self._store(key, now_ms), incidents),)
        except Exception as error:
            self._around.counters.add("errors", 1, "detector_failed")
            log.exception("finding %s left out, the incidents go on from what was stored", record.id)
            self._open(key)
            return (Step((token,), (self._around.letter(token, record, "detector_failed", repr(error)),)),)

    def tick(self, event_ms: int) -> Sequence[Step]:
        return [step for key in self._books for step in self._grow_old(key, event_ms - SETTLE_MS)]

    def close(self) -> None: ...

    def _grow_old(self, key: Key, now_ms: int) -> Sequence[Step]:
        if now_ms <= self._newest_ms.get(key, 0):
            return ()
        self._newest_ms[key] = now_ms
        incidents = self._books[key].advance(now_ms)
        return (Step(state=self._store(key, now_ms), findings=incidents),) if incidents else ()

    def _open(self, key: Key) -> Sequence[Incident]:
        """The book as it was stored last; returns its last words."""
        book = self._books[key] = self._make(key.cluster)
        stored = self._stored.get(key)
        return (book.restore(stored) or ()) if stored else ()

    def _store(self, key: Key, now_ms: int) -> tuple[Write, ...]:
        self._stored[key] = self._books[key].state()
        return self._states.write(key, "decisions", self._stored[key], now_ms)
