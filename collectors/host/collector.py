"""The node itself: CPUs, memory, pressure and disks, from /proc."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from collectors.agent.node import Node
from collectors.base import Collector, NoData, Reading
from collectors.digits import count_of
from collectors.host.kernel_files import HeldFile
from collectors.rates import Value
from collectors.table import table
from runtime.clock import Clock

T = TypeVar("T")

KIB_PER_MIB = 1024.0

MEMORY = ("MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:")
"""What is taken from /proc/meminfo."""

NO_DISKS = ("loop", "ram", "zram")
"""Block devices that are no hardware."""


class Cpu(NamedTuple):
    """Clock ticks of all CPUs since boot. Waiting for a disk is not busy."""

    busy: int
    steal: int
    all: int
    iowait: int


def parse_cpu(stat: str) -> Cpu:
    """The first line of /proc/stat. Guest time is contained in user and nice already.

    >>> parse_cpu("cpu  10 1 4 80 5 0 0 2 3 0")
    Cpu(busy=17, steal=2, all=102, iowait=5)
    """
    words = stat.split("\n", 1)[0].split()
    if not words or words[0] != "cpu" or len(words) < 5:
        raise ValueError("no cpu line")
    user, nice, system, idle, iowait, irq, softirq, steal = (count_of(w) for w in (words[1:9] + ["0"] * 8)[:8])
    busy = user + nice + system + irq + softirq + steal
    return Cpu(busy, steal, busy + idle + iowait, iowait)


def parse_blocked(stat: str) -> int:
    """How many processes wait for disks, from /proc/stat.

    >>> parse_blocked("cpu 1 2 3 4\\nprocs_running 3\\nprocs_blocked 2\\n")
    2
    """
    return _named(stat, "procs_blocked")


def parse_oom_kills(vmstat: str) -> int:
    """How many processes the kernel has killed for memory since boot, from /proc/vmstat.

    >>> parse_oom_kills("nr_free_pages 1\\noom_kill 4\\n")
    4
    """
    return _named(vmstat, "oom_kill")


def _named(text: str, name: str) -> int:
    _, found, rest = f"\n{text}".partition(f"\n{name} ")
    if not found:
        raise ValueError(f"no {name}")
    return int(rest.split("\n", 1)[0])


def parse_loadavg(text: str) -> tuple[float, int]:
    """(load over a minute, runnable now).

    >>> parse_loadavg("1.77 0.83 0.39 8/251 9186")
    (1.77, 8)
    """
    words = text.split()
    return float(words[0]), count_of(words[3].split("/")[0])


def parse_meminfo(text: str) -> dict[str, float]:
    """MiB by name, of MEMORY.

    >>> parse_meminfo("MemTotal:  2048 kB\\nHugePages_Total: 0\\n")
    {'MemTotal': 2.0}
    """
    rows = (line.split() for line in text.splitlines() if line.startswith(MEMORY))
    return {row[0].rstrip(":"): count_of(row[1]) / KIB_PER_MIB for row in rows if len(row) == 3 and row[2] == "kB"}


def parse_pressure(text: str, who: str = "some") -> float:
    """The share of the last ten seconds in which something ("full": everything) waited, per cent.

    >>> parse_pressure("some avg10=30.65 avg60=18.14 avg300=6.99 total=36158877")
    30.65
    """
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [who] and words[1].startswith("avg10="):
            return float(words[1][6:])
    raise ValueError(f"no {who} line")


class Disk(NamedTuple):
    """Since boot: milliseconds in which anything was on its way, and requests done with the milliseconds they took."""

    busy_ms: int
    requests: int
    waited_ms: int


def parse_diskstats(text: str) -> dict[str, Disk]:
    """By disk; a partition is listed too and never busier than its disk.

    >>> parse_diskstats("259 0 nvme0n1 1 0 8 1 2 0 16 2 0 340 3\\n 7 0 loop0 1 0 8 1 2 0 16 2 0 9 3")
    {'nvme0n1': Disk(busy_ms=340, requests=3, waited_ms=3)}
    """
    busy: dict[str, Disk] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 13 and not words[2].startswith(NO_DISKS):
            busy[words[2]] = Disk(
                count_of(words[12]), count_of(words[3]) + count_of(words[7]), count_of(words[6]) + count_of(words[10])
            )
    return busy


class HostCollector:
    """Fills section `host`: one row named `node`. `proc` is the root of /proc."""

    name = "host"
    interval_s = 1.0

    def __init__(self, proc: Path, node: str, clock: Clock) -> None:
        self._proc, self._node, self._clock = proc, node, clock
        self._cpu: Cpu | None = None
        self._disks: dict[str, Disk] = {}
        self._files: dict[str, HeldFile] = {}
        self._texts: dict[str, str] = {}
        self._at = 0.0

    def collect(self, tick_ms: int) -> Reading:
        """What /proc says; a file that is absent or odd costs its own columns only. NoData without any."""
        self._texts.clear()
        row: dict[str, Value] = {**self._cpu_use(), **self._load(), **self._memory()}
        for kind in ("cpu", "memory", "io"):
            row[f"{kind}_pressure_pct"] = self._parsed(f"pressure/{kind}", parse_pressure)
        for kind in ("memory", "io"):
            row[f"{kind}_full_pressure_pct"] = self._parsed(f"pressure/{kind}", _full_pressure)
        row |= self._disk_use()
        row["blocked_count"] = self._parsed("stat", parse_blocked)
        row["oom_kill_count"] = self._parsed("vmstat", parse_oom_kills)
        if all(value == "unsupported" for value in row.values()):
            raise NoData(f"nothing readable in {self._proc}")
        matrix, missing = table("host", [self._node], tuple(row), [row])
        return Reading({"host": matrix}, missing=missing)

    def _parsed(self, name: str, parse: Callable[[str], T]) -> T | str:
        """What `parse` finds in a file; "unsupported" where the kernel has no such file, or an odd one."""
        try:
            if name not in self._texts:
                if name not in self._files:
                    self._files[name] = HeldFile(self._proc / name)
                self._texts[name] = self._files[name].read().decode("ascii", "replace")
            return parse(self._texts[name])
        except (OSError, ValueError, IndexError):
            return "unsupported"

    def _cpu_use(self) -> dict[str, Value]:
        found = self._parsed("stat", parse_cpu)
        before, self._cpu = self._cpu, None if isinstance(found, str) else found
        columns = ("cpu_utilization_pct", "cpu_steal_pct", "cpu_iowait_pct")
        if isinstance(found, str):
            return dict.fromkeys(columns, found)
        if before is None or found.all <= before.all or found.busy < before.busy:
            return dict.fromkeys(columns, "first_reading")
        busy, steal, whole, iowait = (now - then for now, then in zip(found, before, strict=True))
        # Steal and waiting may fall by a tick or two: the kernel corrects itself.
        shares = (busy, max(0, steal), max(0, iowait))
        return {column: min(100.0, 100.0 * share / whole) for column, share in zip(columns, shares, strict=True)}

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
            "swap_used_mib": known["SwapTotal"] - known["SwapFree"]
            if {"SwapTotal", "SwapFree"} <= known.keys()
            else "unsupported",
        }

    def _disk_use(self) -> dict[str, Value]:
        """The busiest disk's share of the time since the last tick, and how long the slowest one's requests took."""
        now = self._clock.monotonic()
        found = self._parsed("diskstats", parse_diskstats)
        columns = ("disk_busy_pct", "disk_wait_ms")
        if isinstance(found, str) or not found:
            return dict.fromkeys(columns, "unsupported")
        before, self._disks = self._disks, found
        elapsed_ms, self._at = 1000.0 * (now - self._at), now
        grown = [
            Disk(*(new - old for new, old in zip(disk, before[name], strict=True)))
            for name, disk in found.items()
            if name in before and disk.busy_ms >= before[name].busy_ms
        ]
        if not grown or elapsed_ms <= 0:
            return dict.fromkeys(columns, "first_reading")
        waits = (max(0, disk.waited_ms) / disk.requests for disk in grown if disk.requests > 0)
        busy_ms = max(disk.busy_ms for disk in grown)
        return {"disk_busy_pct": min(100.0, 100.0 * busy_ms / elapsed_ms), "disk_wait_ms": max(waits, default=0.0)}


def _full_pressure(text: str) -> float:
    return parse_pressure(text, "full")


def on_node(node: Node) -> Collector:
    """From this machine's /proc."""
    return HostCollector(node.machine.proc, node.identity.node, node.clock)
