"""How often health is taken for a risk, how early a drift is said, and what the watch costs (all simulated).

`python -m bench.drift --gpu-years 20`: nodes of eight GPUs through two months. Health is a thermal margin with the hour
of the day, with jobs of another load every day or so, with wear of no kind; bit error rates that wander; replays and
corrected errors now and then. The drift is a margin that falls on one GPU of each node from the twentieth day on.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import islice

import numpy as np

from detectors.drift.gpu import GpuDrift
from schemas import NodeFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix

GPUS, DAYS, AN_HOUR = 8, 60, 3
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS
COLUMNS = ("thermal_margin_c", "power_w", "power_limit_w", "ecc_sbe_count", "pcie_replay_count")
DRIFT_FROM = 20.0
NAMES = tuple(f"GPU-{i}" for i in range(GPUS))
ENDS = tuple(f"{gpu}/{link}" for gpu in NAMES for link in range(2))
LISTED = tuple(Gpu(uuid=gpu) for gpu in NAMES)


def frames(random: np.random.Generator, a_day: float) -> Iterator[NodeFrame]:
    """Two months of one node; the margin of GPU-0 falls by `a_day` kelvin from DRIFT_FROM on."""
    counts = np.zeros((GPUS, 2))
    own, load, wander = random.normal(0, 2, GPUS), 0.0, np.zeros(2 * GPUS)
    changes = set(np.flatnonzero(random.random(DAYS * 24) < 1 / 30).tolist())
    for i in range(DAYS * 24 * AN_HOUR):
        day = i / (24 * AN_HOUR)
        if i % AN_HOUR == 0:
            load = random.uniform(-6, 6) if i // AN_HOUR in changes else load
            wander = 0.9 * wander + random.normal(0, 0.1, 2 * GPUS)
        counts += random.poisson((0.01, 0.05), (GPUS, 2))
        margin = 30 + own + load + 3 * np.sin(2 * np.pi * day) + random.normal(0, 1, GPUS)
        margin[0] -= a_day * max(day - DRIFT_FROM, 0)
        rest = np.full((GPUS, 2), (600.0, 700.0))
        rates = np.stack([-16 + wander, np.full(2 * GPUS, 0.1)], axis=1)
        yield NodeFrame(
            cluster="bench", ts_ms=START_MS + i * DAY_MS // (24 * AN_HOUR), node="n", run_id=1, seq=i, gpus=LISTED,
            sections={
                "gpu": Matrix.of(NAMES, COLUMNS, np.column_stack([margin, rest, counts])),
                "nvlink": Matrix.of(ENDS, ("effective_ber_log10", "fec_5_per_s"), rates),
            },
        )  # fmt: skip


def opened(random: np.random.Generator, a_day: float) -> list[tuple[str, str, float]]:
    """Risks that were said: which, of whom, on which day."""
    drift = GpuDrift("bench", "n")
    return [
        (finding.detector, finding.subject.gpu, (finding.ts_ms - START_MS) / DAY_MS)
        for frame in frames(random, a_day)
        for finding in drift.update(frame)
        if finding.state == "open"
    ]


def cost_us(random: np.random.Generator) -> float:
    """Processor time of the watch a second of a node's life: a frame a second for two hours."""
    few = list(islice(frames(random, 0.0), 120))
    drift, begun = GpuDrift("bench", "n"), time.process_time()
    for minute, frame in enumerate(few):
        for second in range(60):
            at = START_MS + 60_000 * minute + 1000 * second
            sections = frame.sections if second == 0 else {"gpu": frame.sections["gpu"]}
            drift.update(NodeFrame(cluster="b", ts_ms=at, node="n", run_id=1, seq=at, gpus=LISTED, sections=sections))
    return (time.process_time() - begun) / (60 * len(few)) * 1e6


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--gpu-years", type=float, default=4.0)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--part", choices=("health", "drift", "cost"), action="append", help="all without it")
    given = asked.parse_args()
    random = np.random.default_rng(given.seed)
    parts = given.part or ("health", "drift", "cost")
    if "cost" in parts:
        print(f"cost: {cost_us(random):.1f} us of processor time a second of a node with {GPUS} GPUs, frames included")
    if "drift" in parts:
        for a_day in (0.5, 1.0, 2.0, 4.0):
            early(random, a_day)
    if "health" in parts:
        nodes = max(1, round(given.gpu_years * 365 / DAYS / GPUS))
        said = [risk for _ in range(nodes) for risk in opened(random, 0.0)]
        print(f"health: {len(said)} risks in {nodes * GPUS * DAYS / 365:.1f} GPU-years {said[:5]}")


def early(random: np.random.Generator, a_day: float, nodes: int = 3) -> None:
    """How many days before its limit a falling margin is said."""
    found = [opened(random, a_day) for _ in range(nodes)]
    first = [next((day for _, gpu, day in risks if gpu == "GPU-0"), None) for risks in found]
    others = sum(gpu != "GPU-0" for risks in found for _, gpu, _ in risks)
    left = [round(DRIFT_FROM + 32 / a_day - day, 1) for day in first if day is not None]
    print(f"{a_day} K a day: said of {len(left)} of {nodes}, days before the limit {left}; of other GPUs {others}")


if __name__ == "__main__":
    main()
