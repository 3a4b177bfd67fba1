"""What parts drift towards: each limit with its source, and how its values are said.

Error rates and counts of events an hour are watched as powers of ten: what fails doubles again and again.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from schemas.causes import Cause


class Limit(NamedTuple):
    """One series and what it must not come to. `show` says a value, `why` the limit. A `falling` one comes to it from
    above; `floor` is where it begins to matter."""

    name: str
    metric: str
    cause: Cause
    confidence: float
    words: str
    limit: float
    why: str
    show: Callable[[float], str]
    falling: bool = False
    floor: float = -math.inf


def degrees(value: float) -> str:
    return f"{value:.1f} K"


def percent(value: float) -> str:
    return f"{value:.0f} %"


def power_of_ten(value: float) -> str:
    """
    >>> power_of_ten(-14.13)
    '10^-14.1'
    """
    return f"10^{value:.1f}"


def each_hour(value: float) -> str:
    """Of log10(1 + events an hour).

    >>> each_hour(2.0)
    '99 an hour'
    """
    return f"{max(10**value - 1, 0):.3g} an hour"


MARGIN = Limit(
    "thermal_margin", "thermal_margin_c", "thermal_throttle", 0.6, "thermal margin at work", -2.0,
    "below -2 K the hardware slows down", degrees, falling=True,
)  # fmt: skip
"""The slowdown offset of H100, GB200, GB300 and L40 (NVML field 194; NVSentinel's GpuThermalMarginWatch); B200 has one
degree more. It must leave the other GPUs of its node as well: warmer water and a heavier job are no risk of a part."""

BIT_ERRORS = Limit(
    "nvlink_ber", "effective_ber_log10", "nvlink_fault", 0.6, "bit error rate of its worst NVLink", -12.0,
    "DCGM fails a link above 10^-12", power_of_ten, floor=-18.0,
)  # fmt: skip
"""DCGM 4.6's health check of NVLinks (effective rate). At 1e-18 a lane of 200 Gb/s has one error in two months: below
it lies no trend, and a link without any error says 1.5e-254."""

FEC = Limit(
    "nvlink_fec", "fec_5_per_s", "nvlink_fault", 0.5, "codewords a second with five or more wrong symbols on its worst "
    "NVLink", 6.0, "correction fails from some 10^6 a second", power_of_ten, floor=-2.0,
)  # fmt: skip
"""One a second is a rate before correction of 1.5e-5 (`detectors.node.link_fec`); the code, RS(544,514), is made for
2.4e-4, sixteen times as much, and 16^5 is 1e6. The floor is one codeword in a minute and a half."""

PCIE_REPLAYS = Limit(
    "pcie_replays", "pcie_replay_count", "pcie_degraded", 0.6, "PCIe replays", math.log10(1 + 31 * 60),
    "DCGM warns from 31 a minute, 1,860 an hour", each_hour,
)  # fmt: skip
"""DCGM 4.6 warns above lanes x gigabits per lane / 1000 x 60 replays a minute: 31 for a fifth-generation link of 16
lanes. Slower links have lower limits: for them the stated time is late."""

ECC_LIMIT = 50_000_000.0

CORRECTED = Limit(
    "ecc_corrected", "ecc_sbe_count", "gpu_memory_error", 0.5, "corrected memory errors",
    math.log10(1 + ECC_LIMIT / (30 * 24)), "69,444 an hour are 50 million a month", each_hour,
)  # fmt: skip
"""Corrected errors by themselves are what ECC is for, and nobody publishes a rate that is bad; gcm fails a GPU at 50
million since the driver was loaded. As a rate: what comes to that within a month."""

GPU_LIMITS = (MARGIN, BIT_ERRORS, FEC, PCIE_REPLAYS, CORRECTED)

FAN_EFFORT = Limit(
    "fan_effort", "speed_pct", "pump_fan", 0.6, "fan speed", 100.0, "fans have no more than 100 %", percent,
)  # fmt: skip
PUMP_EFFORT = Limit(
    "pump_effort", "pump_speed_pct", "pump_fan", 0.6, "pump speed", 100.0, "pumps have no more than 100 %", percent,
)  # fmt: skip
VALVE_OPENING = Limit(
    "valve_opening", "valve_pct", "coolant_flow", 0.5, "valve opening", 100.0, "a valve opens to 100 %", percent,
)  # fmt: skip
"""A controller that must do more and more for the same cooling (dust, a clogged filter, a worn pump) has an end where
it can do no more; from there on temperatures rise."""

REMAP_ROWS = 512
"""Row remaps of uncorrectable errors from which DCGM 4.6 warns. A single bank has far fewer spare rows; when one has
none left the remap fails, which is `remap_failed`."""

HEALTHY_DAYS = 1_000.0
"""A healthy GPU has one uncorrectable memory error, or one XID that speaks of hardware, in at least so many days.
Published: memory, H100 3,699 days and A100 11,803 (Delta, 2.5 years, 1,056 GPUs: arXiv 2503.11901); GPU, memory and its
system processor together, 3,400 days (Llama 3, 54 days, 16,384 H100, 258 interruptions)."""
