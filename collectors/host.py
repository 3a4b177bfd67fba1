"""The node itself: CPUs, memory, pressure and disks, from /proc."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from collectors.base import Collector, NoData, Reading
from collectors.node import Node
from collectors.rates import Value
from collectors.table import table
from runtime.clock import Clock

T = TypeVar("T")

KIB_PER_MIB = 1024.0

NO_DISKS = ("loop", "ram", "zram")
"""Block devices that are no hardware."""


def parse_cpu(stat: str) -> tuple[int, int, int]:
    """(busy, steal, all) in clock ticks since boot, from the first line of /proc/stat.

    Guest time is contained in user and nice already; waiting for a disk is not busy.

    >>> parse_cpu("cpu  10 1 4 80 5 0 0 2 3 0")
    (17, 2, 102)
    """
    words = stat.split("\n", 1)[0].split()
    if not words or words[0] != "cpu" or len(words) < 5:
        raise ValueError("no cpu line")
    user, nice, system, idle, iowait, irq, softirq, steal = (int(w) for w in (words[1:9] + ["0"] * 8)[:8])
    busy = user + nice + system + irq + softirq + steal
    return busy, steal, busy + idle + iowait


def parse_loadavg(text: str) -> tuple[float, int]:
    """(load over a minute, runnable now).

    >>> parse_loadavg("1.77 0.83 0.39 8/251 9186")
    (1.77, 8)
    """
    words = text.split()
    return float(words[0]), int(words[3].split("/")[0])


def parse_meminfo(text: str) -> dict[str, float]:
    """MiB by name.

    >>> parse_meminfo("MemTotal:  2048 kB\\nHugePages_Total: 0\\n")
    {'MemTotal': 2.0}
    """
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) / KIB_PER_MIB for row in rows if len(row) == 3 and row[2] == "kB"}


def parse_pressure(text: str) -> float:
    """The share of the last ten seconds in which something waited, per cent.

    >>> parse_pressure("some avg10=30.65 avg60=18.14 avg300=6.99 total=36158877")
    30.65
    """
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["some"] and words[1].startswith("avg10="):
            return float(words[1][6:])
    raise ValueError("no some line")


def parse_diskstats(text: str) -> dict[str, int]:
    """Milliseconds busy since boot, by disk; a partition is listed too and never busier than its disk.

    >>> parse_diskstats("259 0 nvme0n1 1 0 8 1 2 0 16 2 0 340 3\\n 7 0 loop0 1 0 8 1 2 0 16 2 0 9 3")
    {'nvme0n1': 340}
    """
    busy: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 13 and not words[2].startswith(NO_DISKS):
            busy[words[2]] = int(words[12])
    return busy


class HostCollector:
    """Fills section `host`: one row named `node`. `proc` is the root of /proc."""

    name = "host"
    interval_s = 1.0

    def __init__(self, proc: Path, node: str, clock: Clock) -> None:
        self._proc, self._node, self._clock = proc, node, clock
        self._cpu: tuple[int, int, int] | None = None
        self._disks: dict[str, int] = {}
        self._at = 0.0

    def collect(self, tick_ms: int) -> Reading:
        """What /proc says; a file that is absent or odd costs its own columns only. NoData without any."""
        row: dict[str, Value] = {**self._cpu_use(), **self._load(), **self._memory()}
        for kind in ("cpu", "memory", "io"):
            row[f"{kind}_pressure_pct"] = self._parsed(f"pressure/{kind}", parse_pressure)
        row["disk_busy_pct"] = self._disk_busy()
        if all(value == "unsupported" for value in row.values()):
            raise NoData(f"nothing readable in {self._proc}")
        matrix, missing = table("host", [self._node], tuple(row), [row])
        return Reading({"host": matrix}, missing=missing)

    def _parsed(self, name: str, parse: Callable[[str], T]) -> T | str:
        """What `parse` finds in a file; "unsupported" where the kernel has no such file, or an odd one."""
        try:
            return parse((self._proc / name).read_text("ascii", "replace"))
        except (OSError, ValueError, IndexError):
            return "unsupported"

    def _cpu_use(self) -> dict[str, Value]:
        found = self._parsed("stat", parse_cpu)
        before, self._cpu = self._cpu, None if isinstance(found, str) else found
        if isinstance(found, str):
            return dict.fromkeys(("cpu_utilization_pct", "cpu_steal_pct"), found)
        if before is None or found[2] <= before[2] or found[0] < before[0]:
            return dict.fromkeys(("cpu_utilization_pct", "cpu_steal_pct"), "first_reading")
        busy, steal, whole = (now - then for now, then in zip(found, before, strict=True))
        # Steal may fall by a tick or two: the hypervisor corrects itself.
        return {"cpu_utilization_pct": min(100.0, 100.0 * busy / whole), "cpu_steal_pct": 100.0 * max(0, steal) / whole}

    def _load(self) -> dict[str, Value]:
        found = self._parsed("loadavg", parse_loadavg)
        load, runnable = (found, found) if isinstance(found, str) else found
        return {"load_1m": load, "runnable_count": runnable}

    def _memory(self) -> dict[str, Value]:
        found = self._parsed("meminfo", parse_meminfo)
        known: dict[str, float] = {} if isinstance(found, str) else found
        return {
            "memory_available_mib": known.get("MemAvailable", "unsupported"),
            "memory_total_mib": known.get("MemTotal", "unsupported"),
        }

    def _disk_busy(self) -> Value:
        """The busiest disk's share of the time since the last tick, per cent."""
        now = self._clock.monotonic()
        found = self._parsed("diskstats", parse_diskstats)
        if isinstance(found, str) or not found:
            return "unsupported"
        before, self._disks = self._disks, found
        elapsed_ms, self._at = 1000.0 * (now - self._at), now
        grown = [busy - before[name] for name, busy in found.items() if name in before and busy >= before[name]]
        if not grown or elapsed_ms <= 0:
            return "first_reading"
        return min(100.0, 100.0 * max(grown) / elapsed_ms)


def on_node(node: Node) -> Collector:
    """From this machine's /proc."""
    return HostCollector(node.machine.proc, node.identity.node, node.clock)
