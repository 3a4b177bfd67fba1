"""What a sensor's own limits say of its reading: 0 inside, 1 caution, 2 critical, 3 fatal.

The limits are the device's (Thresholds of the Sensor); those that its operator set (...User) are for the operator.
Vendors fill limits that they do not have with null or 0, or with the same number on both sides: such limits are none.
"""

from collectors.cooling.redfish_values import Document, get, health_of, number

LEVELS = (("Caution", 1.0), ("Critical", 2.0), ("Fatal", 3.0))

MAY_BE_ZERO = ("margin_c", "speed_pct", "speed_rpm", "flow_lpm")
"""Quantities for which a lower limit of 0 is one: nothing left, or standing still."""

OLD = {
    "Upper": (("UpperThresholdNonCritical", 1.0), ("UpperThresholdCritical", 2.0), ("UpperThresholdFatal", 3.0)),
    "Lower": (("LowerThresholdNonCritical", 1.0), ("LowerThresholdCritical", 2.0), ("LowerThresholdFatal", 3.0)),
}


def alarm(sensor: Document, reading: float, column: str) -> float:
    """The level that `reading` (in the sensor's own unit) has reached, or that the sensor's own health says.

    A thermal margin without limits is critical at 0: the first throttling limit, by the definition of the margin.
    """
    thresholds = get(sensor, "Thresholds")
    upper, lower = (
        {level: value for name, level in LEVELS if (value := _limit(thresholds, side + name)) is not None}
        for side in ("Upper", "Lower")
    )
    if column == "margin_c" and not lower and not upper:
        lower = {2.0: 0.0}
    return max(_reached(reading, upper, lower, column), health_of(sensor) or 0.0)


def old_alarm(entry: Document, reading: float) -> float:
    """The same for an entry of the old Thermal.Temperatures."""
    upper, lower = (
        {level: value for name, level in OLD[side] if (value := number(entry.get(name))) is not None}
        for side in ("Upper", "Lower")
    )
    return max(_reached(reading, upper, lower, "temperature_c"), health_of(entry) or 0.0)


def _limit(thresholds: object, name: str) -> float | None:
    entry = get(thresholds, name, NAMES)
    if str(get(entry, "Activation") or "").lower() == "disabled":
        return None
    return number(get(entry, "Reading"))


NAMES = frozenset(side + name + who for side in ("Upper", "Lower") for name, _ in LEVELS for who in ("", "User"))


def _reached(reading: float, upper: dict[float, float], lower: dict[float, float], column: str) -> float:
    upper = {level: limit for level, limit in upper.items() if limit != 0 or column == "margin_c"}
    lower = {level: limit for level, limit in lower.items() if limit != 0 or column in MAY_BE_ZERO}
    if upper and lower and min(upper.values()) <= max(lower.values()):
        return 0.0
    high = max((level for level, limit in upper.items() if reading >= limit), default=0.0)
    low = max((level for level, limit in lower.items() if reading <= limit), default=0.0)
    return max(high, low)
