"""Why: from the culprit's own readings, its host and the timing to a cause, a runner-up and how sure that is.

Each clue speaks for one cause with a weight, roughly the logarithm of how much likelier it makes it (1: a hint,
3: strong, 5: the driver says so). Confidence is the softmax of the sums against "something else". After the table of
root causes in the notes (5.1): only the culprit's own deviations count, the power cap bit alone is no fault, and below
the margin the answer is "unknown".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detectors.event_rules import XID_CAUSES
from schemas.causes import Cause
from schemas.features import GpuFeatures
from schemas.finding import Evidence

MARGIN = 0.5
"""The best cause must be this much likelier (in log) than the next, else the answer is unknown."""

LEAST = 1.0
"""A cause needs at least one real clue."""

ELSE = 0.5
"""Weight of "something that we do not see"."""

THERMAL_BITS = 0x20 | 0x40
BRAKE_BIT = 0x80

CLOCK_DOWN = 0.97
"""A clock 3 % below its own usual one at work; boost steps are about 1 %."""

THROTTLED_SHARE = 0.1
"""A tenth of the time held down."""

FOREIGN_MIB, FOREIGN_SHARE = 2048.0, 0.03
"""Another process on the GPU takes gigabytes; a running job's own memory use stands still."""

FAR = 4.0
"""Robust z from which a reading counts as moved."""


class Witness(NamedTuple):
    """What is known of a culprit. `peers` are other GPUs of the job now, `hosts` the host readings of the other nodes.

    `data_share` and `allocator_share` are the parts of its excess time spent there; `timed` says whether steps told us
    about its own time at all; `sporadic` that few steps hold most of it, of a node that its ranks are slow one after
    the other; `node` that a whole node is meant.
    """

    gpu: GpuFeatures | None = None
    peers: Sequence[GpuFeatures] = ()
    host: Mapping[str, float] = {}
    hosts: Sequence[Mapping[str, float]] = ()
    timed: bool = False
    data_share: float = 0.0
    allocator_share: float = 0.0
    sporadic: bool = False
    node: bool = False


class Clue(NamedTuple):
    """One fact that speaks for `cause`."""

    cause: Cause
    weight: float
    evidence: Evidence


class Verdict(NamedTuple):
    """The cause, how sure, and what else it could be."""

    cause: Cause
    confidence: float
    runner_up: Cause | None
    evidence: tuple[Evidence, ...]


def judge(witness: Witness) -> Verdict:
    """The cause of one slow rank, GPU or node."""
    clues = [clue for look in LOOKS for clue in look(witness)]
    return weigh(clues, _default(witness, clues))


def weigh(clues: Sequence[Clue], default: Mapping[Cause, float]) -> Verdict:
    """Add the clues up; `default` holds what is likely without any."""
    weights: dict[Cause, float] = dict(default)
    for clue in clues:
        weights[clue.cause] = weights.get(clue.cause, 0.0) + clue.weight
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    evidence = tuple(clue.evidence for clue in sorted(clues, key=lambda c: -c.weight))[:6]
    if not ranked:
        return Verdict("unknown", 0.0, None, evidence)
    best, weight = ranked[0]
    second = ranked[1] if len(ranked) > 1 else None
    total = math.exp(ELSE) + sum(math.exp(w) for w in weights.values())
    confidence = round(math.exp(weight) / total, 3)
    if weight < LEAST or (second is not None and weight - second[1] < MARGIN):
        return Verdict("unknown", confidence, best, evidence)
    return Verdict(best, confidence, second[0] if second else None, evidence)


def _default(w: Witness, clues: Sequence[Clue]) -> dict[Cause, float]:
    if w.node:
        if w.sporadic:
            return {"host_memory": 1.0, "host_io": 1.0}  # few long stalls, of one rank after the other: either
        return {"host_cpu": 1.2, "host_memory": 0.6} if w.timed else {"host_cpu": 0.8}
    if w.data_share >= 0.5 or w.allocator_share >= 0.3:
        return {}
    if w.sporadic:
        return {"gpu_degraded": 0.6}  # what is wrong with a GPU shows in every step, not now and then
    held = any(clue.cause in ("thermal_throttle", "power_brake") for clue in clues)
    if w.gpu is not None and "sm_clock_mhz" in w.gpu.readings and not held:
        # Its clock was looked at and nothing holds it down: slow at equal clocks is the GPU itself.
        return {"gpu_degraded": 2.0}
    return {"gpu_degraded": 1.3, "gpu_contention": 0.6} if w.timed else {"gpu_degraded": 0.6}


