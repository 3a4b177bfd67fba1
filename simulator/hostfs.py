"""/proc of every node, in memory: CPUs, memory, pressure, disks, and the processes of the ranks.

A GB200 tray has two Grace CPUs of 72 cores and 960 GB of memory. Without faults a training node's CPUs are an eighth
busy (data loading), an idle one's hardly.
"""

from collections.abc import Iterator
from fnmatch import fnmatch

import numpy as np

from simulator.effects import Effects
from simulator.environment import environment
from simulator.nvml import FOREIGN_PID
from simulator.topology import GPUS_PER_TRAY, Topology

CORES, MEMORY_KIB = 144, 960_000_000
TICKS = 100
"""Clock ticks a second and core (USER_HZ)."""

BOOTED_S = 1_000_000
"""How long the nodes have been up."""


class Hosts:
    """The state of all nodes, and the text of their files as of the last tick."""

    def __init__(self, topology: Topology, cluster: str, rng: np.random.Generator) -> None:
        n = len(topology.nodes)
        self._training = np.zeros(n)
        self._training[topology.node_of_gpu[topology.gpu_of_rank]] = 1.0
        self._own = 0.01 + 0.12 * self._training
        self._topology, self._cluster, self._rng = topology, cluster, rng
        self._busy_ticks = np.full(n, 0.1 * BOOTED_S * TICKS * CORES)
        self._all_ticks = np.full(n, 1.0 * BOOTED_S * TICKS * CORES)
        self._disk_ms = np.full(n, 0.02 * BOOTED_S * 1000)
        self._load = self._own * CORES
        self._pressure = np.zeros((3, n))
        self._files: dict[str, list[str]] = {}
        self._gone = np.zeros(topology.gpu_count, dtype=bool)
        self._foreign = np.zeros(topology.gpu_count, dtype=bool)

    def advance(self, seconds: float, effects: Effects) -> None:
        """One tick."""
        rng, training, n = self._rng, self._training, len(self._training)
        cpu = np.clip((self._own + effects.cpu_load) * rng.normal(1, 0.03, n), 0, 1)
        self._busy_ticks += np.rint(cpu * seconds * TICKS * CORES)
        self._all_ticks += np.rint(seconds * TICKS * CORES)
        disk = np.clip((0.01 + 0.06 * training) * rng.uniform(0.5, 1.5, n) + effects.io_load, 0, 1)
        self._disk_ms += np.rint(disk * seconds * 1000)
        wanted = cpu * CORES * (1 + 1.5 * effects.cpu_load)
        self._load += (wanted - self._load) * (1 - np.exp(-seconds / 60))
        runnable = np.maximum(np.rint(wanted), 1)
        # Shares of time in which somebody waits: the kernel averages them over ten seconds.
        now = 100 * np.array([0.7 * effects.cpu_load**2, 0.5 * effects.memory_taken**2, 0.6 * effects.io_load**2])
        self._pressure += (now + rng.uniform(0, 0.4, (3, n)) - self._pressure) * (1 - np.exp(-seconds / 10))
        available = 0.94 - 0.22 * training - 0.72 * effects.memory_taken
        self._gone, self._foreign = effects.gone | effects.lost, effects.foreign
        self._files = {
            "stat": [
                f"cpu  {busy:.0f} 0 0 {everything - busy:.0f} 0 0 0 0 0 0\nprocs_blocked 0\n"
                for busy, everything in zip(self._busy_ticks.tolist(), self._all_ticks.tolist(), strict=True)
            ],
            "loadavg": [
                f"{load:.2f} {load:.2f} {load:.2f} {runnable:.0f}/2210 90210\n"
                for load, runnable in zip(self._load.tolist(), runnable.tolist(), strict=True)
            ],
            "meminfo": [
                f"MemTotal: {MEMORY_KIB} kB\nMemAvailable: {MEMORY_KIB * share:.0f} kB\n"
                "SwapTotal: 0 kB\nSwapFree: 0 kB\n"
                for share in available.tolist()
            ],
            "vmstat": ["oom_kill 0\n"] * len(training),
            "diskstats": [f" 259 0 nvme0n1 1 0 8 1 2 0 16 2 0 {ms:.0f} 3\n" for ms in self._disk_ms.tolist()],
        } | {
            f"pressure/{kind}": [
                f"some avg10={value:.2f} avg60={value:.2f} avg300={value:.2f} total=1\n"
                f"full avg10={value / 2:.2f} avg60={value / 2:.2f} avg300={value / 2:.2f} total=1\n"
                for value in values
            ]
            for kind, values in zip(("cpu", "memory", "io"), self._pressure.tolist(), strict=True)
        }

    def proc(self, node: int) -> "Proc":
        """/proc of one node."""
        return Proc(self, node, "")

    def read(self, node: int, path: str) -> bytes:
        """One file's bytes; FileNotFoundError where there is none."""
        if (texts := self._files.get(path)) is not None:
            return texts[node].encode()
        pid, _, name = path.partition("/")
        if pid.isdecimal() and name in ("stat", "environ"):
            return self._process(node, int(pid), name)
        raise FileNotFoundError(path)

    def pids(self, node: int) -> list[int]:
        """The processes of one node: its ranks, and a foreign one where there is one."""
        topology, found = self._topology, list[int]()
        for gpu in range(node * GPUS_PER_TRAY, (node + 1) * GPUS_PER_TRAY):
            rank = topology.rank_of_gpu.get(gpu)
            if rank is not None and not self._gone[gpu]:
                found.append(topology.pid(rank))
            if self._foreign[gpu] and FOREIGN_PID not in found:
                found.append(FOREIGN_PID)
        return found

    def _process(self, node: int, pid: int, name: str) -> bytes:
        topology = self._topology
        for gpu in range(node * GPUS_PER_TRAY, (node + 1) * GPUS_PER_TRAY):
            rank = topology.rank_of_gpu.get(gpu)
            own = rank is not None and topology.pid(rank) == pid and not self._gone[gpu]
            if own or (pid == FOREIGN_PID and self._foreign[gpu]):
                if name == "stat":
                    return (
                        f"{pid} (python) S 1 {pid} {pid} 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {8800 + gpu} 0".encode()
                    )
                held = environment(topology, self._cluster, rank) if own and rank is not None else {"USER": "guest"}
                return "".join(f"{key}={value}\0" for key, value in held.items()).encode()
        raise FileNotFoundError(f"{pid}/{name}")


class Proc:
    """A path below /proc, with what collectors use of pathlib.Path."""

    def __init__(self, hosts: Hosts, node: int, path: str) -> None:
        self._hosts, self._node, self._path = hosts, node, path

    def __truediv__(self, name: str) -> "Proc":
        return Proc(self._hosts, self._node, f"{self._path}/{name}" if self._path else name)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def glob(self, pattern: str) -> Iterator["Proc"]:
        """The folders of the processes, which is all that anybody looks for."""
        return (self / str(pid) for pid in self._hosts.pids(self._node) if fnmatch(str(pid), pattern))

    def read_bytes(self) -> bytes:
        return self._hosts.read(self._node, self._path)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)
