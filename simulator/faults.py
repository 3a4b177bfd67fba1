"""The faults one can put in: for each cause its scope, how hard it acts, how it comes on and what it changes.

Sizes follow published measurements: a throttled GPU is about 20 % slower, congestion costs 15 to 35 % of a job's time
and up to 80 % at worst (Greyhound); one in six production faults of large jobs is GPU memory (Llama 3, 54 days);
garbage collection and data loading show in the data time, GPU and allocator trouble outside every reported phase
(Ascend fail-slow runs).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from schemas.causes import Cause, Scope
from simulator.effects import Effects, Hang, KernelLine
from simulator.target import Site
from simulator.topology import PCI

NVLINK = 6
"""The NVLink of the GPU that `nvlink_fault` spoils."""


class Moment(NamedTuple):
    """Where a fault stands: `elapsed_s` since its onset, `ramp` 0 to 1, `step_us` a healthy step, `rng` this tick's."""

    severity: float
    ramp: float
    elapsed_s: float
    step_us: float
    rng: np.random.Generator

    @property
    def factor(self) -> float:
        """1 before the fault, `severity` when it is fully there."""
        return 1 + (self.severity - 1) * self.ramp

    @property
    def extra_us(self) -> float:
        """What a step takes longer when slowed by `factor`."""
        return (self.factor - 1) * self.step_us


Act = Callable[[Effects, Site, Moment], None]


class Fault(NamedTuple):
    """One cause: its `scope`, its usual `severity` and what that number means, seconds until it is fully there.

    Most severities are a `ratio` to health (1.3: a third slower); a person may give the part instead (0.3).
    """

    scope: Scope
    severity: float
    meaning: str
    ramp_s: float
    act: Act
    ratio: bool = True

    def severity_of(self, given: float | None) -> float:
        """The severity to act with, `given` by a person or None."""
        if given is None:
            return self.severity
        return 1 + given if self.ratio and given <= 1 else given


def _gpu_degraded(e: Effects, site: Site, m: Moment) -> None:
    e.slowdown[site.gpus] = m.factor


def _gpu_contention(e: Effects, site: Site, m: Moment) -> None:
    e.foreign[site.gpus] = True
    e.slowdown[site.gpus] = m.factor


def _memory_bandwidth(e: Effects, site: Site, m: Moment) -> None:
    e.memory_slowdown[site.gpus] = m.factor


def _thermal_throttle(e: Effects, site: Site, m: Moment) -> None:
    e.throttle_to[site.gpus] = 1 / m.factor


def _power_brake(e: Effects, site: Site, m: Moment) -> None:
    e.clock_cap[site.gpus] = 1 / m.factor


def _gpu_memory_error(e: Effects, site: Site, m: Moment) -> None:
    e.sbe_per_s[site.gpus] = 4.0 * m.severity
    if m.elapsed_s < 3:
        return
    e.dbe_count[site.gpus] = 1
    e.remapped_count[site.gpus] = 1
    pci = _xid_pci(site)
    e.kernel += [
        KernelLine(site.node, 3.0, f"NVRM: Xid ({pci}): 48, pid=<unknown>, name=<unknown>, DBE (double bit error) "
                   "ECC error detected in HBM at partition 5, subpartition 1"),
        KernelLine(site.node, 3.1, f"NVRM: Xid ({pci}): 63, pid=<unknown>, name=<unknown>, Row remapping event: "
                   "bank 4, row 0x1c2e; remapping pending"),
        KernelLine(site.node, 3.2, f"NVRM: Xid ({pci}): 94, pid={site.pid}, name=python, Contained: SM (0x1). "
                   "RST: No, D-RST: No"),
    ]  # fmt: skip
    e.gone[site.gpus] = True
    e.hang = Hang("absent", site.ranks)


def _gpu_lost(e: Effects, site: Site, m: Moment) -> None:
    e.lost[site.gpus] = True
    e.kernel.append(
        KernelLine(site.node, 0.0, f"NVRM: Xid ({_xid_pci(site)}): 79, pid=<unknown>, name=<unknown>, "
                   "GPU has fallen off the bus.")
    )  # fmt: skip
    e.hang = Hang("absent", site.ranks)


def _pcie_degraded(e: Effects, site: Site, m: Moment) -> None:
    e.pcie_replays_per_s[site.gpus] = 40.0 * m.ramp
    e.host_us[site.gpus] = m.extra_us


def _nvlink_fault(e: Effects, site: Site, m: Moment) -> None:
    e.nvlink_slowdown[site.gpus] = m.factor
    e.nvlink_errors_per_s[site.gpus] = 25.0 * m.ramp
    e.kernel.append(
        KernelLine(site.node, 0.0, f"NVRM: Xid ({_xid_pci(site)}): 74, pid=<unknown>, name=<unknown>, "
                   f"NVLink: fatal error detected on link {NVLINK}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)")
    )  # fmt: skip


