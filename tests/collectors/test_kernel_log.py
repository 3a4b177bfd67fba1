"""Lines of the kernel log and the events they tell."""

import json
from pathlib import Path

import pytest

from collectors.kernel_log import KernelLines, parse_line
from collectors.pci import pci_address
from collectors.xid import XIDS, severity

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
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", ("xid", "warning", 14, "0000:03:00.0")),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:03): 43, pid=9, name=a, Ch 8", ("xid", "info", 43, "0000:41:00.0")),
        ("NVRM: Xid (PCI:0000:66:00): 999, pid=1234, name=test", ("xid", "warning", 999, "0000:66:00.0")),
        ("NVRM: Xid (PCI:0000:66:00): 48", ("xid", "critical", 48, "0000:66:00.0")),
        ("NVRM: Xid (invalid): some error", None),
        ("NVRM: Xid : 32, pid=2280636", None),
        ("NVRM: Xid error: xyz, invalid data", None),
        ("NVRM: GPU 18:00.0: GPU has fallen off the bus.", ("gpu_lost", "critical", 79, "0000:18:00.0")),
        ("NVRM: GPU at PCI:0000:9b:00: GPU-00000000-0000-4000-8000-000000000001", None),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            ("sxid", "critical", 20034, "0000:00:00.0"),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            ("sxid", "warning", 12028, "0000:05:00.0"),
        ),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Data {0x50610002, 0x10100030}", None),
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
        "unit": "RLW_RXPIPE",
        "word": "nonfatal",
        "link": "13",
        "intrinfo": "0x0409a0c2",
        "error_status": "0x00000008",
        "name": "NVLink RLW error",
    }


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
        ("GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)", "info"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "warning"),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "critical"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "critical"),
        ("cut sh", "warning"),
    ],
)
def test_a_recovery_action_is_as_bad_as_the_new_one(text: str, expected: str) -> None:
    assert severity(154, text) == expected


def test_an_nvlink5_code_without_its_word_is_a_warning() -> None:
    assert severity(145, "something new") == "warning"
    assert severity(145, "NETIR Non-fatal XC0") == "warning"


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


def cases(test: str) -> list[tuple[str, dict[str, object]]]:
    path = SHARED / "kernel_log" / "cases.jsonl"
    if not path.exists():
        pytest.skip("the gathered kernel log lines are not beside the project (shared/data/kernel_log/cases.jsonl)")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found = [(row["line"], row["expect"]) for row in rows if row["test"] == test]
    assert found
    return found


def test_other_tools_codes() -> None:
    for line, expect in cases("TestExtractNVRMXid"):
        found = parse_line(line)
        assert (0 if found is None else found.code) == expect["expected"], line


def test_other_tools_devices() -> None:
    for test in ("TestExtractNVRMXidDeviceUUID", "TestMatch"):
        for line, expect in cases(test):
            device = str(expect.get("expected", expect.get("expectedDevice", "")))
            found = parse_line(line)
            assert (found.pci if found else "") == pci_address(device), line
            if found and expect.get("expectedXid"):
                assert found.code == expect["expectedXid"], line


def test_other_tools_nvlink5_decoding() -> None:
    for line, expect in cases("TestExtractNVRMXidInfoExtended"):
        found = parse_line(line)
        assert found is not None
        detail = found.detail
        assert (found.code, found.pci) == (expect["expectedXid"], pci_address(str(expect["expectedDeviceUUID"])))
        assert detail["unit"] == expect["expectedSubCodeName"]
        assert detail["word"] == str(expect["expectedSeverity"]).lower()
        assert int(detail["link"]) == expect["expectedLink"]
        assert int(detail["intrinfo"], 16) == expect["expectedIntrinfo"]
        assert int(detail["error_status"], 16) == expect["expectedErrorStatus"]
        assert (int(detail["intrinfo"], 16) >> 20) & 0x3F == expect["expectedSubCode"]


def test_other_tools_nvlink5_severities() -> None:
    for line, expect in cases("Test_NVLinkLogCoverage"):
        found = parse_line(line)
        assert found is not None
        assert (found.severity == "critical") == (expect["event_type"] == "EventTypeFatal"), line


def test_other_tools_parses() -> None:
    for line, expect in cases("TestCSVParser_Parse"):
        found = parse_line(line)
        assert (found is not None) == expect["expectedSuccess"], line
        if found is not None:
            assert (found.code, found.pci) == (expect["expectedXIDCode"], pci_address(str(expect["expectedPCIAddr"])))


def test_a_real_log_of_a_hung_firmware() -> None:
    path = SHARED / "gpu" / "xid" / "dmesg_xid119_excerpt.log"
    if not path.exists():
        pytest.skip("the gathered kernel log is not beside the project (shared/data/gpu/xid/dmesg_xid119_excerpt.log)")
    lines = KernelLines()
    found = [
        event for i, line in enumerate(path.read_text().splitlines()) if (event := lines.feed(line, i)) is not None
    ]
    kinds = [(event.kind, event.code) for event in found]
    assert kinds[:4] == [("xid", 119)] * 3 + [("nvrm_rate_limited", None)]
    assert set(kinds[4:]) == {("xid", 119)}
    assert {event.pci for event in found} == {"0000:9b:00.0"}
    assert found[0].detail["process"] == "nvidia-smi"
    assert found[3].detail["every"] == "30"


def test_every_code_of_the_catalogue_in_use_is_known() -> None:
    path = SHARED / "gpu" / "xid" / "xid_catalog.json"
    if not path.exists():
        pytest.skip("NVIDIA's catalogue is not beside the project (shared/data/gpu/xid/xid_catalog.json)")
    catalogue = json.loads(path.read_text())["cat"]
    resets = {int(code) for code, entry in catalogue.items() if entry[2] in ("RESET_GPU", "RESTART_BM")}
    assert resets <= XIDS.keys()
