"""Heat, power, clocks and counters of every GPU: from what it does and how it is cooled, tick by tick.

Sizes are a GB200 NVL72's: about 120 kW a rack of 72 GPUs, 1200 W the limit of one GPU. Shapes of the behaviour are
measured on others: GPUs of one tray run at 58 to 72 C by slot at equal power; the power cap bit is set in nine of ten
samples at full load and is no fault; nodes differ by up to 2 % for good; a GPU cools to idle in about 100 s.
"""

from dataclasses import dataclass

import numpy as np

from simulator.effects import Effects, Flags, Floats
from simulator.topology import GPUS_PER_TRAY, Topology

POWER_LIMIT_W = 1200.0
WORK_W = 1150.0
IDLE_W = 120.0
"""A tenth of the limit, as an idle H100 draws 70 W of 700."""

LOADED_W = 205.0
"""Idle with a model in memory: 120 W of 700 on an H100."""

SPIN_W = 430.0
"""Waiting inside a collective: the kernel spins, no tensor core works."""

HOST_W = 1100.0
"""The rest of a tray: two CPUs, four ports, two DPUs."""

TYPICAL_W = 1065.0
"""Average over a training step that computes 88 % and communicates 11 % of the time."""

SLOT_C = (58.0, 63.0, 67.0, 72.0)
"""GPU temperature by slot at TYPICAL_W and nominal cooling."""

SUPPLY_C = 32.0
NOMINAL_RISE_C = 12.0
"""Coolant supply (31.9 to 33.1 C) and rise over a loaded rack (10 to 14 K): NVIDIA's rack sample."""

HEAT_J_PER_LITRE_K = 1.015 * 3970
"""PG25: 1.015 kg/L, 3.97 kJ/(kg K)."""

LIMIT_C = 87.0
"""Where the margin (T.Limit) is 0 and the driver begins to lower the clock."""

HARDWARE_C = 89.0
"""2 K past it the hardware slows down by itself (T.Limit -2 on H100)."""

THROTTLE_PER_C = 0.04
HEAT_LAG_S = 20.0

SM_MHZ, IDLE_MHZ, MEMORY_MHZ = 1920.0, 345.0, 3996.0
MEMORY_MIB, JOB_MIB, FOREIGN_MIB, EMPTY_MIB = 189_471.0, 154_000.0, 11_000.0, 640.0

TENSOR_BYTES, DATA_BYTES = 9.7e9, 4.3e9
"""NVLink and network bytes a rank sends in a step (the collectives of `timeline.STEP`)."""

PCIE_BYTES = 0.25e9

IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80
"""Clocks event reasons (nvmlClocksEventReason...)."""


@dataclass
class Sensors:
    """What the GPUs' sensors say at a tick; arrays (GPUs,). Counters are totals since the driver's load."""

    power_w: Floats
    temperature_c: Floats
    memory_temperature_c: Floats
    sm_clock_mhz: Floats
    reasons: Floats
    gpu_utilization_pct: Floats
    memory_utilization_pct: Floats
    memory_used_mib: Floats
    sm_active_pct: Floats
    tensor_active_pct: Floats
    dram_active_pct: Floats


