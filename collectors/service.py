"""The agent of a real node: collectors, spool and Kafka put together.

It keeps going whatever its parts do: no GPU, a hanging driver, no broker, a full disk.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from collectors import COLLECTORS
from collectors.agent import AgentCore, Identity
from collectors.base import Collector
from collectors.delivery import Delivery, Sender
from collectors.node import Node
from collectors.pace import ticks
from collectors.settings import AgentSettings, Machine
from collectors.spool import Spool, next_run_id
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.files import Lock
from runtime.health import Counters, HealthReporter, serve_metrics

__all__ = ["AgentSettings", "Machine", "run", "serve"]

logger = logging.getLogger(__name__)

HEALTH_TICKS = 10
"""Ticks from one health record to the next."""

CLOSE_S = 5.0
MIB = 1 << 20


def run(settings: AgentSettings, stop: threading.Event) -> None:
    """The agent of this machine until `stop`. UserError where a setting, or the spool's folder, cannot be used."""
    from runtime.kafka import Producer

    def connect(client_id: str, counters: Counters) -> Sender:
        return Producer(settings, client_id, counters)

    serve(settings, stop, Machine(), os.environ, connect)


def serve(
    settings: AgentSettings,
    stop: threading.Event,
    machine: Machine,
    environment: Mapping[str, str],
    connect: Callable[[str, Counters], Sender],
) -> None:
    """`run` with its seams open: the machine's sources, the environment, and who sends (by client id)."""
    counters, clock = Counters(), _StoppedClock(stop)
    name = settings.node or socket.gethostname()
    identity = Identity(cluster=settings.cluster, node=name, rack=settings.rack, tray=settings.tray)
    node = Node(identity, settings, machine, clock, counters, environment)
    collectors = chosen(node)
    with hold(node.state):
        run_id = next_run_id(node.state, clock.now_ms())
        core = AgentCore(identity, collectors, run_id, clock, counters)
        node.gpu_of = lambda work: next((gpu.uuid for gpu in core.gpus if (gpu.job, gpu.rank) == work), "")
        spool = Spool(node.state, round(settings.spool_mib * MIB), counters)
        stop_metrics = _metrics(settings, counters)
        delivery = Delivery(spool, counters, clock, connect(f"agent-{name}", counters))
        health = HealthReporter(settings.cluster, "agent", name, run_id, counters, clock)
        logger.info("node=%s cluster=%s run_id=%d collectors=%s", name, settings.cluster, run_id, _names(collectors))
        count = 0
        try:
            for tick_ms in ticks(clock, settings.interval_s, stop.is_set, lambda n: counters.add("ticks_missed", n)):
                delivery.accept(core.tick(tick_ms))
                count += 1
                counters.gauge("lag_s", (clock.now_ms() - tick_ms) / 1000)
                if count % HEALTH_TICKS == 0:
                    delivery.accept([health.record()])
                delivery.pump()
        finally:
            delivery.accept([health.record("stopped")])
            delivery.close(CLOSE_S)
            node.close()
            stop_metrics()


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


class _StoppedClock(SystemClock):
    """The machine's clock, whose sleep ends when the agent is to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def sleep(self, seconds: float) -> None:
        self._stop.wait(max(0.0, seconds))


def _metrics(settings: AgentSettings, counters: Counters) -> Callable[[], None]:
    port = settings.prometheus_port
    if not port:
        return lambda: None
    try:
        return serve_metrics("agent", counters, port)
    except OSError as error:
        raise UserError(
            f"cannot listen on port {port}: {error.strerror}; choose another by --prometheus-port"
        ) from None


def _names(collectors: list[Collector]) -> str:
    return ",".join(collector.name for collector in collectors)
