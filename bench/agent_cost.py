"""What the agent of an 8-GPU node costs at 1 Hz: CPU of one core and memory, sampler process included.

Runs the real agent (`lockstep agent`) with the real pynvml over a driver library built here (its calls cost nothing,
so this is our own cost, not the driver's), against the embedded broker in this process. Then the cost of single parts.

    python bench/agent_cost.py [SECONDS]
"""

# ruff: noqa: E402 (the bench finds the project by its own place)
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from fake_clock import FakeClock
from fake_nvml import eight
from nvml_shim import build

from collectors.agent import AgentCore, Identity
from collectors.gpu import GpuCollector
from collectors.spool import Spool
from runtime.broker import EmbeddedBroker
from runtime.health import Counters
from schemas.codec import encode

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(child for text in children for child in family(int(text)))]


def cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / CLOCK_TICKS


def kib(pid: int, name: str) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":"))


def settled(pid: int, window_s: float = 4.0, most_s: float = 120.0) -> list[int]:
    """The agent's processes, once imports and the first connection are over, which are not 1 Hz."""
    time.sleep(8)
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        pids = family(pid)
        before = sum(map(cpu_s, pids))
        time.sleep(window_s)
        if family(pid) == pids and sum(map(cpu_s, pids)) - before < 0.1 * window_s:
            return pids
    raise SystemExit("the agent does not come to rest")


def whole_agent(seconds: float, profile: str) -> None:
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker() as broker:
        folder = Path(name)
        if not build(folder):
            print("whole agent: no C compiler to build a driver library with")
            return
        environment = dict(os.environ) | {
            "LD_LIBRARY_PATH": name,
            "NVML_SHIM": profile,
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
        try:
            pids = settled(agent.pid)
            begun, before = time.monotonic(), [cpu_s(pid) for pid in pids]
            time.sleep(seconds)
            spent = [cpu_s(pid) - s for pid, s in zip(pids, before, strict=True)]
            elapsed = time.monotonic() - begun
            rss, pss = [kib(pid, "Rss") / 1024 for pid in pids], [kib(pid, "Pss") / 1024 for pid in pids]
        finally:
            agent.terminate()
            agent.wait(20)
    print(f"whole agent, 8 GPUs ({profile}), 1 Hz, {elapsed:.0f} s, {len(pids)} processes")
    print(f"  CPU      {100 * sum(spent) / elapsed:6.2f} % of one core  ({_parts(spent, elapsed)})")
    print(f"  memory   {sum(rss):6.1f} MiB resident, {sum(pss):.1f} MiB of them its own share")


def _parts(spent: list[float], elapsed: float) -> str:
    names = ("agent", "sampler", "other", "other")
    return ", ".join(f"{name} {100 * s / elapsed:.2f}" for name, s in zip(names, spent, strict=False))


def timed(what: str, function: object, count: int) -> None:
    assert callable(function)
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


if __name__ == "__main__":
    duration_s = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    for generation in ("hopper", "blackwell"):
        whole_agent(duration_s, generation)
    parts()
