"""Pumps and fans that stop, by their speed or by their controller's word."""

import numpy as np

from detectors.condition import Float32
from detectors.rack.base import Mask, RackRule, Signs, by_node, of_rack, reading
from detectors.rack.view import Levels, RackView
from detectors.rack.water import PUMP_RAN_PCT
from schemas.finding import Evidence

PUMP_STOPPED_PCT = 5.0
"""A pump usually above PUMP_RAN_PCT and now below this has stopped; a standby pump is always at 0."""

TAKEN_OVER = 0.95
"""Of the unit's usual speed over all pumps: another pump runs instead, as planned. Units change over every week, and
one that takes over because the other failed must turn as fast as two."""

FAN_STOPPED = 0.2
"""Of its usual speed. Controllers slow fans down to a third or so; below a fifth they do not turn for cooling."""

FAN_RAN_PCT, FAN_RAN_RPM = 15.0, 1000.0
"""A fan usually below these is parked: liquid-cooled trays do that."""

CRITICAL = 2.0


def _stopped_pumps(view: RackView) -> Signs:
    cdu = view.cdu
    speed, usual = cdu.now("pump_speed_pct"), cdu.usual("pump_speed_pct")
    whole, whole_usual = float(np.nansum(speed)), float(np.nansum(usual))
    changed_over = whole >= TAKEN_OVER * whole_usual
    stopped = (speed < PUMP_STOPPED_PCT) & (usual > PUMP_RAN_PCT) & (not changed_over)
    status = cdu.now("status_code")
    failed = _is_pump(cdu) & (status >= CRITICAL)
    found = [reading(f"pump of {cdu.rows[i]}", "pump_speed_pct", speed[i], usual[i], "%") for i in _at(stopped)]
    found += [_critical("pump", cdu.rows[i]) for i in _at(failed & ~stopped)]
    return of_rack(~np.isnan(speed) | ~np.isnan(status), found)


def _is_pump(cdu: Levels) -> Mask:
    """Rows of section `cdu` that have a speed now or had one: not filters, reservoirs, or the unit itself."""
    speeds = [cdu.now(name) for name in ("pump_speed_pct", "pump_speed_rpm")]
    out: Mask = np.any(~np.isnan(speeds), axis=0) | ~np.isnan(cdu.usual("pump_speed_pct"))
    return out


def _stopped_fans(view: RackView) -> Signs:
    fan = view.fan
    status = fan.now("status_code")
    stopped = _slow(fan, "speed_pct", FAN_RAN_PCT) | _slow(fan, "speed_rpm", FAN_RAN_RPM)
    judged = ~np.isnan(fan.now("speed_pct")) | ~np.isnan(fan.now("speed_rpm")) | ~np.isnan(status)

    def say(i: int) -> Evidence:
        if not stopped[i]:
            return _critical("fan", fan.rows[i])
        column, unit = (
            ("speed_rpm", "RPM") if fan.now("speed_rpm")[i] == fan.now("speed_rpm")[i] else ("speed_pct", "%")
        )
        return reading(f"fan {fan.rows[i]}", column, fan.now(column)[i], fan.usual(column)[i], unit)

    return by_node(fan, judged, stopped | (status >= CRITICAL), say)


def _slow(fan: Levels, column: str, ran: float) -> Mask:
    now, usual = fan.now(column), fan.usual(column)
    out: Mask = (usual > ran) & (now < FAN_STOPPED * usual)
    return out


def _critical(what: str, row: str) -> Evidence:
    text = f"the controller calls {what} {row} critical"
    return Evidence(text=text, metric="status_code", value=CRITICAL, baseline=0.0)


def _at(mask: Mask | Float32) -> list[int]:
    return [int(i) for i in np.flatnonzero(mask)]


PUMP = RackRule("pump", "cooling", "pump_fan", 0.85, "cdu", _stopped_pumps, holds_learning=True)

FAN = RackRule("fan", "cooling", "pump_fan", 0.8, "fan", _stopped_fans)
