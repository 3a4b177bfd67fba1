"""`lockstep analyze` of kernel logs in every form: events, incidents, and logs that are damaged."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lockstep.analyze import analyze, events
from lockstep.analyze.recognise import recognise
from lockstep.commands.analyze import command

XID_48 = "NVRM: Xid (PCI:0000:1b:00): 48, pid=7, name=python, DBE"
FORMS = {
    "bare": (XID_48, None),
    "dmesg": (f"[171167.621162] {XID_48}", None),
    "dmesg_T": (f"[Thu Oct 10 03:06:53 2024] {XID_48}", "2024-10-10T03:06:53.000Z"),
    "dmesg_x": (f"kern  :err   : 2024-10-10T03:06:53,285060+02:00 {XID_48}", "2024-10-10T01:06:53.285Z"),
    "kmsg": (f"3,5001,171167621162,-;{XID_48}", None),
    "syslog": (f"Oct 10 03:06:53 gpu-07 kernel: [171167.621162] {XID_48}", "-10-10T03:06:53.000Z"),
    "rfc5424": (f"<3>1 2024-10-10T03:06:53.5Z gpu-07 kernel - - - {XID_48}", "2024-10-10T03:06:53.500Z"),
    "journal": (
        json.dumps({"__REALTIME_TIMESTAMP": "1728529613000000", "_HOSTNAME": "gpu-07", "MESSAGE": XID_48}),
        "2024-10-10T03:06:53.000Z",
    ),
    "journal_bytes": (json.dumps({"MESSAGE": list(XID_48.encode() + b"\xff")}), None),
    "docker": (
        json.dumps({"log": f"[171167.6] {XID_48}\n", "stream": "stdout", "time": "2024-10-10T03:06:53.123456789Z"}),
        "2024-10-10T03:06:53.123Z",
    ),
    "cri": (f"2024-10-10T03:06:53.123456789Z stdout F {XID_48}", "2024-10-10T03:06:53.123Z"),
    "fluent": (json.dumps({"message": XID_48, "@timestamp": "2024-10-10T03:06:53Z", "host": {"name": "gpu-07"}}),
               "2024-10-10T03:06:53.000Z"),
    "lines": (json.dumps({"line": XID_48}), None),
}  # fmt: skip


def listed(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    return list(events([path], kind))


@pytest.mark.parametrize("form", FORMS)
def test_a_line_in_any_form_is_recognised_and_decoded(tmp_path: Path, form: str) -> None:
    line, moment = FORMS[form]
    path = tmp_path / "some.log"
    path.write_text(line + "\n")
    assert recognise(path) == "kernel-log"
    (record,) = listed(path)
    assert list(record) == ["path", "line", "event", "code", "pci", "ts", "severity", "cause", "action", "detail"]
    assert record["path"] == str(path)
    assert (record["line"], record["event"], record["code"], record["pci"]) == (1, "xid", 48, "0000:1b:00.0")
    assert (record["severity"], record["cause"], record["action"]) == (
        "critical",
        "gpu_memory_error",
        "WORKFLOW_XID_48",
    )
    assert record["detail"]["pid"] == 7
    assert (record["ts"] or "").endswith(moment or "")
    (incident,) = analyze([path]).to_json()["incidents"]
    assert (incident["kind"], incident["scope"], incident["cause"]) == ("hardware", "gpu", "gpu_memory_error")
    assert incident["culprits"][0]["gpu"] == "0000:1b:00.0"
    assert incident["culprits"][0]["node"] == ("gpu-07" if "gpu-07" in line else None)
    assert "reset it" in incident["action"]


def test_a_log_without_faults_is_healthy_and_a_warning_is_no_incident(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(
        "[    0.000000] Linux version 6.8.0\n[   12.500000] NVRM: loading NVIDIA UNIX Driver\n"
        "[  100.000000] NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=a, MMU Fault\n"
    )
    report = analyze([path])
    assert report.healthy
    assert (report.inputs[0].kind, report.inputs[0].records) == ("kernel-log", 3)


def test_events_are_listed_with_their_lines_and_malformed_ones_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(f"[ 1.000000] hello\n[ 2.000000] NVRM: Xid (invalid): x\n\n[ 3.000000] {XID_48}\n")
    assert [record["line"] for record in listed(path)] == [4]
    (counted,) = analyze([path]).inputs
    assert (counted.records, counted.skipped, counted.reasons) == (3, 1, {"malformed_xid": 1})


def test_the_command_prints_one_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.gz"
    path.write_bytes(gzip.compress(f"[ 3.000000] {XID_48}\n".encode()))
    done = CliRunner().invoke(command, [str(path), "--events"], standalone_mode=False)
    assert done.exit_code == 0
    assert json.loads(done.output)["code"] == 48


def test_a_fall_told_three_times_is_one_event_with_the_xid(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[ 1843.408145] NVRM: Xid (PCI:0000:b3:00): 79, pid=12345, GPU has fallen off the bus.\n"
        "[ 1843.508145] NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.\n"
    )
    assert [(r["line"], r["event"], r["code"]) for r in listed(path)] == [(4, "xid", 79)]


def test_the_drivers_verdict_counts_more_than_the_table(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(
        "[171168.109293] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 "
        "(0x0215e5c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)\n"
        "[171168.209293] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
        "(Node Reboot Required)\n"
    )
    (incident,) = analyze([path]).to_json()["incidents"]
    assert incident["cause"] == "nvlink_fault"
    assert incident["action"].startswith("The driver asks to reboot the machine")


def test_the_same_address_on_two_nodes_is_two_gpus(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        (tmp_path / f"{node}.log").write_text(f"2024-10-10T03:06:53Z {node} kernel: {XID_48}\n")
    incidents = analyze([tmp_path]).to_json()["incidents"]
    assert sorted(i["culprits"][0]["node"] for i in incidents) == ["n1", "n2"]


def test_truncated_lines_and_what_is_no_utf8_are_read(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_bytes(
        b"[ 1.000000] NVRM: Xid (PCI:0000:1b:00): 13, pid=7, name=\xff\xfe, Graphics Exception\n"
        b"[ 2.000000] NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 (0x0215e5\n"
        b"\x00\x00\x00\n[ 3.000000] NVRM: Xid (PCI:0000:1b:00): 4"
    )
    found = listed(path)
    assert [record["code"] for record in found] == [13, 149, 4]
    assert (found[1]["severity"], found[1]["detail"]["link"], "intrinfo" in found[1]["detail"]) == (
        "critical",
        15,
        False,
    )


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_an_hour_either_way_loses_no_event(tmp_path: Path, hours: int) -> None:
    path = tmp_path / "syslog"
    path.write_text(
        f"2024-10-10T12:00:00Z n1 kernel: {XID_48}\n"
        f"2024-10-10T{12 + hours:02}:00:10Z n1 kernel: NVRM: Xid (PCI:0000:2c:00): 79, pid=7, GPU has fallen off\n"
    )
    assert [record["ts"][11:13] for record in listed(path)] == ["12", f"{12 + hours:02}"]
    incidents = analyze([path]).to_json()["incidents"]
    assert {i["cause"] for i in incidents} == {"gpu_memory_error", "gpu_lost"}


def test_a_flood_is_one_incident(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    line = "[{:.6f}] NVRM: Xid (PCI:0000:04:00): 95, pid=1, name=a, Uncontained: LTC TAG. RST: Yes, D-RST: No\n"
    path.write_text("".join(line.format(100 + i / 1000) for i in range(20_000)))
    report = analyze([path])
    assert report.inputs[0].records == 20_000
    (incident,) = report.to_json()["incidents"]
    assert (incident["cause"], len(incident["culprits"])) == ("gpu_memory_error", 1)


def test_one_broken_nvlink_is_one_incident_of_the_gpus_at_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    recovery = "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    link = "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 (0x0215e5c6 0x00000000 0x00000000 0x00000000)"
    path.write_text(
        f"[171167.621162] NVRM: Xid (PCI:0009:01:00): {recovery}\n"
        f"[171167.897562] NVRM: Xid (PCI:0019:01:00): {recovery}\n"
        f"[171168.109293] NVRM: Xid (PCI:0009:01:00): {link}\n"
        f"[171168.537473] NVRM: Xid (PCI:0018:01:00): {link}\n"
        f"[171168.637473] NVRM: Xid (PCI:0008:01:00): {recovery}\n"
    )
    (incident,) = analyze([path]).to_json()["incidents"]
    assert (incident["kind"], incident["cause"]) == ("hardware", "nvlink_fault")
    assert {culprit["gpu"] for culprit in incident["culprits"]} == {"0009:01:00.0", "0018:01:00.0"}
    assert incident["action"].startswith("The driver asks to reset the GPU")


def test_a_fault_long_before_the_next_line_is_confirmed_as_it_would_have_been(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(
        "[  700.000000] pcieport 0000:80:01.1: AER: Uncorrected (Fatal) error received: 0000:81:00.0\n"
        "[ 9000.000000] mlx5_core 0000:5c:00.0 ens1np0: Link down\n"
        "[ 9002.000000] mlx5_core 0000:5c:00.0 ens1np0: Link up\n"
        "[19000.000000] NVRM: Xid (PCI:0000:2c:00): 31, pid=7, name=python, Ch 8\n"
    )
    (incident,) = analyze([path]).to_json()["incidents"]
    assert (incident["scope"], incident["cause"]) == ("link", "pcie_degraded")
    assert incident["culprits"][0]["link"] == "0000:81:00.0"


@pytest.mark.parametrize(("uptime_s", "incidents"), [(12, 0), (90_000, 1)])
def test_a_link_that_is_down_while_the_machine_boots_is_no_incident(
    tmp_path: Path, uptime_s: int, incidents: int
) -> None:
    path = tmp_path / "dmesg"
    path.write_text(
        f"[{uptime_s}.000000] mlx5_core 0000:5c:00.0 ens1np0: Link down\n[{uptime_s + 60}.000000] usb 1-1: x\n"
    )
    assert len(analyze([path]).to_json()["incidents"]) == incidents
    assert listed(path)[0]["event"] == "link_down"
