"""What the kernel says of processes, memory, CPUs and storage, as far as it ends or stalls a training process."""

import re
from typing import NamedTuple

from collectors.kernel.event import KernelEvent
from schemas.causes import Cause
from schemas.event import Severity

_OOM = re.compile(
    r"(Memory cgroup out of memory: |Out of memory(?: \(oom_kill_allocating_task\))?: |^)"
    r"Kill(?:ed)? process (\d+),? (?:UID \d+, ?)?\((.*?)\)(?:[ ,]|$)"
)


class Pattern(NamedTuple):
    """A message: its named groups become the event's detail."""

    kind: str
    severity: Severity
    cause: Cause
    action: str
    text: re.Pattern[str]


PATTERNS: tuple[Pattern, ...] = (
    # The kernel's own limit, or the log daemon's: more happened than the log shows.
    Pattern(
        "log_suppressed", "info", "unknown", "IGNORE",
        re.compile(r"(?P<function>\w+): (?P<count>\d+) (?:callbacks|messages|output lines) suppressed"),
    ),
    Pattern(
        "log_suppressed", "info", "unknown", "IGNORE",
        re.compile(r"(?:Suppressed|Missed|/dev/kmsg buffer overrun, some) (?:(?P<count>\d+) (?:kernel )?)?messages"),
    ),
    Pattern(
        "segfault", "warning", "process_gone", "CHECK_APP/CUDA",
        re.compile(
            r"(?:(?P<process>[^\s\[\]]+)\[(?P<pid>\d+)\]: )?segfault at (?P<address>[0-9a-f]+) ip \S+.* error \d+"
            r" in (?P<library>lib(?:nccl|cuda|nvidia|torch|c10|cudnn|cublas|rccl|ibverbs|mlx5)[\w.+-]*)"
        ),
    ),
    Pattern(
        "peermem", "warning", "transport_stalled", "UPDATE_SWFW",
        re.compile(r"nvidia-peermem (?P<function>\w+):\d+ ERROR (?P<problem>.+)"),
    ),
    Pattern(
        "hung_task", "warning", "host_io", "INVESTIGATE_HOST",
        re.compile(r"INFO: task (?P<process>.+?):(?P<pid>\d+) blocked for more than (?P<seconds>\d+) seconds"),
    ),
    Pattern(
        "soft_lockup", "warning", "host_cpu", "INVESTIGATE_HOST",
        re.compile(r"BUG: (?:soft|hard) lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s"),
    ),
    Pattern(
        "machine_check", "warning", "host_memory", "CONTACT_SUPPORT",
        re.compile(r"mce: \[Hardware Error\]: (?:CPU (?P<cpu>\d+): )?(?P<problem>Machine [Cc]heck.*)"),
    ),
    Pattern(
        "memory_error", "critical", "host_memory", "CONTACT_SUPPORT",
        re.compile(r"EDAC (?P<controller>MC\d+): (?P<count>\d+) UE "),
    ),
    Pattern(
        "memory_error", "info", "host_memory", "CONTACT_SUPPORT",
        re.compile(r"EDAC (?P<controller>MC\d+): (?P<count>\d+) CE "),
    ),
    Pattern(
        "io_error", "warning", "host_io", "INVESTIGATE_HOST",
        re.compile(r"(?:critical (?:medium|target) error|I/O error), dev (?P<device>[\w-]+)"),
    ),
    Pattern(
        "io_error", "warning", "host_io", "INVESTIGATE_HOST",
        re.compile(r"nvme (?P<device>nvme\d+): (?P<problem>I/O .*timeout|controller is down)"),
    ),
    Pattern(
        "io_error", "warning", "host_io", "INVESTIGATE_HOST",
        re.compile(r"nfs: server (?P<device>\S+) not responding"),
    ),
    Pattern(
        "cpu_throttled", "warning", "host_cpu", "CHECK_COOLING",
        re.compile(r"CPU(?P<cpu>\d+): (?:Package|Core) temperature(?:/speed)? above threshold, cpu clock throttled"),
    ),
)  # fmt: skip


def parse(text: str) -> KernelEvent | None:
    """The event of such a line; None for everything else.

    >>> parse("Memory cgroup out of memory: Killed process 9 (python), UID 0").detail["scope"]
    'cgroup'
    """
    if (match := _OOM.search(text)) is not None:
        scope = "cgroup" if match[1].startswith("Memory cgroup") else "machine"
        detail = {"pid": match[2], "process": match[3], "scope": scope}
        said = text[match.start() :].strip()
        return KernelEvent("oom_kill", "warning", None, "", said, detail, "host_memory", "FIND_PROCESS")
    for pattern in PATTERNS:
        if (match := pattern.text.search(text)) is not None:
            detail = {name: value for name, value in match.groupdict().items() if value}
            said = text[match.start() :].strip()
            return KernelEvent(pattern.kind, pattern.severity, None, "", said, detail, pattern.cause, pattern.action)
    return None
