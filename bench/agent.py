"""What the agent of a node costs at 1 Hz: CPU of one core and memory, sampler process included, and bytes on the wire.

Runs the real agent (`lockstep agent`) with the real pynvml over a driver library built here (its calls cost nothing, so
this is our own cost, not the driver's), against the embedded broker in this process. In the same windows of time run
a plain nvidia-ml-py loop that asks the same fast set and throws it away, and Debian's prometheus-node-exporter, scraped
once a second. The least of several windows of ten seconds counts, because other work on the machine only ever adds;
each holds one reading of the ten-second tier, and the mean of all holds the minute's too. Last, the Inspector reader's
own line and single parts.

    python -m bench.agent
"""

# ruff: noqa: E402 (the bench finds the project by its own place)
import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from fake_clock import FakeClock
from fake_nvml import eight
from nvml_shim import build

from bench import beside, inspector
from bench.running import cpu_s, mib, settled, wire_bytes
from collectors.agent.core import AgentCore, Identity
from collectors.agent.spool import Spool
from collectors.gpu.collector import GpuCollector
from runtime.broker import EmbeddedBroker
from runtime.health import Counters
from schemas.codec import encode

WINDOW_S = 10.0
TARGET_PCT, TARGET_MIB = 1.0, 100.0
"""For 8 GPUs."""


class Cost(NamedTuple):
    """One process, or several together: the least of all windows and their mean in per cent of a core, and MiB."""

    least_pct: float
    mean_pct: float
    mib: float


class Measured:
    """CPU time of named groups of processes, window by window."""

    def __init__(self, groups: dict[str, list[int]]) -> None:
        self._groups = groups
        self._shares: dict[str, list[float]] = {name: [] for name in groups}

    def window(self, seconds: float) -> None:
        begun, before = time.monotonic(), self._spent()
        time.sleep(seconds)
        spent, elapsed = self._spent(), time.monotonic() - begun
        for name, shares in self._shares.items():
            shares.append(100 * (spent[name] - before[name]) / elapsed)

    def cost(self, name: str) -> Cost:
        shares = self._shares[name]
        return Cost(min(shares), sum(shares) / len(shares), sum(map(mib, self._groups[name])))

    def _spent(self) -> dict[str, float]:
        return {name: sum(map(cpu_s, pids)) for name, pids in self._groups.items()}


def whole_agent(generation: str, gpus: int, windows: int, exporter: int | None) -> None:
    """One line for each process that ran."""
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        broker = stack.enter_context(EmbeddedBroker())
        build(Path(name))
        environment = dict(os.environ) | {
            "LD_LIBRARY_PATH": name,
            "NVML_SHIM": generation,
            "NVML_SHIM_GPUS": str(gpus),
            "LOCKSTEP_BROKER_EMBEDDED": "true",
        }
        command = [
            sys.executable,
            "-m",
            "lockstep",
            "agent",
            "--broker",
            broker.address,
            "--spool-dir",
            name + "/spool",
        ]
        agent = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        stack.callback(_end, agent)
        plain = beside.plain_loop(generation, environment)
        stack.callback(_end, plain)
        pids = settled(agent.pid, 2)
        groups = {
            "agent and sampler": pids,
            "agent": pids[:1],
            "sampler": pids[1:],
            "plain nvidia-ml-py loop": [plain.pid],
        }
        if exporter is not None:
            groups["node exporter"] = [exporter]
        measured = Measured(groups)
        begun, sent = time.monotonic(), wire_bytes(agent.pid)
        for _ in range(windows):
            measured.window(WINDOW_S)
        elapsed, now = time.monotonic() - begun, wire_bytes(agent.pid)
        costs = {group: measured.cost(group) for group in groups}
        if plain.poll() is not None:
            raise SystemExit("the plain loop ended by itself")
    title = f"{gpus} GPUs ({generation}), 1 Hz"
    print(f"{title:<28}  least of {windows} x {WINDOW_S:g} s    resident    agent and sampler are")
    whole = costs["agent and sampler"]
    for group, cost in costs.items():
        ratio = f"{whole.least_pct / cost.least_pct:7.2f} times that" if cost.least_pct else ""
        print(f"  {group:<26}{cost.least_pct:6.2f} % (mean {cost.mean_pct:5.2f} %){cost.mib:8.1f} MiB   {ratio}")
    if gpus == 8:
        print(f"  of the target ({TARGET_PCT:g} %, {TARGET_MIB:g} MiB): {whole.least_pct / TARGET_PCT:.2f} CPU, "
              f"{whole.mib / TARGET_MIB:.2f} memory")  # fmt: skip
    if sent is None or now is None:
        print("  wire bytes: left out: the kernel does not let this process look at the agent's sockets")
    else:
        print(
            f"  on the wire, compressed, with Kafka's headers: {(now - sent) / elapsed / gpus:.0f} bytes a GPU-second"
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(20)


def timed(what: str, function: Callable[[], object], count: int) -> None:
    function()
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(count):
            function()
        best = min(best, (time.perf_counter() - begun) / count)
    print(f"  {what:<46} {1e6 * best:9.1f} us")


def parts() -> None:
    clock = FakeClock()
    print("parts")
    library = eight()
    core = AgentCore(Identity(cluster="c", node="n"), [GpuCollector(library, clock)], 1, clock, Counters())

    def tick() -> None:
        clock.advance(1.0)
        core.tick(clock.now_ms())

    timed("agent core over a Python fake of the driver", tick, 200)
    frame = core.tick(clock.now_ms() + 1000)[-1]
    timed(f"encode one node frame ({len(encode(frame))} bytes)", lambda: encode(frame), 5000)
    with tempfile.TemporaryDirectory() as name:
        spool, payload = Spool(Path(name), 64 << 20, Counters()), encode(frame)

        def through() -> None:
            at = spool.append("node-frames", "n", payload)
            spool.read(at, 10)
            spool.confirm(at + 1)

        timed("spool: accept, read, confirm one frame", through, 2000)
        spool.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.agent", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--windows", type=int, default=6, help="of ten seconds for each line (6: a whole minute)")
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 72], help="GPUs of the node (8 72)")
    parser.add_argument("--generations", nargs="+", default=["hopper", "blackwell"], choices=["hopper", "blackwell"])
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        exporter: int | None = None
        try:
            exporter = stack.enter_context(beside.node_exporter(folder)).pid
        except beside.NoExporter as why:
            print(f"node exporter: left out: {why}")
        if build(folder):
            for gpus in asked.gpus:
                for generation in asked.generations:
                    whole_agent(generation, gpus, asked.windows, exporter)
        else:
            print("whole agent: left out: no C compiler to build a driver library with")
    inspector.main()
    parts()


if __name__ == "__main__":
    main()
