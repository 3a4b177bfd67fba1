"""Every rule of a rack, in the order in which they are asked: what explains others comes first."""

from detectors.rack.balance import BALANCE, FLOW_SENSOR
from detectors.rack.base import RackRule
from detectors.rack.device import CONTROLLER, COOLANT_LIMIT, HEALTH, LEVEL, LIMIT, MARGIN, SUPPLIES
from detectors.rack.leak import LEAK, LEAK_SENSOR, LEAK_WARNING
from detectors.rack.pumps import FAN, PUMP
from detectors.rack.water import FLOW, SUPPLY

RACK_RULES: dict[str, RackRule] = {
    rule.name: rule
    for rule in (
        LEAK,
        LEAK_WARNING,
        LEAK_SENSOR,
        PUMP,
        FLOW,
        SUPPLY,
        FLOW_SENSOR,
        BALANCE,
        FAN,
        MARGIN,
        COOLANT_LIMIT,
        LIMIT,
        *HEALTH,
        *LEVEL,
        SUPPLIES,
        CONTROLLER,
    )
}
