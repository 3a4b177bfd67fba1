"""The simulated fleet onto a broker, at any speed that its readers can follow."""

import gc
import logging
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.fleet import Agents
from runtime.clock import Clock, SystemClock
from runtime.groups import READS, WORKER, WRITER
from runtime.health import Counters, HealthReporter
from runtime.kafka import Producer, wait_for_broker
from runtime.log import Repeats
from runtime.pace import EmbeddedPacer
from runtime.settings import Connection
from schemas.record import Record
from simulator.fleet import TICK_MS, SimulatedFleet
from simulator.settings import FleetSettings

logger = logging.getLogger(__name__)

BROKER_S, FLUSH_S = 30.0, 10.0

LOOK_S = 0.5
"""How soon a wait notices `stop`."""

REPORT_S = 10.0
"""Between two health records and lines of progress."""

AHEAD = 3000
"""Messages that may wait in the producer: far under its bound, so that it never drops one."""

DEBT_S = 2.0
"""Real time that may be made up for after a pause; the rest is forgotten, so that ticks never come in a bunch."""


class Sender:
    """Sends records no faster than broker and readers take them."""

    def __init__(self, producer: Producer, pacer: EmbeddedPacer) -> None:
        self._producer, self._pacer = producer, pacer
        self._changed = threading.Condition()
        self._on_the_way = 0
        self._repeats = Repeats()
        self.sent: Counter[str] = Counter()
        """Delivered records by topic."""

    def send(self, record: Record) -> None:
        with self._changed:
            self._on_the_way += 1
        self._producer.send_record(record, partial(self._done, record.topic))

    def ready(self, stop: threading.Event) -> bool:
        """Wait until the next tick may be sent; False once `stop` is set."""
        while not stop.is_set():
            with self._changed:
                drained = self._changed.wait_for(lambda: self._on_the_way <= AHEAD, LOOK_S)
            if drained and self._pacer.wait(LOOK_S, stop):
                return True
            if self._pacer.fullest is not None:
                self._repeats.log(logger, logging.INFO, "wait", f"waiting: {self._pacer.fullest}")
        return False

    def _done(self, topic: str, error: Exception | None) -> None:
        with self._changed:
            self._on_the_way -= 1
            if error is None:
                self.sent[topic] += 1
            self._changed.notify_all()


class Pace:
    """Real time for event time: `speed` event seconds a second."""

    def __init__(self, speed: float, clock: Clock) -> None:
        self._tick_s, self._clock = TICK_MS / 1000 / speed, clock
        self._due = clock.monotonic()

    def wait(self, stop: threading.Event) -> None:
        """Until the next tick is due; not at all where it is overdue."""
        self._due += self._tick_s
        ahead_s = self._due - self._clock.monotonic()
        if ahead_s > 0:
            stop.wait(ahead_s)
        else:
            self._due = max(self._due, self._clock.monotonic() - DEBT_S)


def run(
    settings: FleetSettings,
    connection: Connection,
    stop: threading.Event,
    *,
    readers: tuple[str, ...] = (WORKER, WRITER),
    progress: Callable[[str], None] = logger.info,
    clock: Clock | None = None,
) -> Counter[str]:
    """Simulate the fleet and send its records until `stop`, or for `settings.ticks`; how many went to each topic.

    Event time goes at `settings.speed` times real time, or slower: the embedded broker forgets what `readers`
    (consumer groups) have not read, so each tick waits for them. Raises UserError where a setting makes no sense,
    BrokerUnreachable where no broker answers.
    """
    clock = clock or SystemClock()
    fleet = SimulatedFleet(settings, connection.cluster, settings.start_ms or clock.now_ms())
    wait_for_broker(connection, BROKER_S, stop=stop)
    counters = Counters()
    producer = Producer(connection, "simulate", counters)
    pacer = EmbeddedPacer(connection, {group: READS[group] for group in readers}, clock=clock)
    sender, pace = Sender(producer, pacer), Pace(settings.speed, clock)
    health = HealthReporter(connection.cluster, "simulate", "fleet", fleet.start_ms, counters, clock)
    ticks, report_at = 0, clock.monotonic()
    try:
        with TemporaryDirectory(prefix="lockstep-fleet-") as folder:
            agents = Agents(fleet, connection.cluster, fleet.start_ms, Path(folder), counters)
            gc.freeze()  # what the fleet is made of lives as long as this process: no need to look at it again
            while (not settings.ticks or ticks < settings.ticks) and sender.ready(stop):
                for record in agents.tick():
                    sender.send(record)
                ticks += 1
                if clock.monotonic() >= report_at:
                    report_at = clock.monotonic() + REPORT_S
                    sender.send(health.record())
                    progress(f"{ticks} s simulated, {counters.totals().get('sent', 0):,.0f} records sent")
                pace.wait(stop)
    finally:
        producer.close(FLUSH_S)
        pacer.close()
    return sender.sent
