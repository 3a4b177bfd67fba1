"""The Python that runs this, and which parts of the product it can run."""

import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version

from lockstep.doctor.check import Check, Machine
from lockstep.extras import lacking


def python(_: Machine) -> list[Check]:
    """The interpreter and our version."""
    try:
        ours = version("gpu-lockstep")
    except PackageNotFoundError:
        ours = "from a source tree"
    return [Check("", "ok", f"{platform.python_version()} on {platform.machine()}, gpu-lockstep {ours}")]


def extras(_: Machine) -> list[Check]:
    """Each extra of the distribution: all of its modules, or which are missing."""
    return [
        Check(f"extra {extra}", "ok", "installed")
        if not modules
        else Check(
            f"extra {extra}",
            "absent",
            "without " + ", ".join(modules),
            f"where this machine needs it: pip install 'gpu-lockstep[{extra}]'",
        )
        for extra, modules in lacking().items()
    ]


def crc32c(_: Machine) -> list[Check]:
    """Kafka's checksum: 7 to 15 times faster compiled."""
    if importlib.util.find_spec("crc32c") is not None:
        return [Check("", "ok", "compiled")]
    return [Check("", "attention", "missing: Kafka's checksums are computed in Python", "pip install crc32c")]
