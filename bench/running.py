"""What running processes cost, seen from outside: CPU time, memory, and the bytes they put on the wire."""

import ctypes
import os
import socket
import time
from pathlib import Path

AGENT_PARTS = ("agent", "sampler")


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(child for text in children for child in family(int(text)))]


def cpu_s(pid: int) -> float:
    """CPU time of all its threads, ended ones too, to the nanosecond: the kernel's clock of that process."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


CPUCLOCK_SCHED = 2
"""clock_getcpuclockid(3): the bits below a process id's complement."""


def mib(pid: int, name: str = "Rss") -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":")) / 1024


def settled(pid: int, processes: int, window_s: float = 4.0, most_s: float = 180.0) -> list[int]:
    """The processes, once there are so many and they are at rest: imports and first connections are not 1 Hz."""
    until = time.monotonic() + most_s
    time.sleep(2 * window_s)
    while time.monotonic() < until:
        pids = family(pid)
        before = sum(map(cpu_s, pids))
        time.sleep(window_s)
        if len(pids) == processes and family(pid) == pids and sum(map(cpu_s, pids)) - before < 0.2 * window_s:
            return pids
    raise SystemExit("the agent does not come to rest")


def wire_bytes(pid: int) -> int | None:
    """Bytes that the other ends of its TCP connections have acknowledged; None where the kernel does not let us ask.

    Takes each of its sockets for a moment (pidfd_getfd) and asks for TCP_INFO.
    """
    total = 0
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if not str(entry.readlink()).startswith("socket:"):
                    continue
            except OSError:
                continue
            descriptor = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, int(entry.name), 0)
            if descriptor < 0:
                return None
            with socket.socket(fileno=descriptor) as link:
                if link.family in (socket.AF_INET, socket.AF_INET6):
                    told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    total += int.from_bytes(told[BYTES_ACKED : BYTES_ACKED + 8], "little")
    finally:
        os.close(process)
    return total


PIDFD_GETFD = 438
BYTES_ACKED = 120
"""tcpi_bytes_acked in struct tcp_info (linux/tcp.h)."""
