"""/sys/class/infiniband of every node, in memory: one 400 Gb/s port for each GPU.

Errors and congestion of a port are those of its GPU's transfers in `Effects`; a port whose transfers take longer by a
bad link runs at half its lanes.
"""

from collections.abc import Iterator

import numpy as np

from simulator.effects import Effects
from simulator.topology import GPUS_PER_TRAY, Topology

TRAFFIC_BYTES_PER_S = 9e9
"""A training GPU's mean traffic, a fifth of its port: gradients of a step in some seconds."""

WORD_BYTES = 4

FILES = {
    "board_id": "MT_0000000838",
    "hca_type": "MT4129",
    "device/uevent": "DRIVER=mlx5_core",
}

FIXED = {
    "link_layer": "InfiniBand",
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "counters/link_downed": "0",
}

COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_wait", "symbol_error")
HW_COUNTERS = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "out_of_sequence")


class Ports:
    """The ports of all nodes, and the text of their files as of the last tick."""

    def __init__(self, topology: Topology, rng: np.random.Generator) -> None:
        n = topology.gpu_count
        self._rng = rng
        self._at_work = np.zeros(n)
        self._at_work[topology.gpu_of_rank] = 1.0
        self._counts = {name: np.zeros(n) for name in (*COUNTERS, *HW_COUNTERS)}
        self._counts["port_xmit_data"] += 1e12
        self._counts["port_rcv_data"] += 1e12
        self._narrow = np.zeros(n, dtype=bool)

    def advance(self, seconds: float, effects: Effects) -> None:
        """One tick."""
        rng, counts, n = self._rng, self._counts, len(self._at_work)
        sent = self._at_work * TRAFFIC_BYTES_PER_S * rng.uniform(0.9, 1.1, n) / effects.link_slowdown
        counts["port_xmit_data"] += np.rint(sent * seconds / WORD_BYTES)
        counts["port_rcv_data"] += np.rint(sent * seconds / WORD_BYTES)
        counts["port_xmit_wait"] += np.rint(
            self._at_work * 1e5 * rng.uniform(0, 1, n) * effects.link_slowdown * seconds
        )
        counts["symbol_error"] += rng.poisson(effects.port_errors_per_s * seconds)
        marks = rng.poisson(effects.congestion_per_s * seconds)
        for name in ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"):
            counts[name] += marks
        self._narrow = effects.port_errors_per_s > 0

    def sys(self, node: int) -> "Sys":
        """/sys of one node, as far as its ports go."""
        return Sys(self, node, "")

    def listed(self, path: str) -> list[str]:
        """The names in a folder; FileNotFoundError where there is none."""
        parts = path.split("/")
        if path == "class/infiniband":
            return [f"mlx5_{slot}" for slot in range(GPUS_PER_TRAY)]
        if len(parts) == 4 and parts[3] == "ports":
            return ["1"]
        raise FileNotFoundError(path)

    def read(self, node: int, path: str) -> bytes:
        """One file's bytes; FileNotFoundError where there is none."""
        _, _, device, *rest = [*path.split("/"), "", "", ""]
        slot = int(device.removeprefix("mlx5_")) if device.startswith("mlx5_") else GPUS_PER_TRAY
        if slot >= GPUS_PER_TRAY:
            raise FileNotFoundError(path)
        text = self._text(node * GPUS_PER_TRAY + slot, "/".join(part for part in rest if part))
        if text is None:
            raise FileNotFoundError(path)
        return f"{text}\n".encode()

    def _text(self, gpu: int, file: str) -> str | None:
        if file in FILES:
            return FILES[file]
        if not file.startswith("ports/1/"):
            return None
        name = file.removeprefix("ports/1/")
        fixed = {
            "link_layer": "InfiniBand",
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "counters/link_downed": "0",
        }
        if name in fixed:
            return fixed[name]
        if name == "rate":
            return "200 Gb/sec (2X NDR)" if self._narrow[gpu] else "400 Gb/sec (4X NDR)"
        folder, _, counter = name.partition("/")
        if folder in ("counters", "hw_counters") and counter in self._counts:
            return f"{self._counts[counter][gpu]:.0f}"
        return None


class Sys:
    """A path below /sys, with what collectors use of pathlib.Path."""

    def __init__(self, ports: Ports, node: int, path: str) -> None:
        self._ports, self._node, self._path = ports, node, path

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def __truediv__(self, name: str) -> "Sys":
        return Sys(self._ports, self._node, f"{self._path}/{name}" if self._path else name)

    def iterdir(self) -> Iterator["Sys"]:
        return (self / name for name in self._ports.listed(self._path))

    def read_bytes(self) -> bytes:
        return self._ports.read(self._node, self._path)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)
