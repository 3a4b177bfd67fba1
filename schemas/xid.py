"""NVIDIA's XIDs: what each code means, how bad it is, its likely cause and what to do.

Codes and the two actions after NVIDIA's catalogue of XID errors (docs.nvidia.com/deploy/xid-errors, as of 2025-10-29);
names, causes and severities are ours. Severity follows the action: what wants a reset, a reboot or a screwdriver is
`critical`, what may be ignored never is, what only ends an application is a `warning`, or `info` where the
application's own code is the usual reason. Contained memory errors (94) end a job by a hardware fault and are critical
although a restart of the job is all they ask. For 162 to 172 the catalogue names no action; there the action is ours.
"""

from collections.abc import Mapping
from typing import NamedTuple

from schemas.causes import Cause
from schemas.event import Severity

ACTIONS: dict[str, str] = {
    "IGNORE": "nothing to do",
    "RESTART_APP": "restart the application",
    "RESTART_VM": "restart the virtual machine",
    "RESET_GPU": "reset the GPU",
    "RESTART_BM": "reboot the machine",
    "RESTART_FM": "restart the fabric manager",
    "RESET_FABRIC": "reset all GPUs and NVSwitches of the machine",
    "DRAIN_P2P": "take peer-to-peer traffic off the GPU",
    "DRAIN_AND_RESET": "drain the GPU, then reset it",
    "RECOVER_IMEX_DOMAIN": "recover the IMEX domain",
    "RESET_BUS": "reset the GPU's bus",
    "CHECK_MECHANICALS": "check power cables and seating",
    "CHECK_COOLING": "check the cooling",
    "CHECK_CABLE": "check cable and transceiver",
    "CHECK_APP/CUDA": "check the application and its CUDA version",
    "CHECK_UVM": "check the use of unified memory",
    "UPDATE_SWFW": "update driver and firmware",
    "INVESTIGATE_SW": "look into driver and software",
    "INVESTIGATE_SW_USER": "look into software and what was done by hand",
    "INVESTIGATE_SW_USER_LINK_SI": "look into what was done by hand and into the link's signal",
    "INVESTIGATE_LINK_SI": "look into the link's signal",
    "INVESTIGATE_LINK_SI_AND_CABLES": "look into the link's signal and cables",
    "INVESTIGATE_PEER_DEVICE": "look into the device at the link's other end",
    "INVESTIGATE_HOST": "look into the host",
    "CHECK_NVLINK_FAILURE_FLOW": "look for the link failure that led to this",
    "REPORT_ISSUE": "report it if it comes more than once a day",
    "SYMPATHETIC_REPORT_SOLO": "follow the error it came with; report it if it came alone",
    "WORKFLOW_XID_13": "restart the application; if other applications fail on this GPU too, test it",
    "WORKFLOW_XID_31": "restart the application; if other applications fail on this GPU too, test it",
    "WORKFLOW_XID_45": "follow the error before it; if it came alone, restart the fabric manager",
    "WORKFLOW_XID_48": "drain the GPU and reset it; replace it if its rows cannot be remapped",
    "WORKFLOW_NVLINK_ERR": "drain the machine, reset the GPU, and test the link",
    "WORKFLOW_NVLINK5_ERR": "do as the decoded unit and status say",
    "XID_137_FLOW": "look for a fault of the application that runs on the peer GPU",
    "XID_154": "do as the new recovery action says",
    "XID_154_EVAL": "do as an XID 154 of this GPU says, else nothing",
    "CONTACT_SUPPORT": "contact the vendor",
    "FIND_PROCESS": "find the process that takes the memory",
    "": "no action is known",
}
"""Every action that an event may name, in words. Upper-case names are NVIDIA's where NVIDIA has one."""


class Xid(NamedTuple):
    """One code: `action` at once, and `then` where that does not help or it comes again."""

    severity: Severity
    cause: Cause
    action: str
    then: str
    name: str


UNUSED_NAME = "not used by present drivers"


def _unused(action: str = "CONTACT_SUPPORT", then: str = "", name: str = UNUSED_NAME) -> Xid:
    return Xid("info" if action == "IGNORE" else "warning", "unknown", action, then, name)


def _engine(name: str) -> Xid:
    """An engine's own error: the application that used it ends."""
    return Xid("warning", "unknown", "RESTART_APP", "CONTACT_SUPPORT", f"{name} error")


