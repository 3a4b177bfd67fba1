"""A simulated rack's controllers, polled by the unchanged collector: the same numbers, the same verdicts."""

import time
from contextlib import ExitStack

import numpy as np
import pytest
from fake_bmc import PASSWORD, FakeBmc
from fake_clock import FakeClock

from collectors.agent.core import AgentCore, Identity
from collectors.cooling.redfish import RedfishCollector
from collectors.cooling.redfish_http import Login
from collectors.cooling.redfish_targets import Target
from detectors.rack.detector import RackDetector
from runtime.health import Counters
from schemas.frame import RackFrame
from simulator.controllers import Tree, shelf_tree, tray_tree, unit_tree
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings

SETTINGS = FleetSettings(racks=1, trays=2, job_size=8, onset_s=3.0, fault="leak", target="r01-t02")


class PolledRack:
    """The controllers of rack 1 on ports of this machine, and the agent with the rack role."""

    def __init__(self, stack: ExitStack) -> None:
        self.fleet = SimulatedFleet(SETTINGS, "c")
        self.fleet.advance()
        self.bmcs = {name: stack.enter_context(FakeBmc(tree)) for name, tree in self.trees().items()}
        login = Login("monitor", PASSWORD)
        targets = [
            Target(name, bmc.url, name if "-t" in name else "", "r01", login, None, "", 5.0)
            for name, bmc in self.bmcs.items()
        ]
        collector = RedfishCollector(targets, 0.05)
        stack.callback(collector.close)
        self.clock = FakeClock(self.fleet.tick_ms)
        self.core = AgentCore(Identity(cluster="c", node="r01-t01", rack="r01"), [collector], 1, self.clock, Counters())

    def trees(self) -> dict[str, Tree]:
        sections = self.fleet.racks.sections(0)
        trays = {node.name: tray_tree(sections["leak"], node.name) for node in self.fleet.nodes}
        return trays | {"cdu": unit_tree(sections["loop"], sections["cdu"]), "power": shelf_tree(sections["shelf"])}

    def advance(self) -> None:
        self.fleet.advance()
        for name, tree in self.trees().items():
            self.bmcs[name].tree = tree

    def frames(self) -> list[RackFrame]:
        self.clock.advance(1.0)
        return [r for r in self.core.tick(self.clock.now_ms() // 1000 * 1000) if isinstance(r, RackFrame)]


def test_the_polled_rack_reads_what_the_simulator_measured_and_its_leak_is_found() -> None:
    with ExitStack() as stack:
        rack = PolledRack(stack)
        sections = rack.fleet.racks.sections(0)
        wanted = {
            ("loop", "cdu:CDUs/1/SecondaryCoolantConnectors/1", name): sections["loop"].column(name)[0]
            for name in ("supply_c", "return_c", "flow_lpm", "heat_w")
        }
        wanted["cdu", "cdu:CDUs/1/Pumps/1", "pump_speed_pct"] = sections["cdu"].column("pump_speed_pct")[0]
        wanted["shelf", "power:PowerShelf_0/PowerSupplies/r01-shelf-8", "output_w"] = sections["shelf"].column(
            "output_w"
        )[7]
        seen: dict[tuple[str, str, str], float] = {}
        detector = RackDetector("c", "r01")
        until = time.monotonic() + 20
        while not wanted.keys() <= {key for key, value in seen.items() if not np.isnan(value)}:
            assert time.monotonic() < until, wanted.keys() - seen.keys()
            for frame in rack.frames():
                assert detector.update(frame).findings == ()
                for section, matrix in frame.sections.items():
                    for row, values in zip(matrix.rows, matrix.values(), strict=True):
                        now = {(section, row, c): float(v) for c, v in zip(matrix.columns, values, strict=True)}
                        seen |= {key: v for key, v in now.items() if key not in seen or not np.isnan(v)}
            time.sleep(0.01)
        assert {key: seen[key] for key in wanted} == pytest.approx(wanted, rel=1e-6)
        leaks = [row for section, row, column in seen if (section, column) == ("leak", "leak_detected")]
        assert len(leaks) == len(sections["leak"].rows)
        assert not any(np.isnan(seen["leak", row, "leak_detected"]) for row in leaks)

        while not rack.fleet.racks.sections(0)["leak"].column("leak_detected").any():
            rack.advance()
        found = []
        while not found:
            assert time.monotonic() < until
            found = [finding for frame in rack.frames() for finding in detector.update(frame).findings]
            time.sleep(0.01)
        assert [(f.cause, f.subject.node, f.subject.rack) for f in found] == [("leak", "r01-t02", "r01")]