def _events(w: Witness) -> list[Clue]:
    if w.gpu is None:
        return []
    clues = []
    for recent in w.gpu.recent:
        name, _, age = recent.partition("@")
        kind, _, code = name.partition(":")
        cause: Cause | None = None
        if kind == "xid" and code.isdigit():
            cause = XID_CAUSES.get(int(code))
        elif kind in ("gpu_lost", "nvlink"):
            cause = "gpu_lost" if kind == "gpu_lost" else "nvlink_fault"
        if cause is not None:
            text = f"{name.upper().replace(':', ' ')} on this GPU {age} ago" if age else f"{name} on this GPU"
            clues.append(Clue(cause, 5.0, Evidence(text=text, metric=name)))
    return clues


def _clocks(w: Witness) -> list[Clue]:
    gpu = w.gpu
    if gpu is None:
        return []
    clues = []
    clock, usual = gpu.readings.get("sm_clock_mhz"), gpu.centres.get("sm_clock_mhz")
    down = clock is not None and usual is not None and clock < CLOCK_DOWN * usual
    reasons = int(gpu.readings.get("clocks_event_reasons", 0))
    thermal = max(gpu.readings.get("software_thermal_share", 0.0), gpu.readings.get("hardware_thermal_share", 0.0))
    brake = gpu.readings.get("power_brake_share", 0.0)
    hot = _z(gpu, "temperature_c") >= FAR
    slower = _change(gpu, "sm_clock_mhz", "SM clock", "MHz") if down else None
    if thermal > THROTTLED_SHARE or reasons & THERMAL_BITS:
        text = f"throttled for heat {thermal:.0%} of the time at {gpu.readings.get('temperature_c', math.nan):.0f} C"
        clues.append(Clue("thermal_throttle", 3.0, Evidence(text=text, metric="hardware_thermal_share", value=thermal)))
        if slower is not None:
            clues.append(Clue("thermal_throttle", 1.5, slower))
    elif brake > THROTTLED_SHARE or reasons & BRAKE_BIT:
        text = f"the power brake holds the clock {brake:.0%} of the time"
        clues.append(Clue("power_brake", 3.0, Evidence(text=text, metric="power_brake_share", value=brake)))
        if slower is not None:
            clues.append(Clue("power_brake", 1.5, slower))
    elif slower is not None:
        clues.append(Clue("thermal_throttle" if hot else "power_brake", 1.5 if hot else 1.0, slower))
    if hot and (thermal > THROTTLED_SHARE or down):
        clues.append(Clue("thermal_throttle", 1.0, _change(gpu, "temperature_c", "temperature", "C")))
    return clues


def _work(w: Witness) -> list[Clue]:
    gpu = w.gpu
    if gpu is None:
        return []
    clues = []
    memory_clock, usual = gpu.readings.get("memory_clock_mhz"), gpu.centres.get("memory_clock_mhz")
    if memory_clock is not None and usual is not None and memory_clock < CLOCK_DOWN * usual:
        clues.append(Clue("memory_bandwidth", 3.5, _change(gpu, "memory_clock_mhz", "memory clock", "MHz")))
    own = gpu.centres.get("memory_used_mib", math.inf)
    foreign = gpu.readings.get("memory_used_mib", 0.0) - own
    if foreign > max(FOREIGN_MIB, FOREIGN_SHARE * own):
        text = f"{foreign:.0f} MiB more GPU memory in use than this job's usual amount: another process is on the GPU"
        clues.append(Clue("gpu_contention", 2.8, Evidence(text=text, metric="memory_used_mib", value=foreign)))
    busier = _rise(gpu, "dram_active_ratio")
    # A slower GPU computes for longer too; only memory that got busier than the tensor cores did is a sign of its own.
    if _z(gpu, "dram_active_ratio") >= FAR and busier > max(1.2, 1.25 * _rise(gpu, "tensor_active_ratio", 1.0)):
        clues.append(Clue("memory_bandwidth", 3.0, _change(gpu, "dram_active_ratio", "memory active", "")))
    return clues


def _counters(w: Witness) -> list[Clue]:
    gpu = w.gpu
    if gpu is None:
        return []
    table: tuple[tuple[str, Cause, float, str], ...] = (
        ("ecc_dbe_count", "gpu_memory_error", 5.0, "uncorrectable memory errors"),
        ("ecc_sbe_count", "gpu_memory_error", 1.5, "corrected memory errors"),
        ("remap_pending", "gpu_memory_error", 3.0, "row remapping pending"),
        ("nvlink_error_count", "nvlink_fault", 3.0, "NVLink errors"),
        ("pcie_replay_count", "pcie_degraded", 3.0, "PCIe replays"),
    )
    return [
        Clue(cause, weight, Evidence(text=f"{words}: {count:g} in the last tick", metric=name, value=count))
        for name, cause, weight, words in table
        if (count := gpu.readings.get(name, 0.0)) > 0 and count > 2 * gpu.centres.get(name, 0.0)
    ]


