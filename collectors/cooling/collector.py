"""The rack role: the one agent of a rack that is given a list of controllers polls them."""

from pathlib import Path

from collectors.agent.node import Node
from collectors.base import Collector


def on_node(node: Node) -> Collector | None:
    """The controllers of the file that the settings name; none without one. Raises UserError where it is unusable."""
    if not node.settings.bmc_targets:
        return None
    # Imported here: every other agent would carry the memory of asyncio and ssl for nothing.
    from collectors.cooling.redfish import RedfishCollector
    from collectors.cooling.redfish_targets import load

    targets = load(Path(node.settings.bmc_targets), node.identity.rack, node.environment)
    collector = RedfishCollector(targets, node.settings.bmc_interval_s)
    node.closing.append(collector.close)
    return collector