def _fabric_link(e: Effects, site: Site, m: Moment) -> None:
    e.link_slowdown[site.gpus] = m.factor
    e.port_errors_per_s[site.gpus] = 60.0 * m.ramp


def _fabric_congestion(e: Effects, site: Site, m: Moment) -> None:
    # Every port of the job, unevenly and changing: 10 000 to 30 000 notifications a second on a congested one.
    share = m.rng.uniform(0.6, 1.0, len(site.gpus))
    e.link_slowdown[site.gpus] = 1 + (m.factor - 1) * share
    e.congestion_per_s[site.gpus] = 25_000 * share * m.ramp


def _host_cpu(e: Effects, site: Site, m: Moment) -> None:
    e.cpu_load[site.node] = 0.9 * m.ramp
    e.host_us[site.gpus] = m.extra_us * m.rng.uniform(0.6, 1.4, len(site.gpus))


def _host_memory(e: Effects, site: Site, m: Moment) -> None:
    e.memory_taken[site.node] = 0.93 * m.ramp
    e.host_us[site.gpus] = m.extra_us * m.rng.uniform(0.3, 1.7, len(site.gpus))


def _host_io(e: Effects, site: Site, m: Moment) -> None:
    e.io_load[site.node] = 0.97 * m.ramp
    e.data_us[site.gpus] = m.extra_us * m.rng.uniform(0.5, 1.5, len(site.gpus))


def _data_loading(e: Effects, site: Site, m: Moment) -> None:
    e.data_us[site.gpus] = m.extra_us


def _python_stall(e: Effects, site: Site, m: Moment) -> None:
    # One collection every few steps: late in bursts, on time between them.
    if m.elapsed_s % 3 < 1:
        e.data_us[site.gpus] = m.extra_us


def _allocator_stall(e: Effects, site: Site, m: Moment) -> None:
    e.allocator_us[site.gpus] = m.extra_us * m.rng.uniform(0.7, 1.3)


def _sporadic_stall(e: Effects, site: Site, m: Moment) -> None:
    if m.rng.random() < 0.05:
        e.host_us[site.gpus] = m.extra_us * m.rng.uniform(0.5, 1.5)


def _process_gone(e: Effects, site: Site, m: Moment) -> None:
    e.gone[site.gpus] = True
    e.hang = Hang("absent", site.ranks)


def _node_lost(e: Effects, site: Site, m: Moment) -> None:
    e.silent[site.node] = True
    e.lost[site.gpus] = True
    e.hang = Hang("absent", site.ranks) if site.ranks else None


def _work_imbalance(e: Effects, site: Site, m: Moment) -> None:
    e.work[site.gpus] = m.factor


