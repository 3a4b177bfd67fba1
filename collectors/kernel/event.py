"""One event told by the kernel log, as every parser of its lines gives it."""

from typing import NamedTuple

from schemas.causes import Cause
from schemas.event import Severity


class KernelEvent(NamedTuple):
    """`kind` as in schemas.event, `code` the XID or SXID, `text` the message itself, `detail` what else it says.

    `cause` is the likely one, `action` a name of `schemas.xid.ACTIONS`.
    """

    kind: str
    severity: Severity
    code: int | None
    pci: str
    text: str
    detail: dict[str, str]
    cause: Cause = "unknown"
    action: str = ""


ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{1,8}(?::[0-9a-fA-F]{1,2}){1,2}(?:\.[0-7])?)"
"""A PCI address as NVIDIA's drivers and the kernel print it, for `collectors.pci.pci_address`."""
