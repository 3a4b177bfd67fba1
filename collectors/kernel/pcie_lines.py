"""PCI Express errors: advanced error reporting (AER), containment (DPC), and slots that lose their card.

pcieport 0000:00:03.1: AER: Multiple Corrected error message received from 0000:01:00.0
nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
"""

import re

from collectors.kernel.event import ADDRESS, KernelEvent
from collectors.pci import pci_address
from schemas.event import Severity

_WORD = r"(Corrected|Correctable|Uncorrected \((?:Non-)?Fatal\)|Uncorrectable \((?:Non-)?Fatal\)|(?:Non-)?Fatal)"
_SEVERITY = re.compile(
    rf"(?:^|\s)(?:(\w[\w-]*) )?{ADDRESS}: (?:AER: )?PCIe Bus Error: severity={_WORD}(?:, type=([^,]+))?"
)
_RECEIVED = re.compile(
    rf"(?:^|\s){ADDRESS}: AER: (?:Multiple )?{_WORD} error (?:message )?received(?: from)?:? {ADDRESS}"
)
_CONTAINED = re.compile(rf"(?:^|\s){ADDRESS}: DPC: containment event(?:, status:(0x[0-9a-fA-F]+))?")
_SLOT = re.compile(rf"(?:^|\s){ADDRESS}: pciehp: Slot\(([^)]*)\): (Link Down|Card not present)")


def parse(text: str) -> KernelEvent | None:
    """The event of such a line; None for everything else.

    >>> parse("nvidia 0000:01:00.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer").detail["driver"]
    'nvidia'
    """
    if (match := _SEVERITY.search(text)) is not None:
        driver, address, word, layer = match.groups()
        told = (("driver", driver), ("type", layer))
        detail = {"word": word.lower()} | {name: value for name, value in told if value}
        return _aer(_severity(word), address, text[match.start() :].strip(), detail)
    if (match := _RECEIVED.search(text)) is not None:
        port, word, address = match.groups()
        detail = {"word": word.lower(), "port": pci_address(port)}
        return _aer(_severity(word), address, text[match.start() :].strip(), detail)
    if (match := _CONTAINED.search(text)) is not None:
        detail = {"word": "contained"} | ({"status": match[2]} if match[2] else {})
        return _aer("critical", match[1], text[match.start() :].strip(), detail)
    if (match := _SLOT.search(text)) is not None:
        detail = {"slot": match[2], "word": match[3].lower()}
        pci, said = pci_address(match[1]), text[match.start() :].strip()
        return KernelEvent("pcie_link_down", "critical", None, pci, said, detail, "pcie_degraded", "CHECK_MECHANICALS")
    return None


def _severity(word: str) -> Severity:
    if word.startswith("Correct"):
        return "info"
    return "warning" if "Non-Fatal" in word or word.startswith("Non") else "critical"


def _aer(severity: Severity, address: str, text: str, detail: dict[str, str]) -> KernelEvent:
    action = "IGNORE" if severity == "info" else "CHECK_MECHANICALS"
    return KernelEvent("pcie_aer", severity, None, pci_address(address), text, detail, "pcie_degraded", action)
