"""Errors of NVSwitches: SXID lines of the kernel log, and the fabric manager's own log.

    nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)
    [Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id
        00000000:c6:00.0 physical id 2 port 33

A fault's line is followed by lines with the same number and "Data {...}", which say nothing new.
"""

import re

from collectors.kernel.event import ADDRESS, KernelEvent
from collectors.pci import pci_address
from schemas.sxid import SXIDS, UNKNOWN, sxid_severity

_SXID = re.compile(rf"nvidia-nvswitch(\d+): SXid \({ADDRESS}\): (\d+)(?:, ?|$)(.*)", re.DOTALL)
MALFORMED = re.compile(r"nvidia-nvswitch\d+: SXid\b")
DATA = "Data {"
_WORD = re.compile(r"(Fatal|Non-?fatal)\b", re.IGNORECASE)
_LINK = re.compile(r"\bLink (\d+)")
_MANAGER = re.compile(
    r"detected NVSwitch (fatal|non-fatal) error (\d{1,7})\b(?:.*?pci bus id "
    rf"{ADDRESS})?(?:.*?physical id (\d+))?(?:.*?port (\d+))?"
)
_MISMATCH = re.compile(r"detected number of NVSwitches don't match with any supported system topology")


def parse(text: str) -> KernelEvent | None:
    """The event of an SXID line, or of a switch error in the fabric manager's log; None for everything else.

    >>> parse("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up").detail["link"]
    '30'
    """
    match = _SXID.search(text)
    if match is not None and len(match[3]) < 8:
        switch, address, number, rest = match.groups()
        word = _WORD.match(rest)
        fatal = None if word is None else word[1].lower() == "fatal"
        detail = {"switch": switch}
        if rest.startswith(DATA):
            detail["data"] = "yes"
        if (link := _LINK.search(rest)) is not None:
            detail["link"] = link[1]
        return _event(int(number), fatal, pci_address(address), match[0].strip(), detail)
    if (match := _MANAGER.search(text)) is not None:
        word_, number, address, switch, port = match.groups()
        told = {"source": "fabric manager"}
        told |= {name: value for name, value in (("switch", switch), ("link", port)) if value is not None}
        return _event(int(number), word_ == "fatal", pci_address(address or ""), match[0], told)
    if (match := _MISMATCH.search(text)) is not None:
        detail = {"source": "fabric manager"}
        return KernelEvent("nvswitch_missing", "critical", None, "", match[0], detail, "nvlink_fault", "RESTART_BM")
    return None


def _event(code: int, fatal: bool | None, pci: str, text: str, detail: dict[str, str]) -> KernelEvent:
    known = SXIDS.get(code, UNKNOWN)
    if fatal is not None:
        detail["word"] = "fatal" if fatal else "nonfatal"
    detail |= {"class": known.kind} | ({"name": known.name} if known.name else {})
    return KernelEvent("sxid", sxid_severity(code, fatal), code, pci, text, detail, "nvlink_fault", known.action)
