"""What a node costs a worker: microseconds for each frame with all its scores, and bytes of state.

python bench/node.py
"""

import time
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from detectors.forest import Forest
from detectors.node import NodeDetector
from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import NodeFrame
from schemas.codec import decode, encode
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings

START_MS = 1_700_000_000_000
WARM_UP, MEASURED, BATCH = 100, 300, 20


def frames_of_one_node(ticks: int) -> list[NodeFrame]:
    """As they come off a topic."""
    settings = FleetSettings(racks=1, trays=1, job_size=4, start_ms=START_MS)
    fleet = SimulatedFleet(settings, "bench", START_MS)
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        records = [record for _ in range(ticks) for record in agents.tick()]
    frames = [decode(encode(record)) for record in records if isinstance(record, NodeFrame)]
    return [frame for frame in frames if isinstance(frame, NodeFrame)]


def main() -> None:
    model = Forest.from_bytes((files("detectors") / "fleet.forest").read_bytes())
    node = NodeDetector("bench", "n", model)
    frames = frames_of_one_node(WARM_UP + MEASURED)
    for frame in frames[:WARM_UP]:
        verdict = node.update(frame)
    best = float("inf")
    for start in range(WARM_UP, WARM_UP + MEASURED, BATCH):
        began = time.perf_counter()
        for frame in frames[start : start + BATCH]:
            verdict = node.update(frame)
        best = min(best, (time.perf_counter() - began) / BATCH)
    sizes = f"learning {len(node.learning())} bytes, decisions {len(node.decisions())} bytes"
    print(f"4 GPUs: {best * 1e6:.0f} us a frame (best of {MEASURED // BATCH} batches); {sizes}")
    print(f"features message {len(encode(verdict.features[0]))} bytes, frame {len(encode(frames[-1]))} bytes")


if __name__ == "__main__":
    main()
