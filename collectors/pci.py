"""PCI addresses in one spelling, so that a kernel line, NVML and sysfs can be compared."""

import re

_ADDRESS = re.compile(r"(?:PCI:)?\s*(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?\s*")


def pci_address(text: str) -> str:
    """`text` as sysfs writes it (domain:bus:device.function, lower case); "" where it is no address.

    A missing domain or function is 0. Domains are not 0 on Grace.

    >>> pci_address("00000009:01:00.0"), pci_address("PCI:0009:01:00"), pci_address("18:00.0")
    ('0009:01:00.0', '0009:01:00.0', '0000:18:00.0')
    >>> pci_address("invalid")
    ''
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return ""
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function or '0'}"
