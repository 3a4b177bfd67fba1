"""A collector or a spool that fails: said once, over when it is well again, and no part is blamed for it."""

import numpy as np
import pytest

from detectors.event_watch import EventWatch
from schemas import Event, Finding
from schemas.event import Severity

T0 = 1_800_000_000_000


def event(kind: str, at_s: int, collector: str = "gpu", severity: Severity = "warning", **detail: str) -> Event:
    return Event(
        cluster="c",
        ts_ms=T0 + 1000 * at_s,
        node="n1",
        run_id=1,
        seq=at_s,
        kind=kind,
        severity=severity,
        text="no answer from the driver for 0.8 s",
        detail={"collector": collector, "code": "stalled"} | detail,
    )


def brief(said: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.state, f.cause, f.subject.scope) for f in said]


@pytest.mark.parametrize("kind", ["collector_stalled", "collector_failed"])
def test_a_collector_that_fails_is_a_sensors_fault_until_it_reads_again(kind: str) -> None:
    watch = EventWatch("c", "n1")
    assert brief(watch.note(event(kind, 5), "", T0)) == [("open", "sensor_fault", "node")]
    assert {f.state for s in range(6, 7300, 10) for f in watch.tick(T0 + 1000 * s, (), np.zeros(0, bool))} == {
        "heartbeat"
    }
    assert watch.note(event("collector_recovered", 7301, "host", "info"), "", T0) == []
    assert brief(watch.note(event("collector_recovered", 7302, "gpu", "info"), "", T0)) == [
        ("close", "sensor_fault", "node")
    ]


def test_an_agent_that_starts_anew_says_anew_what_is_wrong() -> None:
    watch = EventWatch("c", "n1")
    watch.note(event("collector_stalled", 5), "", T0)
    assert brief(watch.note(event("agent_started", 9, severity="info"), "", T0)) == [("close", "sensor_fault", "node")]


def test_a_racks_controller_that_is_silent_is_no_fault_of_the_node_that_asks_it() -> None:
    watch = EventWatch("c", "n1")
    assert watch.note(event("collector_failed", 5, "redfish", bmc="t7-bmc", rack="r1"), "", T0) == []


@pytest.mark.parametrize(("begins", "ends"), [("spool_full", "spool_room"), ("spool_unwritable", "spool_writable")])
def test_a_spool_that_fails_is_the_pipelines_trouble_until_it_is_well_again(begins: str, ends: str) -> None:
    watch = EventWatch("c", "n1")
    (opened,) = watch.note(event(begins, 5, ""), "", T0)
    assert (opened.state, opened.cause, opened.subject.node) == ("open", "pipeline", "n1")
    assert "agent" in opened.summary
    for other in ("collector_recovered", *{"spool_room", "spool_writable"} - {ends}):
        assert watch.note(event(other, 6, "", "info"), "", T0) == []
    assert brief(watch.note(event(ends, 7300, "", "info"), "", T0)) == [("close", "pipeline", "node")]


def test_a_new_agent_knows_nothing_of_a_full_spool_and_a_full_spool_nothing_of_a_collector() -> None:
    watch = EventWatch("c", "n1")
    watch.note(event("spool_full", 5, ""), "", T0)
    watch.note(event("collector_failed", 6), "", T0)
    assert brief(watch.note(event("spool_room", 7, "", "info"), "", T0)) == [("close", "pipeline", "node")]
    watch.note(event("spool_full", 8, ""), "", T0)
    said = watch.note(event("agent_started", 9, severity="info"), "", T0)
    assert sorted(brief(said)) == [("close", "pipeline", "node"), ("close", "sensor_fault", "node")]
