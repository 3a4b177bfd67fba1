"""Whether a file is a log of the kernel or of a driver, with whatever prefix."""

import re

from collectors.kernel.log import parse_line
from collectors.kernel.log_line import COLOURS, LogLine, unwrapped

_KERNEL = re.compile(
    r"NVRM: |nvidia-nvswitch\d+: |(?:^|\d\d:\d\d:\d\d\S*(?: \d{4}\])?(?: \S+)? )kernel: |\bmlx5_core\b|Linux version \d"
    r"|^kern\s*:|\[tid \d+\] |\bpcieport \S+: "
)
_RECORD = re.compile(r"(?:<\d{1,3}>)?\[\s*\d{1,10}\.\d{6}\]|\d{1,4},\d+,\d+,[-c+]")

LOOKED_AT = 400


def looks_like(start: bytes) -> bool:
    """Whether a file that begins so holds such lines.

    >>> looks_like(b"[   12.000001] Linux version 6.8.0"), looks_like(b"step,rank,step_us")
    (True, False)
    """
    for raw in start.splitlines()[:LOOKED_AT]:
        line = COLOURS.sub("", raw.decode("utf-8", "replace"))
        if line.lstrip().startswith("{"):
            line = unwrapped(LogLine(line)).text
            if line.lstrip().startswith("{"):
                continue
        if _RECORD.match(line) or _KERNEL.search(line) or parse_line(line) is not None:
            return True
    return False
