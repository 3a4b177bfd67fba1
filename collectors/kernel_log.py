"""What a line of the kernel log says of GPUs, switches, the bus and memory.

Pure: text in, values out; for the live log (`collectors.kmsg`) and for files that `analyze` reads. Lines hold user
text (process names), so everything is matched from the left, never by a search for digits.
"""

import re
from typing import NamedTuple

from collectors import xid
from collectors.pci import pci_address
from schemas.event import Severity


class KernelEvent(NamedTuple):
    """One event told by a line. `kind` as in schemas.event, `code` the XID or SXID, `text` the message itself."""

    kind: str
    severity: Severity
    code: int | None
    pci: str
    text: str
    detail: dict[str, str]


_ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{1,8}(?::[0-9a-fA-F]{1,2}){1,2}(?:\.[0-7])?)"

_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}(?: GPU-I:(\d+))?\): (\d+)(?:, ?|$)(.*)", re.DOTALL)
_PROCESS = re.compile(r"pid='?(\d+|<unknown>)'?(?:, name=([^,]*))?(?:, ?|$)")
_NVLINK5 = re.compile(r"(\S+)\s+(Fatal|Nonfatal|Non-fatal)\s+(XC\d)\s+i(\d+)\s+Link\s+(-?\d+)(?:\s+\(([0-9a-fx ]+))?")
_SXID = re.compile(rf"nvidia-nvswitch(\d+): SXid \({_ADDRESS}\): (\d+), (.*)", re.DOTALL)
_SXID_DATA = "Data {"
_FALLEN = re.compile(rf"NVRM: GPU (?:at )?{_ADDRESS}: GPU has fallen off the bus")
_FALLEN_SILENT = re.compile(
    rf"NVRM: The NVIDIA GPU {_ADDRESS}\s.*NVRM: fallen off the bus and is not responding", re.DOTALL
)
_RATE = re.compile(rf"NVRM: Rate limiting (.*?) for GPU at {_ADDRESS} \(printing 1 of every (\d+)\)")
_AER = re.compile(
    rf"(?:^|\s){_ADDRESS}: (?:PCIe Bus Error: severity=|AER: (?:Multiple )?)"
    rf"(Corrected|Uncorrected \((?:Non-)?Fatal\))(?:, type=([^,]+)| error (?:message )?received: {_ADDRESS})"
)
_OOM = re.compile(
    r"(Memory cgroup out of memory: |Out of memory(?: \(oom_kill_allocating_task\))?: |^)"
    r"Killed process (\d+) \((.*?)\)[ ,]"
)

_AER_SEVERITY: dict[str, Severity] = {
    "Corrected": "info",
    "Uncorrected (Non-Fatal)": "warning",
    "Uncorrected (Fatal)": "critical",
}


def parse_line(text: str) -> KernelEvent | None:
    """The event in one message (a dmesg or syslog prefix does not disturb); None for everything else.

    >>> parse_line("NVRM: Xid (PCI:0009:01:00): 79, pid=7, name=python, GPU has fallen off the bus.").pci
    '0009:01:00.0'
    """
    for parse in _PARSERS:
        found = parse(text)
        if found is not None:
            return found
    return None


def _xid(text: str) -> KernelEvent | None:
    match = _XID.search(text)
    if match is None:
        return None
    address, instance, number, rest = match.groups()
    code, detail = int(number), {}
    process = _PROCESS.match(rest)
    if process is not None:
        rest = rest[process.end() :]
        detail = {k: v for k, v in zip(("pid", "process"), process.groups(), strict=True) if v and v != "<unknown>"}
    if instance:
        detail["gpu_instance"] = instance
    if code in xid.NVLINK5 and (nvlink := _NVLINK5.match(rest)) is not None:
        unit, word, _, _, link, words = nvlink.groups()
        detail |= {"unit": unit, "word": word.replace("-", "").lower(), "link": str(int(link))}
        if words:
            detail |= dict(zip(("intrinfo", "error_status"), words.split(), strict=False))
    if name := xid.name(code):
        detail["name"] = name
    return KernelEvent("xid", xid.severity(code, rest), code, pci_address(address), match[0].strip(), detail)


