"""GPUs on their way to a failure: what is said, when, and what is not. All series are simulated."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from slow_frames import CORRECTED, DAY_MS, IDLE, MARGIN, PENDING, REPLAYS, ROWS, START_MS, slow_node

from detectors.drift.gpu import GpuDrift
from detectors.incident.book import IncidentBook
from detectors.state import StateError
from schemas import Event, Finding, NodeFrame


def told(frames: Iterable[NodeFrame], drift: GpuDrift | None = None) -> list[Finding]:
    drift = drift or GpuDrift("c", "n1")
    return [finding for frame in frames for finding in drift.update(frame)]


def edges(findings: Sequence[Finding]) -> list[tuple[str, str, str, int]]:
    """Without heartbeats: state, risk, GPU and the day."""
    return [
        (f.state, f.detector, f.subject.gpu, (f.ts_ms - START_MS) // DAY_MS) for f in findings if f.state != "heartbeat"
    ]


def drier(values: np.ndarray, day: float) -> None:
    """Paste of GPU-1 dries: its margin falls by 3 K a day, from the first day on."""
    values[1, MARGIN] -= 3 * max(day - 1, 0)


def remapping(values: np.ndarray, day: float) -> None:
    values[:, ROWS] = 3
    values[3, ROWS] += (day > 1) + (day > 2.5) + (day > 5.9)


def quickly(values: np.ndarray, day: float) -> None:
    """The same within two days."""
    values[:, ROWS] = 3
    values[3, ROWS] += (day > 0.5) + (day > 1.2) + (day > 2)


def xid(day: float, code: int = 79, gpu: str = "GPU-2", pci: str = "") -> Event:
    return Event(
        cluster="c", ts_ms=START_MS + int(day * DAY_MS), node="n1", run_id=1, seq=int(day * 1000), kind="xid",
        severity="critical", code=code, gpu=gpu, pci=pci, text=f"Xid {code}",
    )  # fmt: skip


def test_a_margin_that_falls_is_said_days_before_it_is_gone() -> None:
    """From 25 K on day 1 at 3 K a day: it is at -2 K on day 10."""
    found = told(slow_node(7, drier))
    (opened,) = [f for f in found if f.state == "open"]
    assert (opened.detector, opened.kind, opened.cause) == ("risk.thermal_margin", "degradation", "thermal_throttle")
    assert (opened.subject.scope, opened.subject.gpu) == ("gpu", "GPU-1")
    day = (opened.ts_ms - START_MS) / DAY_MS
    assert 3 < day < 7
    first, line, plan = opened.evidence
    assert "thermal margin at work of GPU GPU-1 fell from" in first.text
    assert "below -2 K the hardware slows down; at this pace it is there in" in first.text
    assert "beside the node's other GPUs" in line.text
    assert "working hours" in plan.text
    newest = found[-1]
    assert newest.evidence[0].value == pytest.approx(25 - 3 * 6, abs=3)


def test_what_falls_on_all_gpus_of_a_node_is_no_risk_of_a_part() -> None:
    def warmer(values: np.ndarray, day: float) -> None:
        values[:, MARGIN] -= 3 * day

    assert told(slow_node(6, warmer)) == []


def test_a_gpu_without_company_is_judged_by_itself() -> None:
    def alone(values: np.ndarray, day: float) -> None:
        values[0, MARGIN] = 26 - 4 * day + 0.3 * np.sin(99 * day)

    assert {f.detector for f in told(slow_node(4, alone, gpus=1))} == {"risk.thermal_margin"}


def test_two_weeks_of_health_say_nothing() -> None:
    """Days, noise, replays and corrected errors now and then, error rates that are what they are."""
    random = np.random.default_rng(1)
    counts = np.zeros((4, 2))

    def change(values: np.ndarray, day: float) -> None:
        counts[:] += random.poisson(0.02, (4, 2))
        values[:, [REPLAYS, CORRECTED]] = counts

    def links(day: float) -> list[list[float]]:
        return [[-16 + random.standard_normal(), abs(random.standard_normal()) / 10] for _ in range(8)]

    assert told(slow_node(14, change, links=links)) == []


def test_the_margin_of_an_idle_gpu_says_nothing() -> None:
    def falls(values: np.ndarray, day: float) -> None:
        values[1, MARGIN] -= 5 * day

    assert told(slow_node(4, falls, power_w=IDLE)) == []


def test_row_remaps_that_come_back_are_a_risk_from_the_third_on() -> None:
    opened = [f for f in told(slow_node(7, remapping)) if f.state == "open"]
    assert [(f.detector, f.cause, f.subject.gpu) for f in opened] == [("risk.row_remaps", "gpu_memory_error", "GPU-3")]
    assert "row remaps of GPU GPU-3 3 -> 6 in 5 days; 512 is the limit, at this pace in" in opened[0].summary


def test_rows_remapped_at_once_are_one_event() -> None:
    def at_once(values: np.ndarray, day: float) -> None:
        values[3, ROWS] = 4 * (day > 1)

    assert told(slow_node(3, at_once)) == []


def test_a_remap_that_waits_for_a_reset_for_a_day() -> None:
    def waits(values: np.ndarray, day: float) -> None:
        values[2, PENDING] = np.nan if 0.8 < day < 0.9 else 0.5 < day < 2
        values[3, PENDING] = day % 0.5 < 0.4

    found = edges(told(slow_node(2.3, waits)))
    assert found == [("open", "risk.remap_pending", "GPU-2", 1), ("close", "risk.remap_pending", "GPU-2", 2)]


def test_a_bit_error_rate_that_rises_is_at_dcgms_limit_when_it_is_said_to_be() -> None:
    """From 1e-17 by half a power of ten a day: 1e-12 on day 10."""
    random = np.random.default_rng(1)

    def links(day: float) -> list[list[float]]:
        rates = [[-17 + random.standard_normal() / 5, 0.0] for _ in range(8)]
        rates[5][0] += day / 2
        return rates

    found = told(slow_node(8, links=links))
    assert {(f.detector, f.cause, f.subject.gpu) for f in found} == {("risk.nvlink_ber", "nvlink_fault", "GPU-2")}
    opened = found[0]
    day = (opened.ts_ms - START_MS) / DAY_MS
    assert 4 < day < 7.5
    assert "DCGM fails a link above 10^-12" in opened.evidence[0].text
    assert opened.evidence[0].value == pytest.approx(-17 + day / 2, abs=0.5)


def test_links_without_any_error_and_links_that_do_not_say_are_no_trend() -> None:
    def links(day: float) -> list[list[float]]:
        return [[-253.8 if i % 2 else float("nan"), float("nan")] for i in range(8)]

    assert told(slow_node(3, links=links)) == []


def replaying(values: np.ndarray, day: float) -> None:
    """A tenth more of a power of ten each six hours, from one an hour on; the integral of it."""
    values[0, REPLAYS] = np.floor(24 / (0.4 * np.log(10)) * (10 ** (0.4 * day) - 1))


def test_pcie_replays_that_double_and_double() -> None:
    found = told(slow_node(7, replaying))
    assert {(f.detector, f.cause, f.subject.gpu) for f in found} == {("risk.pcie_replays", "pcie_degraded", "GPU-0")}


def test_a_counter_that_falls_is_a_new_epoch_and_hides_nothing() -> None:
    """The driver is loaded anew every other day: the rate goes on, and no fall is a burst."""

    def reset(values: np.ndarray, day: float) -> None:
        replaying(values, day)
        before = np.zeros_like(values)
        replaying(before, day - day % 2)
        values[0, REPLAYS] -= before[0, REPLAYS]

    assert {f.detector for f in told(slow_node(7, reset))} == {"risk.pcie_replays"}

    def only_resets(values: np.ndarray, day: float) -> None:
        values[:, REPLAYS] = 50_000 if day % 2 < 1 else 0

    assert told(slow_node(2, only_resets)) == []


def test_xids_that_speak_of_hardware_on_three_days_of_a_month() -> None:
    drift = GpuDrift("c", "n1")
    found: list[Finding] = []
    events = [xid(0.5, 79), xid(0.6, 79), xid(0.5, 79), xid(1.2, 13), xid(4, 63), xid(6, 63), xid(6, 63)]
    for frame in slow_node(7):
        while events and events[0].ts_ms <= frame.ts_ms:
            drift.note(events.pop(0))
        found += drift.update(frame)
    (opened,) = [f for f in found if f.state == "open"]
    assert (opened.detector, opened.subject.gpu, opened.cause) == ("risk.xids", "GPU-2", "gpu_memory_error")
    assert "on 3 days within 6 days: 79, 63, 63" in opened.summary


def test_an_xid_by_address_is_its_gpus() -> None:
    drift = GpuDrift("c", "n1")
    found: list[Finding] = []
    for day in (0.5, 1.6, 2.7, 3.0):
        found += told(slow_node(day, since_day=max(day - 0.4, 0)), drift)
        drift.note(xid(day, gpu="", pci="0000:02:00.0"))
    assert {f.subject.gpu for f in found} == {"GPU-1"}


def test_saved_and_restored_at_any_moment_it_says_the_same_and_nothing_twice() -> None:
    def both(values: np.ndarray, day: float) -> None:
        values[1, MARGIN] -= 5 * day
        quickly(values, day)

    frames = list(slow_node(3.5, both))
    whole = told(frames)
    assert {f.detector for f in whole} == {"risk.thermal_margin", "risk.row_remaps"}
    for cut in (160, 230):
        first, second = GpuDrift("c", "n1"), GpuDrift("c", "n1")
        said = told(frames[:cut], first)
        again = second.restore(first.learning(), first.decisions())
        assert set(again) <= set(said)
        assert [*said, *told(frames[cut:], second)] == whole
    with pytest.raises(StateError):
        GpuDrift("c", "n1").restore(b"\x81\xa7version\x02", None)


def test_memory_is_small_and_constant() -> None:
    drift = GpuDrift("c", "n1")
    told(slow_node(2), drift)
    small = len(drift.learning())
    told(slow_node(6, since_day=2), drift)
    assert len(drift.learning()) <= small + 64
    assert len(drift.learning()) < 1400 * 4, "without NVLinks; with them 540 bytes more for each GPU"
    assert len(drift.decisions()) < 64


def test_a_gpu_that_moved_to_another_node_keeps_its_past() -> None:
    """Days here, half a day in a box, then there: the trend is that of all days."""
    known: dict[str, GpuDrift] = {}
    old, new = GpuDrift("c", "n1", known), GpuDrift("c", "n2", known)
    assert told(slow_node(3.5, drier), old) == []
    moved = list(slow_node(6, drier, node="n2", names=["GPU-7", "GPU-1", "GPU-8", "GPU-9"], since_day=4, seed=3))
    opened = [f for f in told(moved, new) if f.state == "open"]
    assert [(f.detector, f.subject.node, f.subject.gpu) for f in opened] == [("risk.thermal_margin", "n2", "GPU-1")]
    assert old.seen_ms("GPU-1") is None
    assert told(moved, GpuDrift("c", "n2")) == [], "a past that began with the move says nothing yet"


def test_its_past_is_found_after_a_restart_too_and_where_it_is_now_it_stays() -> None:
    known: dict[str, GpuDrift] = {}
    first = GpuDrift("c", "n1")
    told(slow_node(3), first)
    restored = GpuDrift("c", "n1", known)
    restored.restore(first.learning(), None)
    new = GpuDrift("c", "n2", known)
    told(slow_node(3.2, node="n2", names=["GPU-0"], gpus=1, since_day=3.1), new)
    assert (restored.seen_ms("GPU-0"), new.seen_ms("GPU-0")) == (None, known["GPU-0"].seen_ms("GPU-0"))
    # Two GPUs of one name, both here now, are two.
    twin = GpuDrift("c", "n3", known)
    told(slow_node(3.2, node="n3", names=["GPU-0"], gpus=1, since_day=3.1), twin)
    assert known["GPU-0"] is new
    assert new.seen_ms("GPU-0") is not None


def test_a_clock_that_was_wrong_for_a_while_does_not_end_the_watch() -> None:
    """A day in the year 2090, and the right time again: what came back is found as if nothing had been."""
    drift = GpuDrift("c", "n1")
    told(slow_node(0.4), drift)
    ahead = [replace(f, ts_ms=f.ts_ms + 23_000 * DAY_MS, seq=1000 + f.seq) for f in slow_node(1.4, since_day=0.4)]
    told(ahead, drift)
    after = [replace(f, run_id=2) for f in slow_node(3, quickly, since_day=0.4)]
    assert {f.detector for f in told(after, drift)} == {"risk.row_remaps"}


def test_what_was_said_of_a_gpu_that_was_taken_out_is_over() -> None:
    drift = GpuDrift("c", "n1")
    told(slow_node(3, quickly), drift)
    found = told(slow_node(3.3, gpus=3, since_day=3), drift)
    assert [(state, risk) for state, risk, _, _ in edges(found)] == [("close", "risk.row_remaps")]


def test_instances_of_a_cut_gpu_are_none_of_its_trends() -> None:
    drift = GpuDrift("c", "n1")
    told(slow_node(0.2, names=["MIG-1", "GPU-1/gi7", "GPU-1", "GPU-2"]), drift)
    assert (drift.seen_ms("MIG-1"), drift.seen_ms("GPU-1/gi7")) == (None, None)
    assert drift.seen_ms("GPU-1") is not None


def test_a_risk_is_a_warning_of_its_own_never_critical_and_takes_no_fault_in() -> None:
    book = IncidentBook("c")
    found = [f for f in told(slow_node(3, quickly)) if f.state == "open"]
    said = [i for f in found for i in book.apply(f)] + book.advance(found[0].ts_ms + 10_000)
    assert [i.state for i in said] == ["suspect", "confirmed"]
    assert {i.severity for i in said} == {"warning"}
    assert said[-1].kind == "degradation"
    assert said[-1].action.startswith("Plan the check or exchange for working hours")
    assert "3 -> 6 in 37 hours; 512 is the limit" in said[-1].summary
    risk = said[-1].id
    fault = Finding(
        cluster="c", ts_ms=found[-1].ts_ms, id="f-now", revision=0, detector="uncorrectable", state="open",
        kind="hardware", cause="gpu_memory_error", subject=found[-1].subject, onset_ms=found[-1].ts_ms, confidence=0.9,
    )  # fmt: skip
    (page,) = book.apply(fault)
    assert (page.id != risk, page.severity, page.onset_ms) == (True, "critical", fault.onset_ms)
