"""The live log: records, each once over restarts, with the right time, whatever its ring does."""

import os
from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.base import CollectorError, NoData
from collectors.kernel.kmsg import FOLD_AFTER, KernelLogCollector, KmsgDevice, KmsgFile, Record, parse_record
from schemas.event import Event

SAMPLE = Path(__file__).parents[1] / "data" / "kernel" / "gpu_falls.kmsg"
BOOTED = 171_200.0
NOW_MS = 1_764_504_000_000


def xid(seq: int, at_s: float, code: int = 31, pci: str = "0000:04:00") -> bytes:
    return f"4,{seq},{round(at_s * 1e6)},-;NVRM: Xid (PCI:{pci}): {code}, pid=1, name=a, text\n".encode()


class Ring:
    """A line source filled by hand."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def read(self) -> list[tuple[str, bytes]]:
        records, self.records = self.records, []
        return [("kmsg", record) for record in records]


class Rig:
    def __init__(self, tmp_path: Path, clock: FakeClock | None = None) -> None:
        self.ring, self.mark = Ring(), tmp_path / "mark"
        self.clock = clock or FakeClock(NOW_MS, BOOTED)
        self.collector = KernelLogCollector(self.ring, "boot-1", self.clock, self.mark)

    def collect(self, *records: bytes) -> list[Event]:
        self.ring.records += records
        drafts = self.collector.collect(self.clock.now_ms()).drafts
        return [draft for draft in drafts if isinstance(draft, Event)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"4,5001,171167,-;text; more\n", Record(0, 5001, 171167, False, "text; more")),
        (b"30,7,1,+,caller=T1;a\\x09b\\xc3\\xa9\n", Record(3, 7, 1, True, "a\tbé")),
        (b"6,7,1,-;text\n SUBSYSTEM=pci\n", Record(0, 7, 1, False, "text")),
        (b" DEVICE=+pci:0000:00:03.1\n", None),
        (b"4,x,1,-;text\n", None),
        (b"4,1,1;text\n", None),
        (b"", None),
    ],
)
def test_records(raw: bytes, expected: Record | None) -> None:
    assert parse_record(raw) == expected


def test_a_machines_log_is_read_as_it_stands(tmp_path: Path) -> None:
    clock = FakeClock(NOW_MS, BOOTED)
    collector = KernelLogCollector(KmsgFile(SAMPLE), "boot-1", clock, tmp_path / "mark")
    found = [draft for draft in collector.collect(NOW_MS).drafts if isinstance(draft, Event)]
    assert [(event.kmsg_seq, event.kind, event.code, event.pci, event.severity) for event in found] == [
        (4101, "xid", 154, "0009:01:00.0", "critical"),
        (4102, "xid", 149, "0009:01:00.0", "critical"),
        (4103, "xid", 79, "0018:01:00.0", "critical"),
        (4105, "nvrm_rate_limited", None, "0019:01:00.0", "warning"),
        (4109, "gpu_lost", 79, "0008:01:00.0", "critical"),
        (4110, "pcie_aer", None, "0000:01:00.0", "critical"),
        (4112, "oom_kill", None, "", "warning"),
    ]
    assert found[0].ts_ms == NOW_MS - 32_379
    assert {event.detail.get("historic") for event in found} == {"yes"}
    assert found[2].identity == ("-", "-", "kmsg:boot-1", 4103)


def test_a_restart_reads_each_line_once(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    assert len(first.collect(xid(1, 10), xid(2, 11))) == 2
    assert first.collect() == []  # accepted by now: the mark is kept
    second = Rig(tmp_path, first.clock)
    assert [event.kmsg_seq for event in second.collect(xid(1, 10), xid(2, 11), xid(3, 12))] == [3]


def test_a_crash_before_the_events_were_accepted_reads_them_again(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.collect(xid(1, 10))
    second = Rig(tmp_path, first.clock)
    assert [event.kmsg_seq for event in second.collect(xid(1, 10))] == [1]


def test_another_boot_begins_its_own_numbers(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.collect(xid(900, 10))
    first.collect()
    after = KernelLogCollector(first.ring, "boot-2", first.clock, first.mark)
    first.ring.records.append(xid(1, 10))
    (found,) = after.collect(0).drafts
    assert isinstance(found, Event)
    assert (found.boot_id, found.kmsg_seq) == ("boot-2", 1)


def test_a_mark_that_is_garbage_reads_from_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "mark").write_bytes(b"\xff\x00 what")
    assert len(Rig(tmp_path).collect(xid(1, 10))) == 1


def test_the_same_code_twice_is_two_events(tmp_path: Path) -> None:
    assert len(Rig(tmp_path).collect(xid(1, 100, 31), xid(2, 160, 31))) == 2


def test_new_lines_have_a_time_between_the_last_look_and_now(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.collect()
    rig.clock.advance(1.0)
    drift_s = 40.0  # the log's clock is behind
    (late,) = rig.collect(xid(1, BOOTED + 0.5 - drift_s))
    assert late.ts_ms == NOW_MS
    rig.clock.advance(1.0)
    (ahead,) = rig.collect(xid(2, BOOTED + 1.5 + drift_s))
    assert ahead.ts_ms == NOW_MS + 2000
    rig.clock.advance(1.0)
    (exact,) = rig.collect(xid(3, BOOTED + 2.25))
    assert exact.ts_ms == NOW_MS + 2250
    assert "historic" not in exact.detail


def test_a_ring_that_ran_over_is_an_event_with_the_count(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.collect(xid(1, 10))
    found = rig.collect(xid(8, 11), xid(9, 12))
    assert (found[0].kind, found[0].text) == ("kernel_log_overrun", "6 lines of the kernel log were lost")
    assert [event.kmsg_seq for event in found[1:]] == [8, 9]


def test_what_user_space_wrote_into_the_log_is_left_alone(tmp_path: Path) -> None:
    echoed = xid(1, 10, 79).replace(b"4,", b"12,", 1)
    assert Rig(tmp_path).collect(echoed) == []


def test_a_flood_is_folded_and_other_devices_are_not(tmp_path: Path) -> None:
    flood = [xid(i, 10, 95) for i in range(1000)]
    found = Rig(tmp_path).collect(*flood, xid(1000, 11, 95, "0000:05:00"))
    assert len(found) == FOLD_AFTER + 2
    assert found[-1].detail["folded"] == str(1000 - FOLD_AFTER)
    assert found[-1].kmsg_seq == 999
    assert found[-2].pci == "0000:05:00.0"


def test_a_growing_file_gives_whole_records_only(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(xid(1, 10) + b"4,2,12")
    source = KmsgFile(path)
    assert len(source.read()) == 1
    with path.open("ab") as file:
        file.write(b"3,-;text\n DEVICE=x\n")
    assert [raw for _, raw in source.read()] == [b"4,2,123,-;text\n"]
    assert source.read() == []


def test_no_log_is_no_data_and_a_forbidden_one_is_an_error(tmp_path: Path) -> None:
    clock = FakeClock()
    absent = KernelLogCollector(KmsgDevice(tmp_path / "kmsg"), "b", clock, tmp_path / "mark")
    with pytest.raises(NoData):
        absent.collect(0)

    class Forbidden:
        def read(self) -> list[tuple[str, bytes]]:
            raise PermissionError(1, "Operation not permitted")

    with pytest.raises(CollectorError, match="no_permission"):
        KernelLogCollector(Forbidden(), "b", clock, tmp_path / "mark").collect(0)


def test_the_device_is_read_without_waiting_and_over_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"")
    answers: list[bytes | Exception] = [xid(1, 10), BrokenPipeError(), xid(9, 12), BlockingIOError()]

    def read(descriptor: int, count: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(os, "read", read)
    device = KmsgDevice(path)
    assert [raw for _, raw in device.read()] == [xid(1, 10), xid(9, 12)]


def test_this_machines_own_log_can_be_read_where_it_may() -> None:
    path = Path("/dev/kmsg")
    try:
        records = KmsgDevice(path).read()
    except OSError as error:
        pytest.skip(f"{path}: {error.strerror}")
    assert all(parse_record(raw) is not None for _, raw in records)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_an_hour_either_way_loses_and_repeats_no_line(tmp_path: Path, hours: int) -> None:
    rig = Rig(tmp_path)
    assert len(rig.collect(xid(1, BOOTED - 1))) == 1
    rig.clock.advance(1)
    rig.clock.step(3600 * hours)
    (after,) = rig.collect(xid(1, BOOTED - 1), xid(2, BOOTED + 0.5))
    assert after.kmsg_seq == 2
    assert 0 <= after.ts_ms <= rig.clock.now_ms()
    rig.clock.advance(1)
    (later,) = rig.collect(xid(3, BOOTED + 1.5))
    assert abs(later.ts_ms - rig.clock.now_ms()) <= 1000


def test_what_is_no_utf8_and_what_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    found = rig.collect(
        b"4,1,171199000000,-;NVRM: Xid (PCI:0000:04:00): 13, pid=1, name=\xff\xfe\\xff, Graphics Exception\n",
        b"4,2,171199000000,-;NVRM: Xid (PCI:0000:04:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 (0x0215e5",
        b"4,3,1711990000",
        b"\xff\xff\xff;\n",
    )
    assert [(e.code, e.severity) for e in found] == [(13, "info"), (149, "critical")]


def test_an_event_carries_cause_and_action(tmp_path: Path) -> None:
    (found,) = Rig(tmp_path).collect(xid(1, BOOTED, code=48))
    assert (found.detail["cause"], found.detail["action"]) == ("gpu_memory_error", "WORKFLOW_XID_48")
