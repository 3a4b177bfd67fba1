"""Counters, the health record and the Prometheus endpoint say the same."""

import logging
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.errors import UserError
from runtime.health import Counters, HealthReporter, serve_metrics
from runtime.log import Repeats
from runtime.ports import free_port


class FixedClock:
    def now_ms(self) -> int:
        return 1000

    def monotonic(self) -> float:
        return 1.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


def test_record_and_endpoint() -> None:
    counters = Counters()
    counters.add("received", 3)
    counters.add("dropped", 2, "buffer_full")
    counters.gauge("lag_s", 0.5)
    record = HealthReporter("c", "writer", "w0", 7, counters, FixedClock()).record("fine")
    assert record.counters == {"received": 3.0, "dropped{buffer_full}": 2.0}
    assert record.gauges == {"lag_s": 0.5}
    assert (record.seq, record.run_id, record.note, record.ts_ms) == (1, 7, "fine", 1000)


def test_prometheus_text() -> None:
    port = free_port()
    counters = Counters()
    counters.add("dropped", 2, "buffer_full")
    counters.gauge("lag_s", 0.5)
    stop = serve_metrics("writer", counters, port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    finally:
        stop()
    (sample,) = families["lockstep_dropped"].samples
    assert (sample.labels, sample.value) == ({"process": "writer", "reason": "buffer_full"}, 2.0)
    assert families["lockstep_lag_s"].samples[0].value == 0.5


def test_a_taken_port_is_one_line() -> None:
    port = free_port()
    stop = serve_metrics("a", Counters(), port)
    try:
        with pytest.raises(UserError, match="in use; choose another by --prometheus-port"):
            serve_metrics("b", Counters(), port)
    finally:
        stop()


def test_repeated_messages_are_held_back_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    repeats = Repeats(10.0, lambda: now[0])
    logger = logging.getLogger("lockstep.test")
    for _ in range(5):
        repeats.log(logger, logging.WARNING, "broker", "broker away")
    now[0] = 11.0
    repeats.log(logger, logging.WARNING, "broker", "broker away")
    assert [r.getMessage() for r in caplog.records] == ["broker away", "broker away (4 more like this)"]
