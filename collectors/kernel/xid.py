"""XID lines of NVIDIA's driver.

    NVRM: Xid (PCI:0000:9b:00): 119, pid=7, name=python, Timeout after 6s of waiting for RPC response from GPU4 GSP!

Process id and name are optional, and the name is user text; what follows depends on the code.
"""

import re

from collectors.kernel import nvlink5_xid
from collectors.kernel.event import ADDRESS, KernelEvent
from collectors.pci import pci_address
from schemas.event import Severity
from schemas.xid import RECOVERY, RECOVERY_ACTIONS, xid

_XID = re.compile(rf"NVRM: Xid \({ADDRESS}(?: GPU-I:(\d+))?\):\s*(\d+)(?:, ?|$)(.*)", re.DOTALL)
MALFORMED = re.compile(r"NVRM: Xid\b")
"""Begins like an XID line; one that `parse` does not take is damaged, or not from the driver."""

_PROCESS = re.compile(r"pid='?(\d+|<unknown>)'?(?:, name=([^,]*))?(?:, ?|$)")
_RECOVERY = re.compile(r"changed from 0x([0-9a-fA-F]{1,8}) \(([^)]*)\) to 0x([0-9a-fA-F]{1,8})\b(?: \(([^)]*))?")
_LINK = re.compile(r"\b[Ll]ink (\d{1,9})\s*(?:\(((?:0x[0-9a-fA-F]+(?:, ?)?)+))?")
_RPC = re.compile(
    r"Timeout after (\d+)s of waiting for RPC response from GPU(\d+) GSP! Expected function \d+ \((\w+)\)"
)
_SM = re.compile(r"\bGPC ?(\d+)(?:, ?| )TPC ?(\d+)(?:(?:, ?| )SM ?(\d+))?")
_FAULT = re.compile(r"ENGINE (\S+)(?:.*? faulted @ (\S+?)\.)?(?:.*? type (FAULT_\w+))?(?: (ACCESS_TYPE_\w+))?")


def parse(text: str) -> KernelEvent | None:
    """The event of an XID line, wherever in `text` it begins; None for everything else.

    >>> found = parse("NVRM: Xid (PCI:0009:01:00): 79, pid=7, name=python, GPU has fallen off the bus.")
    >>> found.pci, found.severity, found.cause, found.action
    ('0009:01:00.0', 'critical', 'gpu_lost', 'RESTART_BM')
    """
    match = _XID.search(text)
    if match is None or len(match[3]) > 6:
        return None
    address, instance, number, rest = match.groups()
    code, detail = int(number), dict[str, str]()
    process = _PROCESS.match(rest)
    if process is not None:
        rest = rest[process.end() :]
        told = zip(("pid", "process"), process.groups(), strict=True)
        detail = {name: value for name, value in told if value and value != "<unknown>"}
    if instance:
        detail["gpu_instance"] = instance
    facts = xid(code)
    severity, action = facts.severity, facts.action
    if facts.name:
        detail["name"] = facts.name
    if facts.then:
        detail["then"] = facts.then
    if code in nvlink5_xid.CODES:
        if (decoded := nvlink5_xid.decode(code, rest)) is not None:
            severity, action = decoded.severity, decoded.action or action
            detail |= decoded.detail
    elif code == RECOVERY:
        severity, action = _recovery(rest, detail, severity, action)
    else:
        _more(code, rest, detail)
    return KernelEvent("xid", severity, code, pci_address(address), match[0].strip(), detail, facts.cause, action)


def _recovery(rest: str, detail: dict[str, str], severity: Severity, action: str) -> tuple[Severity, str]:
    """The driver's own verdict."""
    match = _RECOVERY.search(rest)
    if match is None:
        return severity, action
    before, before_words, now, now_words = match.groups()
    detail |= {"from": str(int(before, 16)), "from_words": before_words, "recovery": str(int(now, 16))}
    if now_words:
        detail["recovery_words"] = now_words
    action, severity = RECOVERY_ACTIONS.get(int(now, 16), ("CONTACT_SUPPORT", "critical"))
    return severity, action


def _more(code: int, rest: str, detail: dict[str, str]) -> None:
    """What the texts of common codes say of the place."""
    if code == 74 and (link := _LINK.search(rest)) is not None:
        detail["link"] = str(int(link[1]))
        if link[2]:
            detail["registers"] = " ".join(link[2].replace(",", " ").split())
    elif code == 119 and (rpc := _RPC.search(rest)) is not None:
        detail |= {"waited_s": rpc[1], "index": rpc[2], "function": rpc[3]}
    elif code == 31 and (fault := _FAULT.search(rest)) is not None:
        told = zip(("engine", "address", "fault", "access"), fault.groups(), strict=True)
        detail |= {name: value for name, value in told if value}
    elif code == 13 and (place := _SM.search(rest)) is not None:
        detail |= {name: value for name, value in zip(("gpc", "tpc", "sm"), place.groups(), strict=True) if value}
