"""What devices say of themselves: limits that a sensor has passed, health, levels, and controllers that are silent."""

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from detectors.rack.base import RackRule, Signs, by_node, of_rack, reading
from detectors.rack.view import RackView
from schemas.finding import Evidence
from schemas.metrics import Section

CRITICAL = 2.0
"""Beyond a Critical limit, or health Critical: the maker's judgement. Caution and Warning are shown, never said."""

LEVEL_LOST_PCT = 10.0
"""Points below usual: levels swing by a few with temperature; what is lost beyond has gone somewhere."""

FLUID: tuple[Section, ...] = ("loop", "cdu")

LIQUID = re.compile(r"coolant|liquid|water|supply|return|loop|manifold|cold.?plate|cdu", re.IGNORECASE)


def _margins(view: RackView) -> Signs:
    """Nothing left to the first throttling limit."""
    sensor = view.sensor
    left, alarm = sensor.now("margin_c"), sensor.now("alarm_code")

    def say(i: int) -> Evidence:
        return reading(f"thermal margin of {sensor.rows[i]}", "margin_c", left[i], float("nan"), "K")

    return by_node(sensor, ~np.isnan(left), ~np.isnan(left) & (alarm >= CRITICAL), say)


def _limits(liquid: bool) -> Callable[[RackView], Signs]:
    """Other sensors beyond a critical limit of their own: those of the coolant, or all the others."""

    def signs(view: RackView) -> Signs:
        sensor = view.sensor
        wanted = np.array([_is_liquid(row) == liquid for row in sensor.rows], dtype=bool)
        alarm, heat = sensor.now("alarm_code"), sensor.now("temperature_c")
        judged = wanted & ~np.isnan(alarm) & np.isnan(sensor.now("margin_c"))

        def say(i: int) -> Evidence:
            known = heat[i] == heat[i]
            value = f" at {heat[i]:.4g} C" if known else ""
            text = f"{sensor.rows[i]} is beyond its own critical limit{value}"
            return Evidence(text=text, metric="alarm_code", value=float(heat[i] if known else alarm[i]))

        return by_node(sensor, judged, judged & (alarm >= CRITICAL), say)

    return signs


@lru_cache(maxsize=65536)
def _is_liquid(row: str) -> bool:
    return bool(LIQUID.search(row.partition("/")[2] or row))


def _health(section: Section) -> Callable[[RackView], Signs]:
    """Loops, or parts of a unit without a speed (filters, reservoirs, the unit itself), that call themselves
    critical."""

    def signs(view: RackView) -> Signs:
        levels = view.section(section)
        status = levels.now("status_code")
        ill = status >= CRITICAL
        if section == "cdu":
            ill &= np.isnan(levels.now("pump_speed_pct"))
        return of_rack(
            ~np.isnan(status),
            (
                Evidence(text=f"the controller calls {levels.rows[i]} critical", metric="status_code", value=CRITICAL)
                for i in np.flatnonzero(ill)
            ),
        )

    return signs


def _level(section: Section) -> Callable[[RackView], Signs]:
    """Coolant that becomes less."""

    def signs(view: RackView) -> Signs:
        levels = view.section(section)
        now, usual = levels.now("level_pct"), levels.usual("level_pct")
        return of_rack(
            ~np.isnan(now),
            (
                reading(f"coolant level of {levels.rows[i]}", "level_pct", now[i], usual[i], "%")
                for i in np.flatnonzero(now < usual - LEVEL_LOST_PCT)
            ),
        )

    return signs


def _supplies(view: RackView) -> Signs:
    shelf = view.shelf
    status = shelf.now("status_code")
    return of_rack(
        ~np.isnan(status),
        (
            Evidence(text=f"the controller calls {shelf.rows[i]} critical", metric="status_code", value=CRITICAL)
            for i in np.flatnonzero(status >= CRITICAL)
        ),
    )


def _silent(view: RackView) -> Signs:
    bmc = view.bmc
    answers = bmc.now("answers")
    return of_rack(
        ~np.isnan(answers),
        (
            Evidence(text=f"controller {bmc.rows[i]} does not answer", metric="answers", value=0.0, baseline=1.0)
            for i in np.flatnonzero(answers == 0)
        ),
    )


MARGIN = RackRule("thermal_margin", "degradation", "thermal_throttle", 0.8, "sensor", _margins)

COOLANT_LIMIT = RackRule("coolant_limit", "cooling", "coolant_temperature", 0.7, "sensor", _limits(liquid=True))

LIMIT = RackRule("sensor_limit", "hardware", "unknown", 0.5, "sensor", _limits(liquid=False))

HEALTH = tuple(
    RackRule(f"{section}_health", "cooling", "coolant_flow", 0.6, section, _health(section), runner_up="leak")
    for section in FLUID
)

LEVEL = tuple(
    RackRule(
        f"{section}_level",
        "cooling",
        "leak",
        0.5,
        section,
        _level(section),
        over_s=60.0,
        runner_up="coolant_flow",
        holds_learning=True,
    )
    for section in FLUID
)

SUPPLIES = RackRule("power_supply", "hardware", "power_brake", 0.6, "shelf", _supplies)

CONTROLLER = RackRule(
    "controller", "hardware", "sensor_fault", 0.8, "bmc", _silent, over_s=0.0, least=2, share=1.0, clear_s=0.0
)
"""Two polls in a row: one may meet a restart."""
