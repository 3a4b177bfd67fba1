"""NVIDIA's XIDs: how bad each is, and what it is called.

After NVIDIA's catalogue of XID errors (docs.nvidia.com/deploy/xid-errors). `info` is the application's doing or
follows another error, `warning` wants a look, `critical` takes the GPU or its job down. An unknown code is a warning:
new drivers bring new codes.
"""

import re
from typing import NamedTuple

from schemas.event import Severity


class Xid(NamedTuple):
    """Severity and name of one code."""

    severity: Severity
    name: str


XIDS: dict[int, Xid] = {
    8: Xid("warning", "GPU stopped processing"),
    13: Xid("info", "graphics engine exception"),
    31: Xid("info", "GPU memory page fault"),
    32: Xid("warning", "invalid or corrupted push buffer stream"),
    38: Xid("warning", "driver firmware error"),
    39: Xid("warning", "copy engine exception"),
    43: Xid("info", "GPU stopped processing for one process"),
    44: Xid("warning", "graphics engine fault during context switch"),
    45: Xid("info", "preemptive cleanup after another error"),
    46: Xid("critical", "GPU stopped processing"),
    48: Xid("critical", "double bit ECC error"),
    54: Xid("critical", "auxiliary power is not connected"),
    60: Xid("warning", "video processor exception"),
    61: Xid("warning", "internal micro-controller breakpoint"),
    62: Xid("critical", "internal micro-controller halt"),
    63: Xid("warning", "memory row remapping recorded"),
    64: Xid("critical", "memory row remapping failed"),
    65: Xid("warning", "video encoder exception"),
    66: Xid("info", "illegal access by driver"),
    67: Xid("info", "illegal access by driver"),
    68: Xid("warning", "video decoder exception"),
    69: Xid("warning", "graphics engine class error"),
    74: Xid("critical", "NVLink error"),
    78: Xid("warning", "vGPU start error"),
    79: Xid("critical", "GPU has fallen off the bus"),
    80: Xid("warning", "corrupted data sent to GPU"),
    92: Xid("warning", "high single-bit ECC error rate"),
    93: Xid("info", "InfoROM wear limit"),
    94: Xid("critical", "contained memory error"),
    95: Xid("critical", "uncontained memory error"),
    109: Xid("critical", "context switch timeout"),
    110: Xid("critical", "security fault"),
    119: Xid("critical", "GSP RPC timeout"),
    120: Xid("critical", "GSP error"),
    121: Xid("warning", "C2C link error"),
    122: Xid("warning", "InfoROM read failure"),
    123: Xid("warning", "InfoROM write failure"),
    124: Xid("warning", "InfoROM erase failure"),
    125: Xid("warning", "InfoROM file system error"),
    136: Xid("critical", "NVLink training failed"),
    137: Xid("info", "NVLink privilege error"),
    138: Xid("info", "DLA error"),
    139: Xid("warning", "optical flow error"),
    140: Xid("critical", "unrecovered ECC error"),
    141: Xid("info", "CUDA fast path error"),
    142: Xid("warning", "video encoder exception"),
    143: Xid("critical", "GPU initialization error"),
    144: Xid("warning", "NVLink SAW error"),
    145: Xid("warning", "NVLink RLW error"),
    146: Xid("warning", "NVLink TLW error"),
    147: Xid("warning", "NVLink TREX error"),
    148: Xid("warning", "NVLink NVLPW error"),
    149: Xid("warning", "NVLink NETIR error"),
    150: Xid("critical", "NVLink micro-controller error"),
    151: Xid("warning", "key rotation error"),
    152: Xid("info", "DLA SMMU error"),
    153: Xid("info", "DLA timeout"),
    154: Xid("warning", "GPU recovery action changed"),
    155: Xid("critical", "NVLink software-defined error"),
    156: Xid("warning", "resource retirement"),
    157: Xid("critical", "resource retirement failed"),
    158: Xid("critical", "GPU fatal timeout"),
    159: Xid("warning", "CHI non-data error"),
    160: Xid("warning", "memory channel retirement"),
    161: Xid("critical", "memory channel retirement failed"),
    162: Xid("info", "power smoothing engaged again"),
    163: Xid("warning", "power smoothing disengaged"),
    164: Xid("info", "power smoothing near its lifetime"),
    165: Xid("warning", "power smoothing at its lifetime's end"),
    166: Xid("critical", "NVLink traffic before encryption was set up"),
    167: Xid("critical", "PCIe fatal timeout"),
    168: Xid("critical", "reduced GPU memory capacity"),
    169: Xid("critical", "SEC2 micro-controller halt"),
    170: Xid("warning", "NVLink interrupt in confidential mode"),
    171: Xid("critical", "uncorrectable DRAM error"),
    172: Xid("critical", "uncorrectable SRAM error"),
}

NVLINK5 = range(144, 151)
"""Codes whose line says Fatal or Nonfatal itself: only that word decides."""

RECOVERY_ACTION = 154

_ACTION = re.compile(r"changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x([0-9a-fA-F]+)")
_ACTION_SEVERITY: dict[int, Severity] = {0: "info", 3: "warning"}
"""None is the all-clear; draining peer-to-peer leaves the GPU at work; all others want a reset or a reboot."""


def severity(code: int, text: str = "") -> Severity:
    """How bad this XID is, with what its line says.

    >>> severity(79), severity(4711), severity(149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 01")
    ('critical', 'warning', 'warning')
    """
    if code in NVLINK5:
        word = re.search(r"\b(Non-?)?[Ff]atal\b", text)
        return "critical" if word is not None and not word[1] else "warning"
    if code == RECOVERY_ACTION and (action := _ACTION.search(text)) is not None:
        return _ACTION_SEVERITY.get(int(action[1], 16), "critical")
    known = XIDS.get(code)
    return known.severity if known is not None else "warning"


def name(code: int) -> str:
    """What the code is called; "" where this table does not know it."""
    return XIDS[code].name if code in XIDS else ""