class Physics:
    """The GPUs' state. `counters` are running totals (GPUs,) by name: energy_mj, the four times lost in nanoseconds,
    bytes and errors."""

    def __init__(self, topology: Topology, rng: np.random.Generator) -> None:
        g = topology.gpu_count
        self._rng = rng
        self._rack, self._trays = topology.rack_of_gpu, topology.trays
        self._racks = topology.racks
        self._slot_of_gpu = topology.slot_of_gpu
        self._node_factor = np.repeat(np.clip(rng.normal(1, 0.01, len(topology.nodes)), 0.98, 1.02), GPUS_PER_TRAY)
        at_work = np.array(SLOT_C)[self._slot_of_gpu] + rng.normal(0, 0.8, g)
        self._resistance = (at_work - SUPPLY_C - NOMINAL_RISE_C / 2) / TYPICAL_W
        self._flow_lpm = np.full(topology.racks, 0.0)
        self._nominal_lpm = (TYPICAL_W * 4 + HOST_W) * self._trays * 60 / (HEAT_J_PER_LITRE_K * NOMINAL_RISE_C)
        self._average_w = np.full(g, IDLE_W)
        self._rise_c = np.full(self._racks, 1.0)
        self.temperature_c = np.full(g, SUPPLY_C + 4.0)
        self.clock = np.ones(g)
        self.supply_c = np.full(self._racks, SUPPLY_C)
        self.counters: dict[str, Floats] = {name: np.zeros(g) for name in COUNTERS}
        self.counters["energy_mj"] += rng.integers(10**9, 10**12, g)
        self.counters["pcie_replays"] += rng.integers(0, 9, g)  # a healthy idle H100 showed 7
        nothing = np.zeros(g)
        self.sensors = self._read(Effects.neutral(topology), nothing, nothing, nothing, nothing > 0, nothing)

    @property
    def average_w(self) -> Floats:
        """Power of each GPU over the last tick."""
        return self._average_w

    @property
    def flow_lpm(self) -> Floats:
        """Coolant flow of each rack."""
        return self._flow_lpm

    @property
    def rise_c(self) -> Floats:
        """Return minus supply temperature of each rack."""
        return self._rise_c

    def settle(self, effects: Effects, busy: Floats, spin: Floats, member: Flags) -> None:
        """Start warm: what steady work at these shares leads to, without an hour of simulation."""
        for _ in range(30):
            self.advance(10.0, effects, busy, spin, member, busy > 0.5, busy)

    def advance(
        self,
        seconds: float,
        effects: Effects,
        busy: Floats,
        spin: Floats,
        member: Flags,
        computing: Flags,
        steps: Floats,
    ) -> None:
        """One tick of work. Arrays (GPUs,): shares of the tick in own kernels (`busy`) and in NCCL's (`spin`), whether
        the GPU holds a process of the job, whether its own kernel ran at the tick, training steps done."""
        self._set_clock(effects)
        rest = LOADED_W * member + IDLE_W * ~member
        intensity = self.clock**2 / effects.slowdown
        work_w = rest + (WORK_W * self._node_factor - rest) * np.minimum(intensity, 1.0)
        free = np.clip(1 - busy - spin, 0, 1)
        foreign = np.where(effects.foreign, free * 0.6 + 0.15 * busy, 0.0)
        self._average_w = np.minimum(
            work_w * busy + SPIN_W * spin + rest * free + foreign * 500.0, POWER_LIMIT_W
        ) * self._rng.normal(1, 0.004, len(busy))
        self._average_w[effects.lost] = 0.0
        now_w = np.where(computing, work_w, np.where(spin > 0, SPIN_W, rest)) * self._rng.normal(1, 0.012, len(busy))
        self._heat(seconds, effects)
        self._count(seconds, effects, busy, steps)
        self.sensors = self._read(effects, busy, spin, np.minimum(now_w, POWER_LIMIT_W), member, foreign)

    def _set_clock(self, effects: Effects) -> None:
        hot = np.clip(1 - THROTTLE_PER_C * (self.temperature_c - LIMIT_C), 0.3, 1.0)
        self.clock = np.minimum(hot, effects.clock_cap)

    def _heat(self, seconds: float, effects: Effects) -> None:
        """First-order lag towards coolant temperature plus resistance times power.

        Half of the resistance is the coolant's film, which thickens as the flow falls (exponent 0.6, between laminar
        and turbulent); the other half is the package.
        """
        self.supply_c = SUPPLY_C + effects.supply_add_c + self._rng.normal(0, 0.05, self._racks)
        self._flow_lpm = self._nominal_lpm * effects.flow * self._rng.normal(1, 0.006, self._racks)
        heat_w = np.bincount(self._rack, self._average_w, self._racks) + HOST_W * self._trays
        target_rise = heat_w * 60 / (HEAT_J_PER_LITRE_K * self._flow_lpm)
        follow = 1 - np.exp(-seconds / HEAT_LAG_S)
        self._rise_c += (target_rise - self._rise_c) * follow
        coolant = (self.supply_c + self._rise_c / 2)[self._rack]
        film = 0.5 + 0.5 * effects.flow[self._rack] ** -0.6
        resistance = self._resistance * film
        spoiled = effects.throttle_to < 1
        if spoiled.any():
            resistance = np.where(spoiled, self._resistance_for(effects.throttle_to, coolant), resistance)
        target = coolant + resistance * self._average_w
        self.temperature_c += (target - self.temperature_c) * follow

    def _resistance_for(self, ratio: Floats, coolant_c: Floats) -> Floats:
        """The thermal resistance at which the clock settles at `ratio`."""
        power = LOADED_W + (WORK_W - LOADED_W) * ratio**2
        return (LIMIT_C + (1 - ratio) / THROTTLE_PER_C - coolant_c) / power

    def _count(self, seconds: float, effects: Effects, busy: Floats, steps: Floats) -> None:
        c, lost_ns = self.counters, seconds * 1e9
        full = self._average_w > 0.75 * WORK_W
        c["energy_mj"] += np.rint(self._average_w * seconds * 1e3)
        c["power_cap_ns"] += np.rint(lost_ns * np.where(full, self._rng.uniform(0.80, 0.95, len(full)), 0.0))
        c["sw_thermal_ns"] += np.rint(lost_ns * busy * (self.temperature_c > LIMIT_C))
        c["hw_thermal_ns"] += np.rint(lost_ns * busy * 0.7 * (self.temperature_c > HARDWARE_C))
        c["brake_ns"] += np.rint(lost_ns * 0.98 * (effects.clock_cap < 1))
        nvlink = TENSOR_BYTES * steps
        c["nvlink_tx_bytes"] += np.rint(nvlink)
        c["nvlink_rx_bytes"] += np.rint(nvlink)
        c["port_bytes"] += np.rint(DATA_BYTES * steps)
        c["pcie_bytes"] += np.rint(PCIE_BYTES * steps + 2e5 * seconds)
        c["sbe"] += self._rng.poisson(effects.sbe_per_s * seconds)
        c["nvlink_errors"] += self._rng.poisson(effects.nvlink_errors_per_s * seconds)
        c["pcie_replays"] += self._rng.poisson(effects.pcie_replays_per_s * seconds)
        c["port_errors"] += self._rng.poisson(effects.port_errors_per_s * seconds)
        c["congestion"] += self._rng.poisson(effects.congestion_per_s * seconds)

    def _read(
        self, effects: Effects, busy: Floats, spin: Floats, now_w: Floats, member: Flags, foreign: Floats
    ) -> Sensors:
        rng, g = self._rng, len(busy)
        at_work = (busy + spin) > 0.05
        thermal = self.temperature_c > LIMIT_C
        reasons = np.where(at_work, 0, IDLE)
        reasons |= np.where(at_work & (self._average_w > 0.75 * WORK_W) & (rng.random(g) < 0.9), POWER_CAP, 0)
        reasons |= np.where(at_work & thermal, SW_THERMAL, 0)
        reasons |= np.where(at_work & (self.temperature_c > HARDWARE_C), HW_THERMAL | HW_SLOWDOWN, 0)
        reasons |= np.where(effects.clock_cap < 1, BRAKE | HW_SLOWDOWN, 0)
        dram = 0.36 * busy * np.where(effects.memory_slowdown > 1, 1.8, 1.0)
        noise = rng.normal(1, 0.015, (3, g))
        running = at_work | (foreign > 0)
        temperature = self.temperature_c + rng.normal(0, 0.25, g)
        return Sensors(
            power_w=now_w,
            temperature_c=temperature,
            memory_temperature_c=temperature + 6 + 8 * dram,
            sm_clock_mhz=np.where(running, SM_MHZ * self.clock + rng.normal(0, 8, g), IDLE_MHZ),
            reasons=reasons.astype(float),
            gpu_utilization_pct=np.clip(100 * np.maximum(busy + spin, foreign), 0, 100),
            memory_utilization_pct=np.clip(90 * dram * noise[0], 0, 100),
            memory_used_mib=EMPTY_MIB + JOB_MIB * member + FOREIGN_MIB * effects.foreign,
            sm_active_pct=np.clip(100 * (0.84 * busy + 0.13 * spin + 0.5 * foreign) * noise[1], 0, 100),
            tensor_active_pct=np.clip(100 * 0.46 * busy * self.clock / effects.slowdown * noise[2], 0, 100),
            dram_active_pct=np.clip(100 * dram * noise[0], 0, 100),
        )


COUNTERS = (
    "energy_mj", "power_cap_ns", "sw_thermal_ns", "hw_thermal_ns", "brake_ns", "nvlink_tx_bytes", "nvlink_rx_bytes",
    "port_bytes", "pcie_bytes", "sbe", "nvlink_errors", "pcie_replays", "port_errors", "congestion",
)  # fmt: skip