def _sxid(text: str) -> KernelEvent | None:
    match = _SXID.search(text)
    if match is None or match[4].startswith(_SXID_DATA):
        return None  # the line with the data repeats the number of the line before
    switch, address, number, rest = match.groups()
    fatal = rest.startswith("Fatal")
    detail = {"switch": switch, "word": "fatal" if fatal else "nonfatal"}
    if (link := re.search(r", Link (\d+)", rest)) is not None:
        detail["link"] = link[1]
    severity: Severity = "critical" if fatal else "warning"
    return KernelEvent("sxid", severity, int(number), pci_address(address), match[0].strip(), detail)


def _fallen(text: str) -> KernelEvent | None:
    match = _FALLEN.search(text) or _FALLEN_SILENT.search(text)
    return None if match is None else fallen(match[1], match[0])


def fallen(address: str, text: str) -> KernelEvent:
    """A GPU off its bus, told without an XID: it counts as XID 79."""
    return KernelEvent("gpu_lost", "critical", 79, pci_address(address), " ".join(text.split()), {})


def _rate(text: str) -> KernelEvent | None:
    match = _RATE.search(text)
    if match is None:
        return None
    what, address, every = match.groups()
    detail = {"what": what, "every": every}
    return KernelEvent("nvrm_rate_limited", "warning", None, pci_address(address), match[0], detail)


def _aer(text: str) -> KernelEvent | None:
    match = _AER.search(text)
    if match is None:
        return None
    port, word, kind, received = match.groups()
    detail = {"word": word.lower()} | ({"type": kind} if kind else {"port": pci_address(port)})
    pci = pci_address(received or port)
    return KernelEvent("pcie_aer", _AER_SEVERITY[word], None, pci, text[match.start() :].strip(), detail)


def _oom(text: str) -> KernelEvent | None:
    match = _OOM.search(text)
    if match is None:
        return None
    scope = "cgroup" if match[1].startswith("Memory cgroup") else "machine"
    detail = {"pid": match[2], "process": match[3], "scope": scope}
    return KernelEvent("oom_kill", "warning", None, "", text[match.start() :].strip(), detail)


_PARSERS = (_xid, _sxid, _fallen, _rate, _aer, _oom)

_SILENT_BEGIN = re.compile(rf"NVRM: The NVIDIA GPU {_ADDRESS}\s*$")
_SILENT_END = "NVRM: fallen off the bus and is not responding"

TOGETHER_S = 10.0
"""Lines of one GPU's fall come within a second; ten allow for a slow console."""


class KernelLines:
    """Lines in order, for what one line alone does not say.

    The silent form of a GPU's fall is spread over three lines; and a fall told with and without an XID is one event.
    """

    def __init__(self) -> None:
        self._begun: tuple[str, float] | None = None
        self._fallen: dict[str, tuple[str, float]] = {}

    def feed(self, text: str, at_s: float) -> KernelEvent | None:
        """The event that this line completes; `at_s` is any clock that rises with the log."""
        found = parse_line(text)
        if found is None:
            if (begin := _SILENT_BEGIN.search(text)) is not None:
                self._begun = (begin[1], at_s)
            elif _SILENT_END in text and self._begun is not None and at_s - self._begun[1] <= TOGETHER_S:
                found = fallen(self._begun[0], f"GPU {self._begun[0]} has fallen off the bus and is not responding")
                self._begun = None
        if found is not None and found.code == 79 and found.kind in ("xid", "gpu_lost"):
            kind, before_s = self._fallen.get(found.pci, ("", float("-inf")))
            if found.kind != kind and 0 <= at_s - before_s <= TOGETHER_S:
                return None
            self._fallen[found.pci] = (found.kind, at_s)
        return found
