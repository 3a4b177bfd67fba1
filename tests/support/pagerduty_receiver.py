"""The receiver of the chaos bench, for tests."""

from bench.chaos.pagerduty import ROUTING_KEY, PagerDutyReceiver

__all__ = ["ROUTING_KEY", "PagerDutyReceiver"]
