"""The shipped fleet model: how it does on a healthy simulated fleet it has not seen; with --write, trained anew.

    python bench/train_fleet_model.py [--write]

It is trained on the frames of a simulated fleet, read by the real collectors, and on noise with heavier tails.
"""

import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from detectors.forest.magnitude import magnitudes
from detectors.forest.model import Forest
from detectors.train.fleet import deviations_of, fleet_forest
from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import NodeFrame
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings

SEEDS, UNSEEN = (11, 12), 99
TRAIN_TICKS, CHECK_TICKS = 900, 240
START_MS = 1_700_000_000_000
BUDGETS = (0.1, 0.01, 0.001)


def healthy_frames(seed: int, ticks: int) -> Iterator[NodeFrame]:
    """Two small racks, half of their GPUs in a job, the others idle."""
    settings = FleetSettings(racks=2, trays=4, job_size=16, seed=seed, start_ms=START_MS)
    fleet = SimulatedFleet(settings, f"seed-{seed}", START_MS)
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, f"seed-{seed}", 1, Path(folder), Counters())
        for _ in range(ticks):
            for record in agents.tick():
                if isinstance(record, NodeFrame):
                    yield record


def train() -> Forest:
    frames = [frame for seed in SEEDS for frame in _renamed(seed)]
    source = f"simulated healthy fleets (seeds {', '.join(map(str, SEEDS))}, {TRAIN_TICKS} s each)"
    return fleet_forest(frames, source, seed=1)


def _renamed(seed: int) -> Iterator[NodeFrame]:
    """Nodes of different fleets are different nodes."""
    for frame in healthy_frames(seed, TRAIN_TICKS):
        yield msgspec.structs.replace(frame, node=f"{seed}/{frame.node}")


def main() -> None:
    path = Path(str(files("detectors"))) / "fleet.forest"
    if "--write" in sys.argv[1:]:
        path.write_bytes(train().to_bytes())
    model = Forest.from_bytes(path.read_bytes())
    print(f"{model.name}: {model.training.source}; {model.training.rows} rows, {len(model.to_bytes()) // 1024} KiB")
    unseen = deviations_of(healthy_frames(UNSEEN, CHECK_TICKS))
    rows = magnitudes(unseen.z, unseen.residual, unseen.missing_share)
    p = model.p_value(rows, model.score(rows))
    shares = ", ".join(f"{(p <= budget).mean():.5f} at or below {budget:g}" for budget in BUDGETS)
    print(f"{len(p)} unseen healthy rows: {shares}; lowest p-value {np.min(p):.1e}")


if __name__ == "__main__":
    main()