def _host(w: Witness) -> list[Clue]:
    """Host readings against the other nodes' now. A busy host says more of a whole node than of one rank."""
    if not w.host:
        return []
    scale = 1.0 if w.node else 0.6
    clues = []
    for cause, weight, name, least, above, words in HOST_SIGNS:
        value = w.host.get(name, math.nan)
        others = [host[name] for host in w.hosts if name in host]
        usual = float(np.median(others)) if others else 0.0
        if value >= least and value >= usual + above:
            text = f"{words} {value:.0f} %, other nodes {usual:.0f} %" if others else f"{words} {value:.0f} %"
            clues.append(Clue(cause, scale * weight, Evidence(text=text, metric=name, value=value, peers=usual)))
    total, free = w.host.get("memory_total_mib", 0.0), w.host.get("memory_available_mib", math.inf)
    if total and free < 0.1 * total:
        text = f"{free / total:.0%} of the host's memory is available"
        clues.append(Clue("host_memory", 2.5 * scale, Evidence(text=text, metric="memory_available_mib", value=free)))
    return clues


HOST_SIGNS: tuple[tuple[Cause, float, str, float, float, str], ...] = (
    ("host_cpu", 2.0, "cpu_utilization_pct", 60.0, 25.0, "host CPUs are busy"),
    ("host_cpu", 2.0, "cpu_pressure_pct", 20.0, 15.0, "processes wait for CPUs"),
    ("host_cpu", 2.0, "cpu_steal_pct", 10.0, 10.0, "CPU time stolen by the hypervisor"),
    ("host_memory", 3.0, "memory_pressure_pct", 10.0, 10.0, "processes wait for memory"),
    ("host_io", 3.0, "io_pressure_pct", 15.0, 15.0, "processes wait for storage"),
    ("host_io", 2.0, "disk_busy_pct", 80.0, 40.0, "the busiest disk is busy"),
)
"""Cause, weight, reading, from which value on, how far above the other nodes, words. Some processes waiting a fifth of
the time is contention by the kernel's own measure (pressure stall information)."""


def _timing(w: Witness) -> list[Clue]:
    clues = []
    if w.timed and w.gpu is None and not w.node and max(w.data_share, w.allocator_share) < 0.3:
        text = "no readings of its GPU at hand: a slow GPU, or another process on it"
        clues.append(Clue("gpu_degraded", 0.0, Evidence(text=text)))
    if w.allocator_share >= 0.3:
        text = f"{w.allocator_share:.0%} of its additional time is spent in the GPU memory allocator"
        clues.append(Clue("allocator_stall", 3.0, Evidence(text=text, value=w.allocator_share)))
    elif w.data_share >= 0.5:
        text = f"{w.data_share:.0%} of its additional time is spent before the step's first kernel, in data loading"
        evidence = Evidence(text=text, metric="data_us", value=w.data_share)
        clues.append(Clue("data_loading", 1.5 if w.sporadic else 2.5, evidence))
        clues.append(Clue("python_stall", 2.5 if w.sporadic else 1.5, evidence))
    elif w.sporadic and w.timed and not w.node:
        text = "a few slow steps make up most of its additional time"
        clues.append(Clue("sporadic_stall", 2.0, Evidence(text=text)))
    return clues


LOOKS: tuple[Callable[[Witness], list[Clue]], ...] = (_events, _clocks, _work, _counters, _host, _timing)


def _z(gpu: GpuFeatures, name: str) -> float:
    return gpu.z.get(name, 0.0)


def _rise(gpu: GpuFeatures, name: str, otherwise: float = math.nan) -> float:
    value, usual = gpu.readings.get(name), gpu.centres.get(name)
    return value / usual if value is not None and usual else otherwise


def _change(gpu: GpuFeatures, name: str, words: str, unit: str) -> Evidence:
    value, usual = gpu.readings.get(name, math.nan), gpu.centres.get(name, math.nan)
    digits = 0 if abs(usual) >= 10 else 2
    text = f"{words} {value:.{digits}f}{unit and ' ' + unit}, usually {usual:.{digits}f}{unit and ' ' + unit}"
    return Evidence(text=text, metric=name, value=value, baseline=usual, unit=unit)
