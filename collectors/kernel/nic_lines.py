"""What network adapters say in the kernel log: links, transceivers, power, firmware and queues.

After the messages of Linux's mlx5 driver (drivers/net/ethernet/mellanox/mlx5/core: health.c, events.c, cmd.c,
en_main.c) and of the network core's transmit watchdog.
"""

import re
from collections.abc import Callable

from collectors.kernel.event import ADDRESS, KernelEvent
from collectors.pci import pci_address
from schemas.causes import Cause
from schemas.event import Severity

_DEVICE = re.compile(rf"\bmlx5_core(?:\.\w+)? {ADDRESS}(?: ([\w.@-]+))?:")
_POWER = re.compile(r"Detected insufficient power on the PCIe slot \((\d+)W\)")
_MODULE = re.compile(r"Port module event(?:\[(\w+)\])?\b(.*)")
_MODULE_NUMBER = re.compile(r"\bmodule (\d+)")
_MODULE_ERROR = re.compile(r"Cable error, (\w[\w /-]*)")
_SENSORS = re.compile(r"mlx5.*High temperature on sensors with bit set")
_REGISTER = re.compile(r"mlx5_cmd_out_err\b.*?\b(ACCESS_REG)\b(?:\((0x[0-9a-fA-F]+)\))?.* failed")
_COMMAND = re.compile(r"\b([A-Z][A-Z0-9_]+)\((0x[0-9a-fA-F]+)\) timeout\. Will cause a leak of a command resource")
_HEALTH = re.compile(
    r"device's health compromised|FW is unable to respond to initialization|Fatal error \d+ detected"
    r"|handling bad device|Firmware over \d+ MS in|FW initialization, timeout abort|mlx5_load_one failed"
)
_COMPLETION = re.compile(r"dump error cqe|Error cqe on cqn (0x[0-9a-fA-F]+)")
_SYNDROME = re.compile(r"\bsynd(?:rome)? 0x([0-9a-fA-F]+): (\w[\w /-]*)")
_WATCHDOG = re.compile(r"NETDEV WATCHDOG: (?:([\w.@-]+) \(\w+\))?.*?transmit queue (\d+) timed out")
_QUEUE = re.compile(r"\b([TR]X) timeout (?:detected|on (?:queue|channel): ?(\d+))")
_LINK = re.compile(r"(?:^|\s)([\w.@-]+): (?:NIC )?Link (?:is )?([Uu]p|[Dd]own|DOWN|UP)\b(?! definitely)")


def parse(text: str) -> KernelEvent | None:
    """The event of such a line; None for everything else.

    >>> parse("mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature").detail
    {'module': '0', 'problem': 'high temperature'}
    """
    for look in _LOOKS:
        found = look(text)
        if found is not None:
            return found
    return None


def _event(kind: str, severity: Severity, text: str, detail: dict[str, str], cause: Cause, action: str) -> KernelEvent:
    device = _DEVICE.search(text)
    if device is not None and device[2]:
        detail = {"device": device[2]} | detail
    begin = device.start() if device is not None else 0
    pci = "" if device is None else pci_address(device[1])
    return KernelEvent(kind, severity, None, pci, text[begin:].strip(), detail, cause, action)


def _power(text: str) -> KernelEvent | None:
    match = _POWER.search(text)
    if match is None:
        return None
    return _event("nic_power", "warning", text, {"power_w": match[1]}, "pcie_degraded", "CHECK_MECHANICALS")


def _module(text: str) -> KernelEvent | None:
    match = _MODULE.search(text)
    if match is None:
        return None
    number = _MODULE_NUMBER.search(match[2])
    detail = {"module": number[1]} if number is not None else {}
    if "High Temperature" in match[2]:
        return _event(
            "nic_module", "warning", text, detail | {"problem": "high temperature"}, "fabric_link", "CHECK_COOLING"
        )
    if (error := _MODULE_ERROR.search(match[2])) is not None or match[1] == "error":
        problem = error[1].strip().lower() if error is not None else "cable error"
        return _event("nic_module", "warning", text, detail | {"problem": problem}, "fabric_link", "CHECK_CABLE")
    if "unplugged" in match[2]:
        return _event("nic_module", "warning", text, detail | {"problem": "unplugged"}, "fabric_link", "CHECK_CABLE")
    if "plugged" in match[2]:
        return _event("nic_module", "info", text, detail | {"problem": "none, plugged"}, "fabric_link", "IGNORE")
    return None


def _hot(text: str) -> KernelEvent | None:
    if _SENSORS.search(text) is None:
        return None
    return _event("nic_hot", "warning", text, {}, "fabric_link", "CHECK_COOLING")


def _commands(text: str) -> KernelEvent | None:
    """Commands to the firmware. Of those that only fail, access to registers alone is told (sensors, cables, clocks):
    the driver asks for much that a device may refuse."""
    if (match := _COMMAND.search(text)) is not None:
        detail = {"command": match[1], "opcode": match[2]}
        return _event("nic_firmware", "critical", text, detail, "fabric_link", "RESTART_BM")
    if (match := _REGISTER.search(text)) is not None:
        detail = {"command": match[1]} | ({"opcode": match[2]} if match[2] else {})
        return _event("nic_command", "warning", text, detail, "unknown", "UPDATE_SWFW")
    return None


def _firmware(text: str) -> KernelEvent | None:
    if "mlx5" not in text:
        return None
    if (match := _HEALTH.search(text)) is not None:
        return _event("nic_firmware", "critical", text, {"problem": match[0].lower()}, "fabric_link", "RESTART_BM")
    if (match := _SYNDROME.search(text)) is not None and int(match[1], 16):
        problem = match[2].strip().lower()
        severity: Severity = "warning" if "temperature" in problem else "critical"
        detail = {"syndrome": "0x" + match[1], "problem": problem}
        return _event("nic_firmware", severity, text, detail, "fabric_link", "RESTART_BM")
    return None


def _queues(text: str) -> KernelEvent | None:
    if (match := _WATCHDOG.search(text)) is not None:
        detail = {"direction": "tx", "queue": match[2]} | ({"device": match[1]} if match[1] else {})
    elif "mlx5" in text and (match := _QUEUE.search(text)) is not None:
        detail = {"direction": match[1].lower()} | ({"queue": match[2]} if match[2] else {})
    else:
        return None
    return _event("nic_timeout", "warning", text, detail, "fabric_link", "UPDATE_SWFW")


def _completions(text: str) -> KernelEvent | None:
    """Work requests that ended with an error; the peer may be the reason."""
    match = _COMPLETION.search(text) if "mlx5" in text else None
    if match is None:
        return None
    detail = {"queue": match[1]} if match[1] else {}
    return _event("nic_completion", "warning", text, detail, "transport_stalled", "INVESTIGATE_PEER_DEVICE")


def _link(text: str) -> KernelEvent | None:
    match = _LINK.search(text)
    if match is None:
        return None
    down = match[2].lower() == "down"
    detail = {"link": match[1]}
    if down:
        return _event("link_down", "critical", text, detail, "fabric_link", "CHECK_CABLE")
    return _event("link_up", "info", text, detail, "fabric_link", "IGNORE")


_LOOKS: tuple[Callable[[str], KernelEvent | None], ...] = (
    _power,
    _module,
    _hot,
    _commands,
    _firmware,
    _queues,
    _completions,
    _link,
)
