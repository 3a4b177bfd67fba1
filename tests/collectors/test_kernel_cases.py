"""Kernel lines with the verdict of other tools' own tests, where they are at hand (shared/data/kernel_log)."""

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.kernel.log import KernelEvent, KernelLines, malformed
from collectors.pci import pci_address

CASES = Path(__file__).parents[2] / ".." / "shared" / "data" / "kernel_log" / "cases.jsonl"

ACTIONS = {"COMPONENT_RESET": "RESET_GPU", "CONTACT_SUPPORT": "CONTACT_SUPPORT"}
"""The other tool's names of actions, where it names one."""

NO_LINE = ("PCI:", "Regular log content", "Some ", "some other", "Linux version")
"""Beginnings of what is a helper's input or another program's line, and tells no event."""


def rows() -> list[dict[str, Any]]:
    if not CASES.exists():
        pytest.skip("the gathered kernel log lines are not beside the project (shared/data/kernel_log/cases.jsonl)")
    return [json.loads(line) for line in CASES.read_text().splitlines()]


def told(line: str) -> KernelEvent | None:
    lines = KernelLines(falls_twice=True)
    events = [lines.feed(part, 0.0) for part in line.split("\n")]
    return next((event for event in reversed(events) if event is not None), None)


def why_no_event(line: str) -> str:
    """The reason why a row tells no event; "" where none is known."""
    if reason := malformed(line):
        return reason
    if not line.strip():
        return "empty"
    text = line.partition("] ")[2] or line
    if line.startswith(NO_LINE) or text.startswith(NO_LINE):
        return "no line of a kernel about hardware"
    return "a message that is no fault by itself"


def check(row: dict[str, Any]) -> str:
    """What is wrong with our answer to a row; "" for nothing."""
    expect, found = row["expect"], told(row["line"])
    device = expect.get("expectedDevice", expect.get("expectedDeviceUUID", expect.get("expectedPCIAddr", "")))
    device = device or (expect.get("expected", "") if row["test"].endswith("DeviceUUID") else "")
    if device and (found is None or found.pci != pci_address(str(device))):
        return "device"
    codes = [expect[name] for name in ("expectedXid", "expectedSXid", "expectedXIDCode") if name in expect]
    codes += [expect["expected"]] if isinstance(expect.get("expected"), int) else []
    for code in codes:
        if (found.code if found is not None else 0) != code:
            return "code"
    if found is None:
        wanted = expect.get("want") is True or expect.get("expectNil") is False or expect.get("expectedSuccess")
        return "missed" if wanted or expect.get("expectEvent") or "wantPattern" in expect else ""
    if "expectedSubCode" in expect:
        if int(found.detail["sub_code"]) != expect["expectedSubCode"]:
            return "sub-code"
        if int(found.detail["link"]) != expect["expectedLink"]:
            return "link"
        if int(found.detail["intrinfo"], 16) != expect["expectedIntrinfo"]:
            return "first word"
        if int(found.detail["error_status"], 16) != expect["expectedErrorStatus"]:
            return "status"
        if found.detail["unit"] != expect["expectedSubCodeName"]:
            return "unit"
    action = str(expect.get("expectedAction", "")).rpartition("_")[2] and str(expect.get("expectedAction", ""))
    for name, ours in ACTIONS.items():
        if action.endswith(name) and found.action != ours:
            return "action"
    fatal = expect.get("event_type", expect.get("expectedSeverity"))
    if fatal is not None and (found.severity == "critical") != (fatal in ("EventTypeFatal", "Fatal")):
        return "severity"
    return "severity" if expect.get("wantFatal") and found.severity != "critical" else ""


def test_other_tools_cases() -> None:
    wrong = [(check(row), row["line"]) for row in rows() if check(row)]
    assert wrong == []


def test_every_row_that_tells_no_event_has_a_reason() -> None:
    """The list: which rows are no log lines, and why."""
    reasons = {row["line"]: why_no_event(row["line"]) for row in rows() if told(row["line"]) is None}
    assert all(reasons.values())
    assert reasons["PCI:0000:29:00"] == "no line of a kernel about hardware"
    assert sum(reason.startswith("malformed") for reason in reasons.values()) >= 5
