"""The agent of a real node: collectors, spool and Kafka put together.

It keeps going whatever its parts do: no GPU, a hanging driver, no broker, a full disk.
"""

import gc
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path

from collectors import COLLECTORS
from collectors.agent.backoff import Backoff
from collectors.agent.clock_watch import ClockWatch
from collectors.agent.core import AgentCore, Identity
from collectors.agent.delivery import Delivery, Sender
from collectors.agent.folders import Folders
from collectors.agent.node import Node
from collectors.agent.pace import ticks
from collectors.agent.settings import AgentSettings, Machine
from collectors.agent.spool import Spool, next_run_id
from collectors.agent.spool_watch import SpoolWatch
from collectors.base import Collector, event
from runtime.clock import Clock, SystemClock
from runtime.errors import UserError
from runtime.files import Lock
from runtime.health import Counters, HealthReporter, serve_metrics
from runtime.notify import Manager

__all__ = ["AgentSettings", "Machine", "run", "serve"]

logger = logging.getLogger(__name__)

HEALTH_TICKS = 10
"""Ticks from one health record to the next."""

ONCE_TICKS = 4
"""Enough for rates, which need two readings, and for the sampler process to start."""

GC_OBJECTS = 10_000
"""So many more objects than at its last look, and Python looks for cycles. Its 700 are alive in every tick, for that
tick: it would look each second and find nothing."""

CLOSE_S = 5.0
MIB = 1 << 20


def run(settings: AgentSettings, stop: threading.Event, once: bool = False) -> None:
    """The agent of this machine until `stop`, or `once` for a few ticks. UserError where a setting, or the spool's
    folder, cannot be used."""
    from runtime.kafka import Producer

    gc.set_threshold(GC_OBJECTS)

    def connect(client_id: str, counters: Counters) -> Sender:
        # A tick's records go to different topics: waiting for company only wakes the sending thread once more.
        return Producer(settings, client_id, counters, linger_ms=0)

    serve(settings, stop, Machine(), os.environ, connect, once)


def serve(
    settings: AgentSettings,
    stop: threading.Event,
    machine: Machine,
    environment: Mapping[str, str],
    connect: Callable[[str, Counters], Sender],
    once: bool = False,
) -> None:
    """`run` with its seams open: the machine's sources, the environment, and who sends (by client id). `once` ends
    after a few ticks."""
    counters, clock = Counters(), StoppedClock(stop)
    node, collectors = assembled(settings, machine, environment, clock, counters)
    identity, name = node.identity, node.identity.node
    manager, backoff = Manager(environment), Backoff(machine.proc / "self/schedstat")
    with hold(node.state):
        run_id = next_run_id(node.state, clock.now_ms())
        core = AgentCore(identity, collectors, run_id, clock, counters)
        node.gpu_of = core.gpu_of
        spool = Spool(node.state, round(settings.spool_mib * MIB), counters)
        spool_watch, clock_watch = SpoolWatch(spool), ClockWatch(clock)
        stop_metrics = _metrics(settings, counters)
        delivery = Delivery(spool, counters, clock, connect(f"agent-{name}", counters))
        health = HealthReporter(settings.cluster, "agent", name, run_id, counters, clock)
        logger.info("node=%s cluster=%s run_id=%d collectors=%s", name, settings.cluster, run_id, _names(collectors))
        folders = Folders(settings)
        count, missed = 0, _Missed(counters)
        moments = ticks(clock, settings.interval_s, stop.is_set, missed)
        try:
            for tick_ms in islice(moments, ONCE_TICKS if once else None):
                if backoff.tick(settings.interval_s, missed.take()):
                    _backed_off(core, backoff.stretch, counters)
                if stepped := clock_watch.stepped():
                    core.say(stepped)
                delivery.accept(core.tick(tick_ms))
                manager.alive(f"{count} ticks, {counters.gauges().get('spool_waiting', 0):g} records wait")
                count += 1
                counters.gauge("lag_s", (clock.now_ms() - tick_ms) / 1000)
                if count % HEALTH_TICKS == 1:
                    folders.look()
                if count % HEALTH_TICKS == 0:
                    delivery.accept([health.record()])
                delivery.pump()
                for change in spool_watch.changes():
                    core.say(change)
        finally:
            manager.tell("STOPPING=1")
            delivery.accept([health.record("stopped")])
            delivery.close(CLOSE_S)
            node.close()
            stop_metrics()


def assembled(
    settings: AgentSettings, machine: Machine, environment: Mapping[str, str], clock: Clock, counters: Counters
) -> tuple[Node, list[Collector]]:
    """The node and what it collects."""
    name = settings.node or socket.gethostname()
    identity = Identity(cluster=settings.cluster, node=name, rack=settings.rack, tray=settings.tray)
    node = Node(identity, settings, machine, clock, counters, environment)
    return node, chosen(node)


def chosen(node: Node) -> list[Collector]:
    """The collectors that the settings ask for and this node can have, in the registry's order."""
    asked = [name.strip() for name in node.settings.collectors.split(",") if name.strip()]
    unknown = [name for name in asked if name not in COLLECTORS]
    if unknown:
        raise UserError(f"no collector {unknown[0]!r} in --collectors; there are {', '.join(COLLECTORS)}")
    made = (import_module(module).on_node(node) for name, module in COLLECTORS.items() if not asked or name in asked)
    return [collector for collector in made if collector is not None]


def hold(folder: Path) -> Lock:
    """The right to use the spool's folder; UserError where it cannot be made or another agent has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / "lock", f"another agent uses the spool folder {folder}; give each its own by --spool-dir")
    except OSError as error:
        raise UserError(f"spool folder {folder}: {error.strerror}; choose another by --spool-dir") from None


class StoppedClock(SystemClock):
    """The machine's clock, whose sleep ends when the agent is to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def sleep(self, seconds: float) -> None:
        self._stop.wait(max(0.0, seconds))


class _Missed:
    """How many ticks were left out, in all (counted) and since it was last asked."""

    def __init__(self, counters: Counters) -> None:
        self._counters, self._count = counters, 0

    def __call__(self, count: int) -> None:
        self._counters.add("ticks_missed", count)
        self._count += count

    def take(self) -> int:
        count, self._count = self._count, 0
        return count


def _backed_off(core: AgentCore, stretch: int, counters: Counters) -> None:
    """Collect less often, or as often as set again; say so in the log and as an event, once a change."""
    more = stretch > core.stretch
    core.stretch = stretch
    counters.gauge("backoff_stretch", stretch)
    text = (
        f"no CPU to spare on this node: collecting every {stretch} intervals"
        if more
        else (f"CPU to spare again: collecting every {stretch} intervals" if stretch > 1 else "collecting as set again")
    )
    logger.log(logging.WARNING if more else logging.INFO, "%s", text)
    core.say(event("agent_starved" if more else "agent_recovered", text=text, detail={"stretch": str(stretch)}))


def _metrics(settings: AgentSettings, counters: Counters) -> Callable[[], None]:
    port = settings.prometheus_port
    return serve_metrics("agent", counters, port) if port else lambda: None


def _names(collectors: list[Collector]) -> str:
    return ",".join(collector.name for collector in collectors)
