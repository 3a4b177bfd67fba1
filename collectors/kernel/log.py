"""What a line of the kernel log says of GPUs, switches, the bus, adapters, memory and processes.

Pure: text in, values out; for the live log (`collectors.kernel.kmsg`) and for files that `analyze` reads. Lines hold
user text (process names), so everything is matched from the left, never by a search for digits.
"""

import re

from collectors.kernel import gpu_lines, host_lines, nic_lines, pcie_lines, sxid, xid
from collectors.kernel.event import KernelEvent

__all__ = ["KernelEvent", "KernelLines", "malformed", "parse_line"]

_PARSERS = (xid.parse, sxid.parse, gpu_lines.parse, pcie_lines.parse, nic_lines.parse, host_lines.parse)

INTERESTING = re.compile(
    r"NVRM|nvswitch|NVSwitch|PCIe|AER|DPC|pciehp|mlx5|WATCHDOG|Port module|ink |process|segfault|peermem|blocked"
    r"|lockup|mce:|EDAC|cqe|dev |nvme|nfs:|throttled|uppressed|Missed|overrun|ACCESS_REG|Will cause a leak"
)
"""One quick look: lines without any of these words tell no event."""


LONGEST = 2048
"""Letters of a line that are looked at: the kernel writes at most 1024, and syslog a prefix."""


def parse_line(text: str) -> KernelEvent | None:
    """The event in one message (a dmesg or syslog prefix does not disturb); None for everything else.

    >>> parse_line("NVRM: Xid (PCI:0009:01:00): 79, pid=7, name=python, GPU has fallen off the bus.").pci
    '0009:01:00.0'
    """
    text = text[:LONGEST]
    if INTERESTING.search(text) is None:
        return None
    for parse in _PARSERS:
        found = parse(text)
        if found is not None:
            return found
    return None


def malformed(text: str) -> str:
    """Why a line that begins like an XID or SXID is none: "malformed_xid", "malformed_sxid"; "" for any other line."""
    text = text[:LONGEST]
    if xid.MALFORMED.search(text) is not None and xid.parse(text) is None:
        return "malformed_xid"
    if sxid.MALFORMED.search(text) is not None and sxid.parse(text) is None:
        return "malformed_sxid"
    return ""


TOGETHER_S = 10.0
"""Lines of one fault come within a second; ten allow for a slow console."""


class KernelLines:
    """Lines in order, for what one line alone does not say.

    The silent form of a GPU's fall is spread over three lines; a fall told with and without an XID is one event; the
    data of an SXID repeats it; an XID 45 follows another one; an XID 154 stays in force; the driver names a GPU's UUID.
    """

    def __init__(self, falls_twice: bool = False) -> None:
        """`falls_twice`: tell a fall with an XID also where it was told without one before (a reader of whole files
        leaves out the earlier one; live, the first word counts)."""
        self._falls_twice = falls_twice
        self._begun: tuple[str, float, str] | None = None
        self._fallen: dict[str, tuple[str, float]] = {}
        self._switch: dict[tuple[str, int | None], float] = {}
        self._before: dict[str, tuple[int, float]] = {}
        self._recovery: dict[str, str] = {}
        self._uuids: dict[str, str] = {}

    def feed(self, text: str, at_s: float) -> KernelEvent | None:
        """The event that this line completes; `at_s` is any clock that rises with the log."""
        found = parse_line(text)
        if found is None:
            found = self._other(text, at_s)
        if found is None or self._repeats(found, at_s):
            return None
        return self._with_past(found, at_s)

    def _other(self, text: str, at_s: float) -> KernelEvent | None:
        """Lines that mean something only together with others."""
        if "NVRM" not in text:
            return None
        if (begin := gpu_lines.SILENT_BEGIN.search(text)) is not None:
            self._begun = (begin[1], at_s, "")
        elif self._begun is not None and (card := gpu_lines.PCI_ID.search(text)) is not None:
            self._begun = (*self._begun[:2], card[1])
        elif gpu_lines.SILENT_END in text and self._begun is not None and at_s - self._begun[1] <= TOGETHER_S:
            (address, _, pci_id), self._begun = self._begun, None
            return gpu_lines.fallen(address, f"GPU {address} has fallen off the bus and is not responding", pci_id)
        return None

    def _repeats(self, found: KernelEvent, at_s: float) -> bool:
        """Whether another line has told this already."""
        if found.code == 79 and found.kind in ("xid", "gpu_lost"):
            kind, before_s = self._fallen.get(found.pci, ("", float("-inf")))
            twice = self._falls_twice and found.kind == "xid"
            if found.kind != kind and not twice and 0 <= at_s - before_s <= TOGETHER_S:
                return True
            self._fallen[found.pci] = (found.kind, at_s)
        elif found.kind == "sxid":
            key = (found.pci, found.code)
            before_s = self._switch.get(key, float("-inf"))
            self._switch[key] = at_s
            return "data" in found.detail and 0 <= at_s - before_s <= TOGETHER_S
        return False

    def _with_past(self, found: KernelEvent, at_s: float) -> KernelEvent:
        more: dict[str, str] = {}
        if found.kind == gpu_lines.NAMED:
            self._uuids[found.pci] = found.detail["gpu"]
        if found.kind == "xid" and found.code is not None:
            code, before_s = self._before.get(found.pci, (0, float("-inf")))
            if found.code == 45 and code and 0 <= at_s - before_s <= TOGETHER_S:
                more["follows"] = str(code)
            elif found.code == 154 and "recovery" in found.detail:
                self._recovery[found.pci] = found.action
            elif found.code not in (45, 154):
                self._before[found.pci] = (found.code, at_s)
            if found.code != 154 and self._recovery.get(found.pci, "IGNORE") != "IGNORE":
                more["recovery_action"] = self._recovery[found.pci]
        if found.pci and found.pci in self._uuids:
            more["gpu"] = self._uuids[found.pci]
        return found._replace(detail=found.detail | more) if more else found
