"""The alerter's loop: incidents in, requests out, everything durable before and after.

    incidents -> outbox.offer -> news stored -> offset committed
                 outbox.next  -> attempt stored -> request -> outcome stored

Thin: what to send is the outbox's decision, how is the receiver's, whether now is the manners'.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from alerts.manners import HOLDS, Hold
from alerts.outbox import Outbox
from alerts.receiver import Answer, Outcome, Receiver
from alerts.redact import redact
from alerts.silences import Silences
from runtime.clock import Clock
from runtime.deadletters import Brake, dead_letter
from runtime.health import Counters
from runtime.log import Repeats
from schemas import AlertState, Incident, Record, Silence
from schemas.codec import WireError, decode

PROCESS = "alerts"
ROUND_S = 5.0
"""So long requests are made before news is looked at again."""

JUMP_S = 30.0
"""A wall clock that moved so far against the monotonic one was set by somebody."""

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
    """Steps through incidents and deliveries. `store` writes a record durably or raises; after `accept` the offsets
    of its messages may be committed."""

    def __init__(
        self,
        cluster: str,
        receivers: Sequence[Receiver],
        known: Sequence[AlertState | Silence],
        store: "Store",
        clock: Clock,
        counters: Counters,
        holds: Sequence[Hold] = HOLDS,
    ) -> None:
        self._cluster, self._store, self._clock, self._counters = cluster, store, clock, counters
        self._receivers = {receiver.name: receiver for receiver in receivers}
        self.silences = Silences(r for r in known if isinstance(r, Silence))
        self._outboxes = {
            r.name: Outbox(
                r.name,
                r.render,
                route=r.route,
                knows=r.knows,
                holds=(self.silences, *holds),
                rate=r.rate,
                refresh_s=r.refresh_s,
            )
            for r in receivers
        }
        for outbox in self._outboxes.values():
            outbox.restore(r for r in known if isinstance(r, AlertState))
        self._brake = Brake(longest_run=100, window=200)
        self._repeats = Repeats(now=clock.monotonic)
        self._offset_s = self._between_clocks()

    def accept(self, messages: Sequence[Incoming]) -> None:
        """Take in news; when this returns all of it is durable."""
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
                news = outbox.offer(record)
                if news is not None:
                    self._store(news)

    def deliver(self) -> bool:
        """Make the requests that are due, one at a time; True where something was tried."""
        self._look_at_the_clock()
        tried = False
        for name, outbox in self._outboxes.items():
            until_s = self._clock.monotonic() + ROUND_S
            while (attempt := outbox.next(self._clock.monotonic(), self._clock.now_ms())) is not None:
                tried = True
                self._store(attempt)
                answer = self._send(self._receivers[name], attempt)
                self._report(attempt, answer)
                for record in outbox.settle(attempt.incident, answer, self._clock.monotonic()):
                    self._store(record)
                if answer.outcome is not Outcome.DELIVERED or self._clock.monotonic() > until_s:
                    break
            for record in outbox.aside():
                self._store(record)
                log.info("%s of %s at %s: %s", record.action, record.incident, name, record.held or record.response)
        self._gauges()
        return tried

    def note(self) -> str:
        """What is wrong with the receivers, for the health record; "" where nothing is."""
        refused = [
            f"{name} refuses the key of {', '.join(sorted(r or 'this receiver' for r in outbox.refused_keys))}"
            for name, outbox in self._outboxes.items()
            if outbox.refused_keys
        ]
        orphaned = [
            f"{outbox.orphans} pages at {name} can only be closed by hand"
            for name, outbox in self._outboxes.items()
            if outbox.orphans
        ]
        return "; ".join(refused + orphaned)

    def _send(self, receiver: Receiver, attempt: AlertState) -> Answer:
        try:
            return receiver.deliver(attempt)
        except Exception as error:  # one receiver's bug must not keep the others from being told
            log.exception("%s cannot send %s of %s", receiver.name, attempt.action, attempt.incident)
            return Answer(Outcome.RETRY, type(error).__name__)

    def _gauges(self) -> None:
        outboxes = self._outboxes.values()
        now_ms = self._clock.now_ms()
        oldest = [ts for outbox in outboxes if (ts := outbox.oldest_waiting_ms()) is not None]
        for name, value in {
            "alerts_open": sum(outbox.open_count() for outbox in outboxes),
            "alerts_waiting": sum(outbox.backlog() for outbox in outboxes),
            "alerts_held": sum(outbox.held() for outbox in outboxes),
            "alerts_oldest_s": max(0.0, (now_ms - min(oldest)) / 1000) if oldest else 0.0,
            "alerts_keys_refused": sum(len(outbox.refused_keys) for outbox in outboxes),
            "alerts_orphaned": sum(outbox.orphans for outbox in outboxes),
            "silences_active": len(self.silences.active(now_ms)),
        }.items():
            self._counters.gauge(name, value)
        for outbox in outboxes:
            outbox.forget(now_ms)

    def _report(self, attempt: AlertState, answer: Answer) -> None:
        what = f"{attempt.action} of {attempt.incident} at {attempt.receiver}"
        if attempt.route:
            what += f" ({attempt.route})"
        if answer.outcome is Outcome.DELIVERED:
            self._counters.add("sent", label=attempt.action)
            log.info("%s: %s", what, answer.text)
            return
        self._counters.add("errors", label=answer.outcome.value)
        message = f"{what}: {answer.text} (try {attempt.attempts})"
        if answer.outcome is Outcome.REJECTED:
            body = redact(attempt.body[:4000].decode("utf-8", "replace"))
            log.error("%s: refused for good; body without key: %s", message, body)
        elif answer.outcome is Outcome.KEY_REFUSED:
            self._repeats.log(log, logging.ERROR, attempt.receiver, message + "; the key is refused: put in another")
        else:
            self._repeats.log(log, logging.WARNING, attempt.receiver, message + "; will try again")

    def _look_at_the_clock(self) -> None:
        """Pauses count monotonic time, silences end by the wall clock: a jump of that is said, because a silence may
        have ended, or begun anew, with it."""
        offset_s = self._between_clocks()
        if abs(offset_s - self._offset_s) > JUMP_S:
            log.warning("the clock was set by %+.0f s: silences follow it", offset_s - self._offset_s)
            self._counters.add("clock_jumps")
            self._offset_s = offset_s

    def _between_clocks(self) -> float:
        return self._clock.now_ms() / 1000 - self._clock.monotonic()


class Store(Protocol):
    """Writes one record to its topic and returns once it is durable."""

    def __call__(self, record: Record) -> None: ...
