"""Lines of the kernel log and the events they tell."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.kernel.log import KernelLines, malformed, parse_line
from collectors.pci import pci_address

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


def brief(line: str) -> tuple[str, str, int | None, str] | None:
    found = parse_line(line)
    return None if found is None else (found.kind, found.severity, found.code, found.pci)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "NVRM: Xid (PCI:0009:01:00): 79, pid=7, name=python, GPU has fallen off the bus.",
            ("xid", "critical", 79, "0009:01:00.0"),
        ),
        (
            "[  12.5] NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ("xid", "critical", 79, "0000:05:00.0"),
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", ("xid", "info", 14, "0000:03:00.0")),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:03): 43, pid=9, name=a, Ch 8", ("xid", "info", 43, "0000:41:00.0")),
        ("NVRM: Xid (PCI:0000:66:00): 999, pid=1234, name=test", ("xid", "warning", 999, "0000:66:00.0")),
        ("NVRM: Xid (PCI:0000:66:00): 48", ("xid", "critical", 48, "0000:66:00.0")),
        ("NVRM: Xid (invalid): some error", None),
        ("NVRM: Xid : 32, pid=2280636", None),
        ("NVRM: Xid error: xyz, invalid data", None),
        ("NVRM: GPU 18:00.0: GPU has fallen off the bus.", ("gpu_lost", "critical", 79, "0000:18:00.0")),
        (
            "NVRM: GPU at PCI:0000:9b:00: GPU-00000000-0000-4000-8000-000000000001",
            ("gpu_named", "info", None, "0000:9b:00.0"),
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            ("sxid", "critical", 20034, "0000:00:00.0"),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            ("sxid", "warning", 12028, "0000:05:00.0"),
        ),
        (
            "[Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch "
            "pci bus id 00000000:86:00.0 physical id 3 port 61",
            ("sxid", "warning", 12028, "0000:86:00.0"),
        ),
        (
            "[ERROR] [tid 7] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:c6:00.0",
            ("sxid", "critical", 20034, "0000:c6:00.0"),
        ),
        (
            "request to query NVSwitch device information failed with error:WARNING Nothing to do "
            "[NV_WARN_NOTHING_TO_DO]",
            None,
        ),
        (
            "NVRM: GPU 0000:9b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",
            ("gpu_init_failed", "critical", None, "0000:9b:00.0"),
        ),
        (
            "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU ...",
            ("nvrm_rate_limited", "warning", None, "0000:9b:00.0"),
        ),
        (
            "pcieport 0000:00:03.1: AER: Multiple Corrected error message received: 0000:01:00.0",
            ("pcie_aer", "info", None, "0000:01:00.0"),
        ),
        (
            "nvidia 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (ID)",
            ("pcie_aer", "warning", None, "0000:01:00.0"),
        ),
        (
            "pcieport 0000:00:03.1: AER: Uncorrected (Fatal) error received: 0000:01:00.0",
            ("pcie_aer", "critical", None, "0000:01:00.0"),
        ),
        (
            "pcieport 0000:00:03.1: AER: Correctable error message received from 0000:01:00.0",
            ("pcie_aer", "info", None, "0000:01:00.0"),
        ),
        (
            "nvidia 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
            ("pcie_aer", "critical", None, "0000:01:00.0"),
        ),
        (
            "pcieport 0000:80:01.1: DPC: containment event, status:0x1f01 source:0x0000",
            ("pcie_aer", "critical", None, "0000:80:01.1"),
        ),
        (
            "pcieport 0000:80:01.1: pciehp: Slot(1): Link Down",
            ("pcie_link_down", "critical", None, "0000:80:01.1"),
        ),
        ("mlx5_core 0000:5c:00.0 ens1np0: Link down", ("link_down", "critical", None, "0000:5c:00.0")),
        ("mlx5_core 0000:5c:00.0 ens1np0: Link up", ("link_up", "info", None, "0000:5c:00.0")),
        ("bnxt_en 0000:19:00.0 eth2: NIC Link is Down", ("link_down", "critical", None, "")),
        (
            "mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
            ("nic_firmware", "critical", None, "0000:41:00.0"),
        ),
        (
            "mlx5_core 0000:41:00.0: High temperature on sensors with bit set 0 1",
            ("nic_hot", "warning", None, "0000:41:00.0"),
        ),
        ("NETDEV WATCHDOG: ens1np0 (mlx5_core): transmit queue 3 timed out", ("nic_timeout", "warning", None, "")),
        ("INFO: task python:4242 blocked for more than 120 seconds.", ("hung_task", "warning", None, "")),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4242]", ("soft_lockup", "warning", None, "")),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", ("memory_error", "critical", None, "")),
        ("net_ratelimit: 15 callbacks suppressed", ("log_suppressed", "info", None, "")),
        ("systemd-journald[412]: Missed 128 kernel messages", ("log_suppressed", "info", None, "")),
        ("blk_update_request: I/O error, dev nvme0n1, sector 8", ("io_error", "warning", None, "")),
        (
            "python[7]: segfault at 7f79 ip 7c69 sp 12fd error 4 in libnccl.so.2[7f7c+d3]",
            ("segfault", "warning", None, ""),
        ),
        ("python[7]: segfault at 7f79 ip 7c69 sp 12fd error 4 in libfoo.so[7f7c+d3]", None),
        ("Out of memory: Kill process 7 (java) score 812 or sacrifice child", ("oom_kill", "warning", None, "")),
        ("Out of memory: Killed process 12345, UID 48, (httpd) total-vm:1kB", ("oom_kill", "warning", None, "")),
        (
            "mlx5_core 0000:3b:00.0: print_health_info:458:(pid 0): synd 0x1: firmware internal error",
            ("nic_firmware", "critical", None, "0000:3b:00.0"),
        ),
        ("infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe", ("nic_completion", "warning", None, "")),
        (
            "mlx5_core 0000:3b:00.0: mlx5_health_try_recover:339:(pid 7): handling bad device here",
            ("nic_firmware", "critical", None, "0000:3b:00.0"),
        ),
        ("Out of memory: Killed process 12345 (python) total-vm:1kB", ("oom_kill", "warning", None, "")),
        ("Memory cgroup out of memory: Killed process 9 (a (b) c), UID 0", ("oom_kill", "warning", None, "")),
        ("oom_reaper: reaped process 12345 (python), now anon-rss:0kB", None),
        ("Linux version 5.15.0-117-generic", None),
        ("", None),
    ],
)
def test_what_a_line_tells(line: str, expected: tuple[str, str, int | None, str] | None) -> None:
    assert brief(line) == expected


def test_process_and_meaning_are_told_apart() -> None:
    found = parse_line(
        "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
        "(0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"
    )
    assert found is not None
    assert found.severity == "warning"
    assert found.detail == {
        "pid": "876767",
        "process": "ray::WorkerDict",
        "name": "RLW_RXPIPE",
        "unit": "RLW_RXPIPE",
        "word": "nonfatal",
        "xc": "0",
        "instance": "0",
        "link": "13",
        "intrinfo": "0x0409a0c2",
        "sub_code": "0",
        "error_status": "0x00000008",
        "then": "CONTACT_SUPPORT",
        "side": "HW/SW",
    }
    assert (found.cause, found.action) == ("nvlink_fault", "IGNORE")


def test_a_line_cut_short_still_tells_its_code() -> None:
    found = parse_line("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x0215e5c6 0x0")
    assert found is not None
    assert (found.severity, found.detail["link"], found.detail["intrinfo"]) == ("critical", "-1", "0x0215e5c6")


def test_digits_in_a_process_name_are_no_code() -> None:
    found = parse_line("NVRM: Xid (PCI:0000:05:00): 13, pid=5, name=run: 79, Graphics Exception")
    assert found is not None
    assert found.code == 13


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)", ("info", "IGNORE")),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", ("warning", "DRAIN_P2P")),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", ("critical", "RESET_GPU")),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", ("critical", "DRAIN_AND_RESET")),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", ("critical", "RESTART_BM")),
        ("cut sh", ("warning", "XID_154")),
    ],
)
def test_a_recovery_action_is_as_bad_as_the_new_one(text: str, expected: tuple[str, str]) -> None:
    found = parse_line(f"NVRM: Xid (PCI:0009:01:00): 154, {text}")
    assert found is not None
    assert (found.severity, found.action) == expected


@pytest.mark.parametrize(
    ("text", "severity", "action"),
    [
        ("something new", "warning", "WORKFLOW_NVLINK5_ERR"),
        ("NETIR Non-fatal XC0", "warning", "WORKFLOW_NVLINK5_ERR"),
        ("RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000001)", "critical", "WORKFLOW_NVLINK5_ERR"),
        ("RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000140)", "warning", "IGNORE"),
        ("RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000140)", "critical", "RESET_GPU"),
        ("RLW_NEWER Fatal XC0 i0 Link 00 (0x00000004 0x00000001)", "critical", "WORKFLOW_NVLINK5_ERR"),
    ],
)
def test_the_lines_own_word_counts_and_what_is_not_in_the_table_says_so(text: str, severity: str, action: str) -> None:
    found = parse_line(f"NVRM: Xid (PCI:0009:01:00): 145, {text}")
    assert found is not None
    assert (found.severity, found.action) == (severity, action)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (
            "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x10000, 0x0, 0x1)",
            {"link": "14", "registers": "0x10000 0x0 0x1"},
        ),
        (
            "13, pid=7, name=a, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
            {"gpc": "0", "tpc": "1", "sm": "0"},
        ),
        (
            "31, pid=7, name=a, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
            "0x7fc_123c0000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            {
                "engine": "GRAPHICS",
                "address": "0x7fc_123c0000",
                "fault": "FAULT_PDE",
                "access": "ACCESS_TYPE_VIRT_READ",
            },
        ),
        (
            "119, pid=7, name=a, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 103 "
            "(GSP_RM_ALLOC) (0x2081 0x4).",
            {"waited_s": "6", "index": "4", "function": "GSP_RM_ALLOC"},
        ),
    ],
)
def test_what_the_text_of_a_code_says_of_the_place(line: str, detail: dict[str, str]) -> None:
    found = parse_line(f"NVRM: Xid (PCI:0000:05:00): {line}")
    assert found is not None
    assert detail.items() <= found.detail.items()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("NVRM: Xid (invalid): some error", "malformed_xid"),
        ("NVRM: Xid : 32, pid=2280636", "malformed_xid"),
        ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error", "malformed_sxid"),
        ("NVRM: Xid (PCI:0000:05:00): 13, pid=5", ""),
        ("PCI:0000:29:00", ""),
    ],
)
def test_damaged_lines_have_a_reason(line: str, reason: str) -> None:
    assert malformed(line) == reason


@given(st.text(), st.sampled_from(["NVRM: Xid (PCI:0000:05:00): ", "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): ", ""]))
def test_any_text_whatever_is_an_event_or_none(text: str, begin: str) -> None:
    parse_line(begin + text)
    KernelLines().feed(begin + text, 0.0)


def feed(lines: KernelLines, *texts: str, step_s: float = 0.1) -> list[tuple[str, int | None, str]]:
    found = [lines.feed(text, i * step_s) for i, text in enumerate(texts)]
    return [(event.kind, event.code, event.pci) for event in found if event is not None]


SILENT_FALL = (
    "NVRM: The NVIDIA GPU 0000:18:00.0",
    "NVRM: (PCI ID: 10de:2901) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
FALL = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
XID_79 = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=a, GPU has fallen off the bus."


def test_the_silent_fall_is_told_over_three_lines() -> None:
    assert feed(KernelLines(), *SILENT_FALL) == [("gpu_lost", 79, "0000:18:00.0")]
    assert brief("\n".join(SILENT_FALL)) == ("gpu_lost", "critical", 79, "0000:18:00.0")
    assert feed(KernelLines(), SILENT_FALL[2]) == []
    assert feed(KernelLines(), *SILENT_FALL, step_s=60) == []


def test_one_fall_told_twice_is_one_event_and_two_falls_are_two() -> None:
    assert feed(KernelLines(), XID_79, FALL) == [("xid", 79, "0000:18:00.0")]
    assert feed(KernelLines(), FALL, XID_79) == [("gpu_lost", 79, "0000:18:00.0")]
    assert feed(KernelLines(), XID_79, XID_79) == [("xid", 79, "0000:18:00.0")] * 2
    assert feed(KernelLines(), XID_79, FALL, step_s=60) == [
        ("xid", 79, "0000:18:00.0"),
        ("gpu_lost", 79, "0000:18:00.0"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000009:01:00.0", "0009:01:00.0"),
        ("PCI:0009:01:00", "0009:01:00.0"),
        ("0000:9B:00", "0000:9b:00.0"),
        ("18:00.0", "0000:18:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("PCI:", ""),
        ("GPU-1", ""),
    ],
)
def test_addresses_have_one_spelling(text: str, expected: str) -> None:
    assert pci_address(text) == expected


XID_48 = "NVRM: Xid (PCI:0000:18:00): 48, pid=1, name=a, DBE"
XID_45 = "NVRM: Xid (PCI:0000:18:00): 45, pid=1, name=a, Ch 8"
XID_154 = "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"


def test_an_xid_45_names_what_it_follows_and_alone_names_nothing() -> None:
    lines = KernelLines()
    assert lines.feed(XID_45, 0.0).detail.get("follows") is None  # type: ignore[union-attr]
    lines.feed(XID_48, 1.0)
    assert lines.feed(XID_45, 1.5).detail["follows"] == "48"  # type: ignore[union-attr]
    assert lines.feed(XID_45, 60.0).detail.get("follows") is None  # type: ignore[union-attr]


def test_a_recovery_action_stays_in_force_for_its_gpu() -> None:
    lines = KernelLines()
    lines.feed(XID_154, 0.0)
    assert lines.feed(XID_48, 1.0).detail["recovery_action"] == "RESET_GPU"  # type: ignore[union-attr]
    other = lines.feed(XID_48.replace("18:00", "19:00"), 2.0)
    assert other is not None
    assert "recovery_action" not in other.detail


def test_the_driver_names_a_gpu() -> None:
    lines = KernelLines()
    uuid = "GPU-00000000-0000-4000-8000-000000000001"
    lines.feed(f"NVRM: GPU at PCI:0000:18:00: {uuid}", 0.0)
    assert lines.feed(XID_48, 1.0).detail["gpu"] == uuid  # type: ignore[union-attr]


def test_data_lines_of_a_switch_repeat_its_error_and_alone_are_one() -> None:
    error = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress error (First)"
    data = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Data {0x50610002, 0x10100030}"
    assert len(feed(KernelLines(), error, data, data)) == 1
    assert feed(KernelLines(), data) == [("sxid", 12028, "0000:05:00.0")]


def test_a_real_log_of_a_hung_firmware() -> None:
    path = SHARED / "gpu" / "xid" / "dmesg_xid119_excerpt.log"
    if not path.exists():
        pytest.skip("the gathered kernel log is not beside the project (shared/data/gpu/xid/dmesg_xid119_excerpt.log)")
    lines = KernelLines()
    found = [
        event for i, line in enumerate(path.read_text().splitlines()) if (event := lines.feed(line, i)) is not None
    ]
    assert found.pop(0).detail["gpu"] == "GPU-00000000-0000-4000-8000-000000000001"
    kinds = [(event.kind, event.code) for event in found]
    assert kinds[:4] == [("xid", 119)] * 3 + [("nvrm_rate_limited", None)]
    assert set(kinds[4:]) == {("xid", 119)}
    assert {event.pci for event in found} == {"0000:9b:00.0"}
    assert found[0].detail["process"] == "nvidia-smi"
    assert found[3].detail["every"] == "30"


@pytest.mark.parametrize("filler", ["x", " ", "[", "pid=1, ", "Xid (PCI:", "(", "NVRM: ", "0000:"])
def test_a_line_of_a_megabyte_costs_little(filler: str) -> None:
    line = ("NVRM: Xid (PCI:0009:01:00): 79, pid=7, " + filler * (1 << 20))[: 1 << 20]
    began = time.process_time()
    for text in (line, filler + line, "NVRM: " + (filler * (1 << 20))[: 1 << 20]):
        parse_line(text)
    assert time.process_time() - began < 2  # 16 KiB of one letter took 7 s, and four times as long at twice the length
