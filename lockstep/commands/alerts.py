"""`lockstep alerts`."""

from alerts.service import AlertsSettings, run
from lockstep.options import service_command

command = service_command(
    "alerts",
    AlertsSettings,
    run,
    does="Page people: incidents to PagerDuty. The integration key comes from LOCKSTEP_PAGERDUTY_ROUTING_KEY.",
    example="LOCKSTEP_PAGERDUTY_ROUTING_KEY=... lockstep alerts --broker kafka-1:9092",
)
