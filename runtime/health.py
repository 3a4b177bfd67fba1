"""Self-counters of a process: what it received, sent, dropped and could not do.

Four counters everywhere, with the same words: received, sent, dropped{reason}, errors{code}; and two gauges: lag and
age of the last event. They go to the health topic as a record and to a Prometheus endpoint.
"""

import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from runtime.clock import Clock
from runtime.errors import UserError
from schemas import Health


class Counters:
    """Counts by name and label; thread-safe.

    >>> c = Counters(); c.add("dropped", 2, "buffer_full"); c.totals()
    {'dropped{buffer_full}': 2.0}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[tuple[str, str], float] = {}
        self._gauges: dict[str, float] = {}

    def add(self, name: str, count: float = 1, label: str = "") -> None:
        with self._lock:
            self._totals[name, label] = self._totals.get((name, label), 0.0) + count

    def gauge(self, name: str, value: float) -> None:
        with self._lock:
            self._gauges[name] = value

    def totals(self) -> dict[str, float]:
        with self._lock:
            return {f"{name}{{{label}}}" if label else name: n for (name, label), n in self._totals.items()}

    def labelled(self) -> dict[tuple[str, str], float]:
        with self._lock:
            return dict(self._totals)

    def gauges(self) -> dict[str, float]:
        with self._lock:
            return dict(self._gauges)


class HealthReporter:
    """Makes the Health records of one process start (`run_id`), numbered by `seq`."""

    def __init__(
        self, cluster: str, process: str, instance: str, run_id: int, counters: Counters, clock: Clock
    ) -> None:
        self._cluster, self._process, self._instance = cluster, process, instance
        self._run_id, self._counters, self._clock = run_id, counters, clock
        self._seq = 0

    def record(self, note: str = "") -> Health:
        """The counters as of now."""
        self._seq += 1
        return Health(
            cluster=self._cluster,
            ts_ms=self._clock.now_ms(),
            process=self._process,
            instance=self._instance,
            run_id=self._run_id,
            seq=self._seq,
            counters=self._counters.totals(),
            gauges=self._counters.gauges(),
            note=note,
        )


class _Exposition(Collector):
    def __init__(self, process: str, counters: Counters) -> None:
        self._process, self._counters = process, counters

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for (name, label), total in sorted(self._counters.labelled().items()):
            family = families.setdefault(
                name,
                CounterMetricFamily(f"lockstep_{name}", f"{name} since start", labels=["process", "reason"]),
            )
            family.add_metric([self._process, label], total)
        for name, value in sorted(self._counters.gauges().items()):
            gauge = GaugeMetricFamily(f"lockstep_{name}", f"{name} now", labels=["process"])
            gauge.add_metric([self._process], value)
            families["gauge:" + name] = gauge
        return list(families.values())


def serve_metrics(process: str, counters: Counters, port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Answer Prometheus on `host:port` from a thread; returns how to stop it. UserError where the port is taken."""
    registry = CollectorRegistry()
    registry.register(_Exposition(process, counters))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise UserError(
            f"cannot listen on port {port}: {error.strerror}; choose another by --prometheus-port"
        ) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
