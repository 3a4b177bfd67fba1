"""The rack's side: cooling loop, coolant distribution unit, leak detectors and power shelves.

Every rack has one loop fed by one unit with a running and a standby pump, four leak detectors a tray (cold plate and
manifold, two of each: a real GB200 tray), and eight power shelves.
"""

import numpy as np

from schemas.matrix import Matrix
from simulator.effects import Effects
from simulator.physics import HEAT_J_PER_LITRE_K, HOST_W, Physics
from simulator.topology import Topology

DETECTORS = (
    "LeakDetector_0_ColdPlate",
    "LeakDetector_0_Manifold",
    "LeakDetector_1_ColdPlate",
    "LeakDetector_1_Manifold",
)
SHELVES = 8

PUMP_PCT, PRESSURE_KPA = 44.0, 90.0
"""Speed of the running pump (the other stands by at 0) and pressure over the loop: NVIDIA's rack sample."""

HEAT_TO_WATER = 0.98
"""The heat balance of real racks closes to 2 to 4 %."""


class Racks:
    """What each rack's management controllers say now, as sections of `schemas.metrics` by rack index."""

    def __init__(self, topology: Topology, rng: np.random.Generator) -> None:
        self._topology, self._rng = topology, rng
        self._sections: list[dict[str, Matrix]] = [{} for _ in topology.rack_names]

    def sections(self, rack: int) -> dict[str, Matrix]:
        """loop, cdu, leak and shelf of one rack. Leak detectors are named "node/detector"."""
        return self._sections[rack]

    def update(self, physics: Physics, effects: Effects) -> None:
        """Take over the state at a tick."""
        topology, rng = self._topology, self._rng
        power_w = np.bincount(topology.rack_of_gpu, physics.average_w, topology.racks) + HOST_W * topology.trays
        wet = effects.leak.reshape(topology.racks, topology.trays)
        for rack, name in enumerate(topology.rack_names):
            supply, rise, flow = physics.supply_c[rack], physics.rise_c[rack], physics.flow_lpm[rack]
            heat_w = HEAT_TO_WATER * flow / 60 * HEAT_J_PER_LITRE_K * rise * rng.normal(1, 0.005)
            running = 0.0 if effects.pump_failed[rack] else PUMP_PCT * rng.normal(1, 0.004)
            standby = PUMP_PCT * 0.8 if effects.pump_failed[rack] else 0.0
            pressure = PRESSURE_KPA * float(effects.flow[rack]) ** 2 * rng.normal(1, 0.004)
            trays = topology.nodes[rack * topology.trays : (rack + 1) * topology.trays]
            leaks = np.zeros((len(trays), len(DETECTORS)))
            leaks[wet[rack], 1] = 1.0
            self._sections[rack] = {
                "loop": Matrix.of(
                    [f"{name}-loop"],
                    ["supply_c", "return_c", "flow_lpm", "heat_w"],
                    [[supply, supply + rise, flow, heat_w]],
                ),
                "cdu": Matrix.of(
                    [f"{name}-cdu/pump-1", f"{name}-cdu/pump-2"],
                    ["pump_speed_pct", "pressure_kpa"],
                    [[running, pressure], [standby, pressure]],
                ),
                "leak": Matrix.of(
                    [f"{tray}/{detector}" for tray in trays for detector in DETECTORS],
                    ["leak_detected"],
                    leaks.reshape(-1, 1),
                ),
                "shelf": Matrix.of(
                    [f"{name}-shelf-{i + 1}" for i in range(SHELVES)],
                    ["output_w"],
                    power_w[rack] / SHELVES * rng.normal(1, 0.01, (SHELVES, 1)),
                ),
            }