def _nvlink5(name: str) -> Xid:
    """The line's own unit and status decide (`schemas.nvlink5`); this holds where they cannot be read."""
    return Xid("warning", "nvlink_fault", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", f"NVLink {name} error")


_USED: dict[int, Xid] = {
    8: Xid("warning", "gpu_stuck", "RESTART_APP", "CONTACT_SUPPORT", "a channel made no progress"),
    11: Xid("warning", "unknown", "RESTART_APP", "CHECK_APP/CUDA", "broken command stream"),
    13: Xid("info", "unknown", "RESTART_APP", "WORKFLOW_XID_13", "graphics engine exception"),
    25: Xid("warning", "unknown", "RESTART_APP", "CHECK_APP/CUDA", "illegal command stream"),
    31: Xid("info", "unknown", "RESTART_APP", "WORKFLOW_XID_31", "GPU memory page fault"),
    32: Xid("warning", "unknown", "RESTART_APP", "CHECK_APP/CUDA", "broken command stream at the DMA unit"),
    37: Xid("info", "unknown", "IGNORE", "CHECK_APP/CUDA", "unknown firmware method"),
    38: Xid("warning", "unknown", "IGNORE", "CONTACT_SUPPORT", "driver firmware watchdog"),
    43: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "GPU stopped processing for one process"),
    44: Xid("warning", "unknown", "IGNORE", "CONTACT_SUPPORT", "graphics engine fault during a context switch"),
    45: Xid("info", "unknown", "WORKFLOW_XID_45", "RESTART_FM", "work removed after an earlier error"),
    46: Xid("critical", "gpu_stuck", "RESET_GPU", "CONTACT_SUPPORT", "GPU stopped processing"),
    48: Xid("critical", "gpu_memory_error", "WORKFLOW_XID_48", "WORKFLOW_XID_48", "double-bit memory error"),
    54: Xid("critical", "power_brake", "CHECK_MECHANICALS", "CONTACT_SUPPORT", "auxiliary power is not connected"),
    60: Xid("warning", "unknown", "RESTART_APP", "INVESTIGATE_SW", "SEC2 engine exception"),
    62: Xid("critical", "gpu_stuck", "RESET_GPU", "CONTACT_SUPPORT", "power management controller halted"),
    63: Xid("warning", "gpu_memory_error", "IGNORE", "IGNORE", "memory row remapping recorded"),
    64: Xid("critical", "gpu_memory_error", "RESET_GPU", "CONTACT_SUPPORT", "memory row remapping failed"),
    66: Xid("info", "unknown", "IGNORE", "INVESTIGATE_SW", "register access that is not allowed"),
    67: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "method that is not allowed"),
    68: _engine("video decoder 0"),
    69: Xid("warning", "unknown", "RESTART_APP", "CHECK_APP/CUDA", "graphics engine class error"),
    74: Xid("critical", "nvlink_fault", "WORKFLOW_NVLINK_ERR", "CONTACT_SUPPORT", "NVLink error"),
    78: Xid("warning", "unknown", "UPDATE_SWFW", "UPDATE_SWFW", "virtual GPU cannot start"),
    79: Xid("critical", "gpu_lost", "RESTART_BM", "CONTACT_SUPPORT", "GPU has fallen off the bus"),
    80: Xid("warning", "unknown", "RESTART_APP", "CHECK_APP/CUDA", "data was damaged on its way to the GPU"),
    92: Xid("warning", "gpu_memory_error", "IGNORE", "CONTACT_SUPPORT", "many single-bit memory errors"),
    93: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "InfoROM is written too often"),
    94: Xid("critical", "gpu_memory_error", "RESTART_APP", "IGNORE (sympathetic)", "contained memory error"),
    95: Xid("critical", "gpu_memory_error", "RESET_GPU", "IGNORE (sympathetic)", "uncontained memory error"),
    106: Xid("info", "unknown", "IGNORE", "IGNORE", "test message of the management bus"),
    107: Xid("info", "unknown", "IGNORE", "IGNORE", "silent test message of the management bus"),
    108: _unused("IGNORE", "XID_137_FLOW"),
    109: Xid("critical", "gpu_stuck", "RESET_GPU", "CONTACT_SUPPORT", "context switch timed out"),
    110: Xid("critical", "unknown", "RESET_GPU", "INVESTIGATE_SW", "security fault"),
    119: Xid("critical", "gpu_lost", "RESET_GPU", "INVESTIGATE_SW", "GPU system processor does not answer"),
    120: Xid("critical", "gpu_lost", "RESET_GPU", "INVESTIGATE_SW", "GPU system processor failed"),
    121: Xid("warning", "nvlink_fault", "IGNORE", "CONTACT_SUPPORT", "chip-to-chip link error"),
    136: Xid("critical", "nvlink_fault", "RESET_GPU", "INVESTIGATE_LINK_SI", "link training failed"),
    137: Xid("info", "nvlink_fault", "IGNORE", "XID_137_FLOW", "NVLink access that is not allowed"),
    139: _engine("optical flow 1"),
    140: Xid("critical", "gpu_memory_error", "RESET_GPU", "CONTACT_SUPPORT", "memory error that nothing recovered"),
    141: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "CUDA fast path error"),
    142: _unused(name="video encoder 3 error"),
    143: Xid("critical", "gpu_lost", "RESET_GPU", "CONTACT_SUPPORT", "GPU cannot be initialised"),
    144: _nvlink5("SAW"),
    145: _nvlink5("RLW"),
    146: _nvlink5("TLW"),
    147: _nvlink5("TREX"),
    148: _nvlink5("NVLPW_CTRL"),
    149: _nvlink5("NETIR"),
    150: _nvlink5("MSE"),
    151: Xid("warning", "unknown", "RESTART_VM", "CONTACT_SUPPORT", "key rotation failed"),
    152: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "deep learning accelerator memory error"),
    153: Xid("info", "unknown", "IGNORE", "CONTACT_SUPPORT", "deep learning accelerator timed out"),
    154: Xid("warning", "unknown", "XID_154", "", "the driver asks for another recovery action"),
    155: Xid("critical", "nvlink_fault", "RESET_GPU", "INVESTIGATE_SW_USER", "NVLink error found by software"),
    156: Xid("critical", "gpu_memory_error", "RESET_GPU", "IGNORE", "a resource was retired"),
    157: Xid("warning", "gpu_memory_error", "IGNORE", "CONTACT_SUPPORT", "a resource could not be retired"),
    158: Xid("critical", "gpu_stuck", "RESET_GPU", "CONTACT_SUPPORT", "GPU timed out fatally"),
    159: Xid("warning", "unknown", "CHECK_UVM", "SYMPATHETIC_REPORT_SOLO", "coherent interface error"),
    160: Xid("warning", "gpu_memory_error", "IGNORE", "INVESTIGATE_SW", "a memory channel was retired"),
    161: Xid("warning", "gpu_memory_error", "IGNORE", "INVESTIGATE_SW", "a memory channel could not be retired"),
    162: Xid("info", "unknown", "IGNORE", "", "power smoothing is on again"),
    163: Xid("warning", "unknown", "CONTACT_SUPPORT", "", "power smoothing is off"),
    164: Xid("info", "unknown", "IGNORE", "", "power smoothing nears its lifetime"),
    165: Xid("warning", "unknown", "CONTACT_SUPPORT", "", "power smoothing is at its lifetime's end"),
    166: Xid("critical", "nvlink_fault", "RESET_GPU", "", "NVLink traffic before encryption was set up"),
    167: Xid("critical", "pcie_degraded", "RESTART_BM", "", "PCIe timed out fatally"),
    168: Xid(
        "critical", "gpu_memory_error", "CONTACT_SUPPORT", "", "GPU memory is smaller: errors in protected memory"
    ),
    169: Xid("critical", "gpu_stuck", "RESET_GPU", "", "SEC2 controller halted"),
    170: Xid("warning", "nvlink_fault", "CONTACT_SUPPORT", "", "NVLink interrupt in confidential mode"),
    171: Xid("critical", "gpu_memory_error", "WORKFLOW_XID_48", "", "uncorrectable DRAM error (detail of 48)"),
    172: Xid("critical", "gpu_memory_error", "WORKFLOW_XID_48", "", "uncorrectable SRAM error (detail of 48)"),
}

