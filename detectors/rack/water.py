"""Flow and supply temperature of the cooling loops.

Ranges after NVIDIA's DSX exemplar (a pod of NVL72-like racks: supply 32 to 33 C, 10 to 14 K rise, 49 to 52 L/min at 35
to 48 kW). Control valves follow the load, so a low flow is a fault only where the water also gets hotter.
"""

import numpy as np

from detectors.condition import Float32
from detectors.rack.base import Mask, RackRule, Signs, of_rack, reading
from detectors.rack.view import RackView

SUPPLY_HIGH_C = 45.0
"""Supply water above this is too warm for any GPU in use: the upper limit of ASHRAE's class W45."""

SUPPLY_RISE_K = 5.0
"""Above the loop's own usual by this much: pods hold their set point within 1 K."""

LOW_FLOW_SHARE = 0.7
"""Of the loop's own usual flow; measured flows vary by 3 %."""

HOT_SHARE = 1.25
"""Of the usual rise from supply to return: what 80 % of the flow makes of the same heat."""

LEAST_LPM_PER_KW = 0.6
"""Litres a minute and kilowatt: half of what is measured (1.05 to 1.45); water then rises by 24 K, beyond the design
of 20 K."""

DESIGN_RISE_K = 20.0
"""Rise that NVL72 racks are designed for: 25 C in, 45 C out."""

LOADED_W = 10_000.0
"""A rack below this gives no heat to judge flow by (off: 95 W; loaded: from 35 kW)."""

LOW_PRESSURE_SHARE = 0.7
"""Of the usual pressure at no less speed: a second witness of a low flow, quicker than the heat."""

PUMP_RAN_PCT = 20.0
"""A pump usually above this is one that works, not one that stands by (44 % and 0 in the exemplar)."""


def rise(view: RackView) -> tuple[Float32, Float32]:
    """From supply to return, now and usually, by loop."""
    loop = view.loop
    now: Float32 = loop.now("return_c") - loop.now("supply_c")
    usual: Float32 = loop.usual("return_c") - loop.usual("supply_c")
    return now, usual


def hot(view: RackView) -> Mask:
    """Loops whose rise from supply to return is well above usual, or cannot be told."""
    now, usual = rise(view)
    out: Mask = (now > HOT_SHARE * usual) | np.isnan(now)
    return out


def _weak_pressure(view: RackView) -> bool:
    """Whether a pump that turns as ever makes less pressure than ever, over itself or over the loop."""
    cdu, loop = view.cdu, view.loop
    speed, usual_speed = cdu.now("pump_speed_pct"), cdu.usual("pump_speed_pct")
    turning = (usual_speed > PUMP_RAN_PCT) & (speed > 0.9 * usual_speed)
    own = turning & (cdu.now("pressure_kpa") < LOW_PRESSURE_SHARE * cdu.usual("pressure_kpa"))
    over = loop.now("delta_kpa") < LOW_PRESSURE_SHARE * loop.usual("delta_kpa")
    return bool(own.any() or (turning.any() and over.any()))


def _low_flow(view: RackView) -> Signs:
    loop = view.loop
    flow, usual, warmer = loop.now("flow_lpm"), loop.usual("flow_lpm"), rise(view)[0]
    low = (flow < LOW_FLOW_SHARE * usual) & (hot(view) | _weak_pressure(view))
    heat_w, power_w = loop.now("heat_w"), loop.now("power_w")
    starved = (heat_w > LOADED_W) & (flow < LEAST_LPM_PER_KW * heat_w / 1000)
    # Where power is all that is known, a low reading alone may be the flow sensor's: the water must say so too.
    starved |= (power_w > LOADED_W) & (flow < LEAST_LPM_PER_KW * power_w / 1000) & (warmer > DESIGN_RISE_K)
    return of_rack(
        ~np.isnan(flow),
        (
            reading(f"flow of {loop.rows[i]}", "flow_lpm", flow[i], usual[i], "L/min")
            for i in np.flatnonzero(low | starved)
        ),
    )


def _warm_supply(view: RackView) -> Signs:
    loop = view.loop
    supply, usual = loop.now("supply_c"), loop.usual("supply_c")
    warm = (supply > SUPPLY_HIGH_C) | (supply > usual + SUPPLY_RISE_K)
    return of_rack(
        ~np.isnan(supply),
        (reading(f"supply of {loop.rows[i]}", "supply_c", supply[i], usual[i], "C") for i in np.flatnonzero(warm)),
    )


FLOW = RackRule(
    "flow", "cooling", "coolant_flow", 0.85, "loop", _low_flow, holds_learning=True, unless="pump"
)  # a stopped pump explains it

SUPPLY = RackRule("supply", "cooling", "coolant_temperature", 0.85, "loop", _warm_supply, holds_learning=True)