def _sequence_imbalance(e: Effects, site: Site, m: Moment) -> None:
    # Ranks of one tray share their sequences; who has the long one changes with every batch.
    trays = m.rng.random(len(site.gpus) // 4) ** 3
    e.work[site.gpus] = 1 + (m.factor - 1) * np.repeat(trays, 4)


def _workload_change(e: Effects, site: Site, m: Moment) -> None:
    e.work[site.gpus] = m.factor


def _collective_configuration(e: Effects, site: Site, m: Moment) -> None:
    e.link_slowdown[site.gpus] = m.factor
    e.nvlink_slowdown[site.gpus] = m.factor


def _not_entered(e: Effects, site: Site, m: Moment) -> None:
    # Where its process waits for a kernel of its own that never ends, its GPU spins like those of its peers: only
    # NCCL's RAS tells them apart.
    e.hang = Hang("absent", site.ranks, spins=m.severity >= 2)


def _gpu_stuck(e: Effects, site: Site, m: Moment) -> None:
    e.kernel_stuck[site.gpus] = True
    e.hang = Hang("stuck", site.ranks)
    if m.elapsed_s >= 6:
        e.kernel.append(
            KernelLine(site.node, 6.0, f"NVRM: Xid ({_xid_pci(site)}): 109, pid={site.pid}, name=python, "
                       "Ch 00000012, errorString CTX SWITCH TIMEOUT, Info 0x3c046")
        )  # fmt: skip


def _transport_stalled(e: Effects, site: Site, m: Moment) -> None:
    e.port_errors_per_s[site.gpus] = 200.0
    e.hang = Hang("transport", site.ranks)


def _leak(e: Effects, site: Site, m: Moment) -> None:
    e.leak[site.node] = True


def _coolant_flow(e: Effects, site: Site, m: Moment) -> None:
    e.flow[site.rack] = 1 / m.factor


def _coolant_temperature(e: Effects, site: Site, m: Moment) -> None:
    e.supply_add_c[site.rack] = m.severity * m.ramp


def _pump_fan(e: Effects, site: Site, m: Moment) -> None:
    # The standby pump takes over and does not quite reach the same flow.
    e.pump_failed[site.rack] = True
    e.flow[site.rack] = 1 / m.factor


def _sensor_fault(e: Effects, site: Site, m: Moment) -> None:
    e.sensor_broken[site.gpus] = True


def _clock_wrong(e: Effects, site: Site, m: Moment) -> None:
    e.clock_offset_ms[site.node] = int(m.severity * 1000)


def _pipeline(e: Effects, site: Site, m: Moment) -> None:
    e.silent[: len(e.silent) * 3 // 4] = True


_SLOW = "step time of this part, relative to health"
_LINK = "transfer time, relative to health"
UNUSED = "not used"

FAULTS: dict[Cause, Fault] = {
    "gpu_degraded": Fault("rank", 1.3, _SLOW, 0, _gpu_degraded),
    "gpu_contention": Fault("rank", 1.4, _SLOW, 0, _gpu_contention),
    "memory_bandwidth": Fault("rank", 1.35, _SLOW, 10, _memory_bandwidth),
    "thermal_throttle": Fault("rank", 1.25, "clock lost, as a ratio", 15, _thermal_throttle),
    "power_brake": Fault("rank", 1.5, "clock lost, as a ratio", 0, _power_brake),
    "gpu_memory_error": Fault(
        "rank", 1.0, "correctable errors, relative to 4 a second", 0, _gpu_memory_error, ratio=False
    ),
    "gpu_lost": Fault("rank", 1.0, UNUSED, 0, _gpu_lost),
    "pcie_degraded": Fault("rank", 1.25, _SLOW, 0, _pcie_degraded),
    "nvlink_fault": Fault("rank", 4.0, _LINK, 0, _nvlink_fault),
    "fabric_link": Fault("link", 3.0, _LINK, 0, _fabric_link),
    "fabric_congestion": Fault("job", 3.0, _LINK, 10, _fabric_congestion),
    "host_cpu": Fault("node", 1.4, _SLOW, 5, _host_cpu),
    "host_memory": Fault("node", 1.3, _SLOW, 10, _host_memory),
    "host_io": Fault("node", 1.4, _SLOW, 5, _host_io),
    "data_loading": Fault("rank", 1.5, _SLOW, 0, _data_loading),
    "python_stall": Fault("rank", 1.5, "step time of a step with a stall, one in three", 0, _python_stall),
    "allocator_stall": Fault("rank", 1.4, _SLOW, 0, _allocator_stall),
    "sporadic_stall": Fault("rank", 1.6, "step time of a step with a stall, one in twenty", 0, _sporadic_stall),
    "process_gone": Fault("rank", 1.0, UNUSED, 0, _process_gone),
    "node_lost": Fault("node", 1.0, UNUSED, 0, _node_lost),
    "work_imbalance": Fault("rank", 1.3, "work, relative to the peers", 0, _work_imbalance),
    "sequence_imbalance": Fault("job", 1.4, "longest work, relative to the shortest", 0, _sequence_imbalance),
    "workload_change": Fault("job", 1.3, "work of all ranks, relative to before", 0, _workload_change),
    "collective_configuration": Fault("job", 2.0, _LINK, 0, _collective_configuration),
    "not_entered": Fault("rank", 1.0, "1: its GPU idles; 2: it spins as those that wait", 0, _not_entered, ratio=False),
    "gpu_stuck": Fault("rank", 1.0, UNUSED, 0, _gpu_stuck),
    "transport_stalled": Fault("link", 1.0, UNUSED, 0, _transport_stalled),
    "leak": Fault("node", 1.0, UNUSED, 0, _leak),
    "coolant_flow": Fault("rack", 3.0, "flow lost, as a ratio", 15, _coolant_flow),
    "coolant_temperature": Fault("rack", 20.0, "kelvin added to the supply", 30, _coolant_temperature, ratio=False),
    "pump_fan": Fault("rack", 1.3, "flow lost, as a ratio", 5, _pump_fan),
    "sensor_fault": Fault("rank", 1.0, UNUSED, 0, _sensor_fault),
    "clock_wrong": Fault("node", 120.0, "seconds ahead", 0, _clock_wrong, ratio=False),
    "pipeline": Fault("cluster", 1.0, UNUSED, 0, _pipeline),
}


def _xid_pci(site: Site) -> str:
    """The address as XID lines write it: `PCI:0009:01:00`."""
    return "PCI:" + PCI[site.slot].rsplit(".", 1)[0]