_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135)
_DECODERS = {83: 1, 84: 2, 88: 3, 89: 4, 96: 5, 97: 6, 98: 7}
_JPEG = {82: 0, 99: 1, 100: 2, 101: 3, 102: 4, 103: 5, 104: 6, 105: 7}

XIDS: Mapping[int, Xid] = (
    {code: _unused() for code in range(1, 173)}
    | {14: _unused("IGNORE", "CONTACT_SUPPORT"), 16: _unused(then="CONTACT_SUPPORT")}
    | {code: _engine(f"copy engine {number}") for number, code in enumerate(_COPY_ENGINES)}
    | {code: _engine(f"video decoder {number}") for code, number in _DECODERS.items()}
    | {code: _engine(f"JPEG engine {number}") for code, number in _JPEG.items()}
    | {86: _engine("optical flow")}
    | _USED
)
"""All codes of the catalogue, 1 to 172. A code that is not here is newer than this table."""

UNKNOWN = Xid("warning", "unknown", "CONTACT_SUPPORT", "", "")
"""New drivers bring new codes: worth a look, and no more is known."""

RECOVERY = 154
"""The code that tells the driver's own verdict: it counts more than the catalogue."""

RECOVERY_ACTIONS: dict[int, tuple[str, Severity]] = {
    0: ("IGNORE", "info"),
    1: ("RESET_GPU", "critical"),
    2: ("RESTART_BM", "critical"),
    3: ("DRAIN_P2P", "warning"),
    4: ("DRAIN_AND_RESET", "critical"),
    5: ("RECOVER_IMEX_DOMAIN", "critical"),
    6: ("RESET_BUS", "critical"),
    7: ("RESTART_BM", "critical"),
}
"""NVML's GPU recovery actions (field 230, and XID 154). None is the all-clear; without peer-to-peer traffic the GPU
still works; all others take it out of work."""


def xid(code: int) -> Xid:
    """What is known of a code, UNKNOWN for one that is newer than this table.

    >>> xid(79).action, xid(4711).action
    ('RESTART_BM', 'CONTACT_SUPPORT')
    """
    return XIDS.get(code, UNKNOWN)


def in_words(action: str) -> str:
    """An action as a person reads it.

    >>> in_words("RESET_GPU"), in_words("SOMETHING_NEW")
    ('reset the GPU', 'something new')
    """
    return ACTIONS.get(action.partition(" (")[0], action.replace("_", " ").lower())
