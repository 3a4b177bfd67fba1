"""Steps of a made-up pipeline-parallel job: equal work, 1 % noise, and whatever a test puts in."""

from collections.abc import Callable, Iterator

import numpy as np

from detectors.pipeline.grid import PipelineOps
from detectors.pipeline.replay import BACKWARD, FORWARD


def schedule(stage: int, stages: int, microbatches: int) -> list[tuple[int, int]]:
    """One forward, one backward: (kind, microbatch) in the order of a stage."""
    ahead = min(stages - 1 - stage, microbatches)
    order = [(FORWARD, k) for k in range(ahead)]
    for k in range(microbatches - ahead):
        order += [(FORWARD, ahead + k), (BACKWARD, k)]
    return order + [(BACKWARD, k) for k in range(microbatches - ahead, microbatches)]


Times = Callable[[int, int, int, int, int], float]
"""The factor of an operation, by step, replica, stage, kind and microbatch."""


def pipeline_steps(
    factor: Times = lambda *_: 1.0,
    *,
    dp: int = 4,
    pp: int = 4,
    microbatches: int = 8,
    steps: int = 12,
    seed: int = 1,
    noise: float = 0.01,
    ranks: int = 1,
) -> Iterator[tuple[int, PipelineOps]]:
    """Numbered steps; backward takes twice as long as forward. Each worker has `ranks` that work as one."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        rows = []
        for d in range(dp):
            for s in range(pp):
                clock = 0.0
                for kind, k in schedule(s, pp, microbatches):
                    took = 0.1 * (1 + kind) * factor(step, d, s, kind, k) * float(np.exp(rng.normal(0, noise)))
                    for tensor in range(ranks):
                        rows.append((d, s, (s * dp + d) * ranks + tensor, kind, clock, took))
                    clock += took
        order = rng.permutation(len(rows))
        numbers = np.array([row[:4] for row in rows], np.int64)[order].T
        times = np.array([row[4:] for row in rows])[order].T
        yield step, PipelineOps(numbers[0], numbers[1], numbers[2], numbers[3], times[0], times[1])
