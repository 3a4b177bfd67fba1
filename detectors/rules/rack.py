"""Every rule of a rack, in the order in which they are asked: what explains others comes first."""

from detectors.rules.balance import BALANCE, FLOW_SENSOR
from detectors.rules.base import RackRule
from detectors.rules.device import CONTROLLER, COOLANT_LIMIT, HEALTH, LEVEL, LIMIT, MARGIN, SUPPLIES
from detectors.rules.leak import LEAK, LEAK_SENSOR, LEAK_WARNING
from detectors.rules.pumps import FAN, PUMP
from detectors.rules.water import FLOW, SUPPLY

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
