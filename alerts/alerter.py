"""The alerter's loop: incidents in, requests out, everything durable before and after.

    incidents -> outbox.offer -> intent stored -> offset committed
                 outbox.due   -> attempt stored -> request -> outcome stored

Thin: what to send is the outbox's decision, how is the receiver's.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from alerts.outbox import Outbox
from alerts.receiver import Outcome, Receiver
from runtime.clock import Clock
from runtime.deadletters import Brake, dead_letter
from runtime.health import Counters
from runtime.log import Repeats
from schemas import AlertState, Incident, Record
from schemas.codec import WireError, decode

PROCESS = "alerts"
log = logging.getLogger("lockstep.alerts")


class Incoming(Protocol):
    """A message of the incidents topic."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def value(self) -> bytes: ...


class Alerter:
    """Steps through incidents and deliveries. `store` writes a record durably or raises; `commit` commits offsets."""

    def __init__(
        self,
        cluster: str,
        receivers: Sequence[Receiver],
        known: Sequence[AlertState],
        store: "Store",
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._cluster, self._store, self._clock, self._counters = cluster, store, clock, counters
        self._receivers = {receiver.name: receiver for receiver in receivers}
        self._outboxes = {receiver.name: Outbox(receiver.name, receiver.render) for receiver in receivers}
        for outbox in self._outboxes.values():
            outbox.restore(known)
        self._brake = Brake(longest_run=100, window=200)
        self._repeats = Repeats()

    def accept(self, messages: Sequence[Incoming]) -> bool:
        """Take in news; True where its offsets may be committed now."""
        for message in messages:
            self._counters.add("received")
            try:
                record = decode(message.value, topic="incidents")
            except WireError as error:
                origin = (message.topic, message.partition, message.offset)
                self._store(
                    dead_letter(
                        self._cluster,
                        PROCESS,
                        origin,
                        error.reason,
                        error.detail,
                        message.value,
                        self._clock.now_ms(),
                    )
                )
                self._counters.add("errors", label=error.reason)
                self._brake.bad(error.reason)
                continue
            self._brake.good()
            assert isinstance(record, Incident)
            for outbox in self._outboxes.values():
                intent = outbox.offer(record)
                if intent is not None:
                    self._store(intent)
        return all(outbox.may_commit() for outbox in self._outboxes.values())

    def deliver(self) -> bool:
        """Make the requests that are due, one at a time; True where something was tried."""
        tried = False
        for name, outbox in self._outboxes.items():
            receiver = self._receivers[name]
            for attempt in outbox.due(self._clock.monotonic()):
                tried = True
                self._store(attempt)
                outcome, answer = receiver.deliver(attempt.body)
                self._report(attempt, outcome, answer)
                for record in outbox.settle(attempt.incident, outcome, answer, self._clock.monotonic()):
                    self._store(record)
            self._counters.gauge("alerts_open", outbox.open_count())
            self._counters.gauge("alerts_waiting", outbox.backlog())
        return tried

    def may_commit(self) -> bool:
        return all(outbox.may_commit() for outbox in self._outboxes.values())

    def _report(self, attempt: AlertState, outcome: Outcome, answer: str) -> None:
        what = f"{attempt.action} of {attempt.incident} at {attempt.receiver}"
        if outcome is Outcome.DELIVERED:
            self._counters.add("sent", label=attempt.action)
            log.info("%s: %s", what, answer)
            return
        self._counters.add("errors", label=outcome.value)
        message = f"{what}: {answer} (try {attempt.attempts})"
        if outcome is Outcome.REJECTED:
            log.error("%s: refused for good; body without key: %s", message, attempt.body[:2000].decode())
        else:
            self._repeats.log(log, logging.WARNING, attempt.receiver, message + "; will try again")


class Store(Protocol):
    """Writes one record to its topic and returns once it is durable."""

    def __call__(self, record: Record) -> None: ...
