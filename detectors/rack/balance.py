"""Sensors that contradict the heat balance: flow times rise must make the power that the rack draws.

heat = flow / 60 x 4 .. 4.15 kJ/(l K) x rise. On NVIDIA's public rack data it closes to 2 to 4 %, whichever coolant is
taken (water, or a quarter of glycol). What a rack gives to the air instead is not known, so too little heat in the
water proves nothing; a heat that leaves its own usual part of the power, with one of the three readings gone astray and
the two others as ever, convicts that one.
"""

from functools import lru_cache

import numpy as np

from detectors.condition import Float32
from detectors.rack.base import RackRule, Signs, of_rack, reading
from detectors.rack.view import Levels, RackView
from detectors.rack.water import LOADED_W, PUMP_RAN_PCT, hot, rise
from schemas.finding import Evidence

HEAT_W_PER_LPM_K = 68.0
"""Watts for a litre a minute and kelvin: between water (69.2) and a quarter of glycol (67.2)."""

IMPOSSIBLE = 1.3
"""Heat to power: more than 1 is impossible; flow, rise and power meters together err by some 10 %, the coolant by 3."""

ASTRAY, AS_EVER = 0.25, 0.1
"""A reading this far from its usual has gone astray; within this it is as ever. Each varies by 2 to 3 % by itself."""

NO_FLOW_SHARE = 0.05

BACKWARDS_K = 1.0
"""Return colder than supply by this under load: two sensors of 0.5 K accuracy do not differ by more."""

PUSHED_KPA = 20.0
"""A pump that works makes 80 kPa and more over its loop."""


def _no_flow(view: RackView) -> Signs:
    """A flow that reads nothing while the water stays as warm as ever under the same power, or while a pump turns and
    makes pressure (seen in NVIDIA's sample: 0.0 at 44 % and 90 kPa)."""
    loop = view.loop
    flow, usual = loop.now("flow_lpm"), loop.usual("flow_lpm")
    power, usual_power = _power(view.shelf)
    loaded = np.isnan(power) | (power >= 0.5 * usual_power)
    nothing = (flow < NO_FLOW_SHARE * usual) & ~hot(view) & loaded
    speed = view.cdu.now("pump_speed_pct")
    pumped = bool((speed > PUMP_RAN_PCT).any())
    # Without a past: no water at all cannot take heat away at an ordinary rise, nor be pushed.
    dry = (flow == 0) & np.isnan(usual)
    nothing |= dry & (loop.now("power_w") > LOADED_W) & (rise(view)[0] < 20.0)
    nothing |= dry & pumped & (loop.now("delta_kpa") > PUSHED_KPA)
    return of_rack(
        ~np.isnan(flow),
        (reading(f"flow of {loop.rows[i]}", "flow_lpm", flow[i], usual[i], "L/min") for i in np.flatnonzero(nothing)),
    )


def _contradiction(view: RackView) -> Signs:
    """Loops whose balance is impossible, or left its usual by the doing of one reading."""
    loop = view.loop
    power, usual_power = loop.now("power_w"), loop.usual("power_w")
    if len(loop.rows) == 1:  # one loop cools the whole rack: its shelves' power is the loop's
        shelves, shelves_usual = _power(view.shelf)
        power = np.where(np.isnan(power), shelves, power)
        usual_power = np.where(np.isnan(usual_power), shelves_usual, usual_power)
    flow, usual_flow = loop.now("flow_lpm"), loop.usual("flow_lpm")
    warmer, usually = rise(view)
    heat = HEAT_W_PER_LPM_K * flow * warmer
    loaded = power > LOADED_W
    found: list[Evidence] = []
    for i in np.flatnonzero(loaded & ~np.isnan(heat)):
        name = loop.rows[i]
        if warmer[i] < -BACKWARDS_K:
            text = f"return of {name} is {-warmer[i]:.1f} K colder than its supply at {power[i] / 1000:.1f} kW"
            found.append(Evidence(text=text, metric="return_c", value=float(warmer[i]), unit="K"))
            continue
        parts = {
            "flow_lpm": (flow[i], usual_flow[i]),
            "return_c": (warmer[i], usually[i]),
            "power_w": (power[i], usual_power[i]),
        }
        astray = [n for n, (now, usual) in parts.items() if abs(now - usual) > ASTRAY * abs(usual)]
        calm = [n for n, (now, usual) in parts.items() if abs(now - usual) <= AS_EVER * abs(usual)]
        impossible = heat[i] > IMPOSSIBLE * power[i]
        if not impossible and not (len(astray) == 1 and len(calm) == 2):
            continue
        who = {"flow_lpm": "its flow", "return_c": "its temperatures", "power_w": "the power"}
        blamed = who[astray[0]] if len(astray) == 1 and len(calm) == 2 else "flow, temperatures or power"
        text = (
            f"water of {name} takes {heat[i] / 1000:.1f} kW ({flow[i]:.4g} L/min x {warmer[i]:.3g} K) of "
            f"{power[i] / 1000:.1f} kW: {blamed} cannot be right"
        )
        found.append(Evidence(text=text, metric=astray[0] if len(astray) == 1 else "heat_w", value=float(heat[i])))
    return of_rack(loaded & ~np.isnan(heat), found)


def _power(shelf: Levels) -> tuple[Float32, Float32]:
    """What the shelves give now and usually, in all: NaN where one that usually tells does not. A shelf's total and its
    supplies are not counted twice."""
    inner = np.array(_parts(shelf.rows), dtype=bool)
    now, usual = shelf.now("output_w"), shelf.usual("output_w")
    inner &= ~np.isnan(now) | ~np.isnan(usual)
    if not inner.any():
        return np.full(1, np.nan, dtype=np.float32), np.full(1, np.nan, dtype=np.float32)
    return now[inner].sum(keepdims=True), usual[inner].sum(keepdims=True)


@lru_cache(maxsize=256)
def _parts(rows: tuple[str, ...]) -> tuple[bool, ...]:
    """Which rows contain no other row."""
    return tuple(not any(other.startswith(row + "/") for other in rows) for row in rows)


FLOW_SENSOR = RackRule(
    "flow_sensor",
    "cooling",
    "sensor_fault",
    0.6,
    "loop",
    _no_flow,
    over_s=60.0,
    share=5 / 6,
    clear_s=60.0,
    holds_learning=True,
    runner_up="coolant_flow",
)
"""A sensor is blamed after a minute: by then the water would have told of a real fault."""

BALANCE = RackRule(
    "heat_balance",
    "cooling",
    "sensor_fault",
    0.6,
    "loop",
    _contradiction,
    over_s=180.0,
    share=0.9,
    clear_s=60.0,
    holds_learning=True,
    unless="flow_sensor",
)
"""Three minutes: water follows a change of load within one, valves within two."""
