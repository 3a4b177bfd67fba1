"""The ports of a simulated fleet, read by the collector of real ones."""

from pathlib import Path
from typing import cast

import numpy as np
from fake_clock import FakeClock

from collectors.host.fabric import FabricCollector
from simulator.effects import Effects
from simulator.ports import TRAFFIC_BYTES_PER_S, Ports
from simulator.settings import FleetSettings


def test_a_port_with_errors_is_slower_and_says_so() -> None:
    topology = FleetSettings().topology()
    ports, clock, effects = Ports(topology, np.random.default_rng(1)), FakeClock(), Effects.neutral(topology)
    node = int(topology.node_of_gpu[topology.gpu_of_rank[0]])
    collector = FabricCollector(cast(Path, ports.sys(node)), clock)
    for second in range(25):
        if second == 12:
            effects.port_errors_per_s[4 * node] = 60.0
            effects.congestion_per_s[4 * node + 1] = 20_000.0
        ports.advance(1.0, effects)
        clock.advance(1.0)
        matrix = collector.collect(clock.now_ms()).sections["fabric"]
        if "symbol_errors_per_s" in matrix.columns:
            last = dict(zip(matrix.columns, matrix.values().T, strict=True))
    assert matrix.rows == ("mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1")
    assert last["symbol_errors_per_s"][0] > 5
    assert list(last["symbol_errors_per_s"][1:]) == [0, 0, 0]
    assert last["cnp_handled_per_s"][1] > 1000
    assert list(last["speed_bytes_per_s"] < 0.6 * last["speed_most_bytes_per_s"]) == [True, False, False, False]
    assert np.allclose(last["tx_bytes_per_s"], TRAFFIC_BYTES_PER_S, rtol=0.2)
