"""What NVIDIA's driver says of a GPU without an XID: lost, not initialised, its name, fewer lines than it has."""

import re

from collectors.kernel.event import ADDRESS, KernelEvent
from collectors.pci import pci_address

_FALLEN = re.compile(rf"NVRM: GPU (?:at )?{ADDRESS}: GPU has fallen off the bus")
_FALLEN_SILENT = re.compile(
    rf"NVRM: The NVIDIA GPU {ADDRESS}\s(.*)NVRM: fallen off the bus and is not responding", re.DOTALL
)
PCI_ID = re.compile(r"\(PCI ID: ([0-9a-fA-F]{4}:[0-9a-fA-F]{4})\)")
SILENT_BEGIN = re.compile(rf"NVRM: The NVIDIA GPU {ADDRESS}\s*$")
SILENT_END = "NVRM: fallen off the bus and is not responding"
"""The first and last of the three lines in which the driver tells that a GPU does not answer at all."""

NAMED = "gpu_named"

_RATE = re.compile(rf"NVRM: Rate limiting (.*?) for GPU at {ADDRESS} \(printing 1 of every (\d+)\)")
_INIT = re.compile(rf"NVRM: GPU {ADDRESS}: (RmInitAdapter failed!.*)")
_NAMED = re.compile(rf"NVRM: GPU at {ADDRESS}: (GPU-[0-9a-fA-F-]+)")
"""Which UUID is at an address; the driver says so before the first XID of a GPU."""


def parse(text: str) -> KernelEvent | None:
    """The event of such a line; None for everything else.

    >>> parse("NVRM: GPU 18:00.0: GPU has fallen off the bus.").pci
    '0000:18:00.0'
    """
    if (match := _FALLEN.search(text)) is not None:
        return fallen(match[1], match[0])
    if (match := _FALLEN_SILENT.search(text)) is not None:
        pci_id = PCI_ID.search(match[2])
        return fallen(match[1], match[0], "" if pci_id is None else pci_id[1])
    if (match := _INIT.search(text)) is not None:
        pci = pci_address(match[1])
        return KernelEvent("gpu_init_failed", "critical", None, pci, match[0], {}, "gpu_lost", "RESET_GPU")
    if (match := _NAMED.search(text)) is not None:
        pci, detail = pci_address(match[1]), {"gpu": match[2]}
        return KernelEvent(NAMED, "info", None, pci, match[0], detail, action="IGNORE")
    if (match := _RATE.search(text)) is not None:
        what, address, every = match.groups()
        detail = {"what": what, "every": every}
        return KernelEvent("nvrm_rate_limited", "warning", None, pci_address(address), match[0], detail)
    return None


def fallen(address: str, text: str, pci_id: str = "") -> KernelEvent:
    """A GPU off its bus, told without an XID: it counts as XID 79."""
    pci, detail = pci_address(address), {"pci_id": pci_id.lower()} if pci_id else {}
    return KernelEvent("gpu_lost", "critical", 79, pci, " ".join(text.split()), detail, "gpu_lost", "RESTART_BM")
