"""What a GPU costs a worker: CPU microseconds for one GPU's row of 40 metrics in one tick, stage by stage, and bytes.

The whole way of a node's frame through detection: decode, condition and compare with the baselines, score, look at the
rules, learn, make features, encode. Faust and the broker are not in it (`bench.worker` has the partitions). CPU time of
this thread is measured, not the clock: others may be at work on the machine.

python -m bench.baseline
"""

import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a worker limits them too; before numpy is imported

import numpy as np

from detectors.forest.model import Forest
from detectors.node.detector import NodeDetector
from detectors.node.deviation import Deviation, Deviations
from detectors.node.records import Scores, features_of
from lockstep.fleet import Agents
from runtime.health import Counters
from schemas import Features, NodeFrame
from schemas.codec import decode, encode
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import SECTIONS
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings

START_MS = 1_700_000_000_000
METRICS = tuple(metric.name for metric in SECTIONS["gpu"])[:40]
WARM_UP, MEASURED, BATCH = 400, 300, 20
NODES = 32
TARGET_US, TARGET_BYTES = 5, 8192


def plain_frames(gpus: int, ticks: int) -> list[bytes]:
    """GPUs at work: 40 metrics each, and ten readings of the host."""
    random = np.random.default_rng(1)
    usual = random.uniform(10, 90, len(METRICS))
    usual[[METRICS.index(name) for name in METRICS if name.endswith(("_share", "_count", "_pending", "_failed"))]] = 0
    usual[[METRICS.index(name) for name in ("clocks_event_reasons", "recovery_action")]] = 0
    usual[[METRICS.index(name) for name in METRICS if name.endswith("_ratio")]] = 0.5
    uuids = [f"GPU-{i:08x}-2b2c-3d4e-5f60-718293a4b5c6" for i in range(gpus)]
    who = tuple(
        Gpu(uuid=uuid, pci=f"00000000:{i + 1:02x}:00.0", slot=i, job="slurm/1", rank=i) for i, uuid in enumerate(uuids)
    )
    host = [metric.name for metric in SECTIONS["host"]][:10]
    usual_host = random.uniform(1, 50, len(host))
    return [
        encode(
            NodeFrame(
                cluster="bench",
                ts_ms=START_MS + 1000 * tick,
                node="n",
                run_id=1,
                seq=tick,
                rack="r1",
                gpus=who,
                sections={
                    "gpu": Matrix.of(uuids, METRICS, usual * random.normal(1, 0.01, (gpus, len(METRICS)))),
                    "host": Matrix.of(["n"], host, [usual_host * random.normal(1, 0.01, len(host))]),
                },
            )
        )
        for tick in range(ticks)
    ]


def agents_frames(ticks: int) -> list[bytes]:
    """A simulated tray of four GPUs with its NVLinks, ports and host, as its agent sends them."""
    fleet = SimulatedFleet(FleetSettings(racks=1, trays=1, job_size=4, start_ms=START_MS), "bench", START_MS)
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        records = [record for _ in range(ticks) for record in agents.tick()]
    return [encode(record) for record in records if isinstance(record, NodeFrame)]


def frame_of(payload: bytes) -> NodeFrame:
    frame = decode(payload, "node-frames")
    assert isinstance(frame, NodeFrame)
    return frame


def best_us(work: Callable[[int], object], places: Sequence[int]) -> float:
    """CPU microseconds of one call: the best batch, which other work on the machine disturbs least."""
    best = float("inf")
    for start in range(0, len(places), BATCH):
        began = time.thread_time()
        for place in places[start : start + BATCH]:
            work(place)
        best = min(best, (time.thread_time() - began) / BATCH)
    return best * 1e6


def stages(payloads: Sequence[bytes], model: Forest) -> dict[str, float]:
    """CPU microseconds a frame by stage."""
    frames = [frame_of(payload) for payload in payloads]
    node, deviations = NodeDetector("bench", "n", model), Deviations()
    said: list[Features] = []
    ticks: list[Deviation] = []
    scores: list[Scores] = []
    for frame in frames[:WARM_UP]:
        node.update(frame)
        deviations.learn(np.ones(len(deviations.update(frame).uuids), dtype=np.bool_))
    usual = np.ones(len(deviations.uuids), dtype=np.bool_)
    places = range(WARM_UP, len(frames))
    decoded = best_us(lambda at: frame_of(payloads[at]), places)
    judged = best_us(lambda at: said.extend(node.update(frames[at]).features), places)

    compared, learned, scored = list[float](), list[float](), list[float]()
    for start in places[::BATCH]:
        took = [0.0, 0.0, 0.0]
        for frame in frames[start : start + BATCH]:
            marks = [time.thread_time()]
            ticks.append(deviations.update(frame))
            marks.append(time.thread_time())
            deviations.learn(usual)
            marks.append(time.thread_time())
            scores.append(Scores(*model.judge(ticks[-1].features, ticks[-1].judged)))
            marks.append(time.thread_time())
            took = [so_far + after - before for so_far, before, after in zip(took, marks, marks[1:], strict=False)]
        for stage, seconds in zip((compared, learned, scored), took, strict=True):
            stage.append(seconds / BATCH * 1e6)
    spent = {"condition, compare": min(compared), "score": min(scored), "learn": min(learned)}
    events = node._events
    spent["features"] = best_us(
        lambda at: features_of(frames[at], ticks[at - WARM_UP], scores[at - WARM_UP], model.name, events), places
    )
    spent["rules, the rest"] = max(0.0, judged - sum(spent.values()))
    encoded = best_us(lambda at: encode(said[at - WARM_UP]), places)
    return {"all": decoded + judged + encoded, "decode": decoded, **spent, "encode": encoded}


def bytes_a_gpu(payloads: Sequence[bytes], gpus: int, model: Forest) -> float:
    """What a detector holds of one GPU in memory, Python's objects in it."""
    frames = [frame_of(payload) for payload in payloads[:100]]
    NodeDetector("bench", "n", model).update(frames[0])
    tracemalloc.start()
    nodes = [NodeDetector("bench", "n", model) for _ in range(NODES)]
    for node in nodes:
        for frame in frames:
            node.update(frame)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / (NODES * gpus)


def main() -> None:
    model = Forest.from_bytes((files("detectors") / "fleet.forest").read_bytes())
    ticks = WARM_UP + MEASURED
    cases = {
        "4 GPUs x 40": (4, plain_frames(4, ticks)),
        "8 GPUs x 40": (8, plain_frames(8, ticks)),
        "4, an agent's": (4, agents_frames(ticks)),
    }
    spent = {name: stages(payloads, model) for name, (_, payloads) in cases.items()}
    print(f"{'us a GPU-sample':<20}" + "".join(f"{name:>16}" for name in cases))
    for stage in spent["4 GPUs x 40"]:
        print(f"{stage:<20}" + "".join(f"{spent[name][stage] / cases[name][0]:>16.1f}" for name in cases))
    held = {name: bytes_a_gpu(payloads, gpus, model) for name, (gpus, payloads) in cases.items()}
    print(f"{'bytes a GPU':<20}" + "".join(f"{size:>16.0f}" for size in held.values()))
    print(f"targets: {TARGET_US} us a GPU-sample, {TARGET_BYTES} bytes a GPU")


if __name__ == "__main__":
    main()
