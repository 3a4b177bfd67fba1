"""Kernel log lines in the form of /dev/kmsg: "priority,sequence,microseconds since boot,-;text"."""

from simulator.hostfs import BOOTED_S
from simulator.lines import Lines


class KernelLog:
    """The kernel logs of all nodes, numbered each for itself. `start_ms` is the wall clock at the fleet's start."""

    def __init__(self, sinks: list[Lines]) -> None:
        self._sinks = sinks
        self._sequence = [1200] * len(sinks)

    def say(self, node: int, at_s: float, text: str, priority: int = 6) -> None:
        """Append a line said `at_s` seconds after the fleet's start."""
        since_boot_us = round((BOOTED_S + at_s) * 1e6)
        line = f"{priority},{self._sequence[node]},{since_boot_us},-;{text}"
        self._sequence[node] += 1
        self._sinks[node].push("kmsg", line.encode())
