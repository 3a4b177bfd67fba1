"""The compiled way from a frame to deviations beside the plain one: the same numbers, whatever the readings."""

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from node_frames import COLUMNS, IDLE, WORKING, node_frames

from detectors.condition import Averages, Columns, Increases, Ranges
from detectors.node.baseline import Baseline
from detectors.node.deviation import Deviations
from detectors.node.gpu_columns import (
    COMPARED,
    COMPARED_AT,
    COUNTED,
    EXPECTED_PRESENCE,
    MEASURED,
    PRESENCE_TICKS,
    PRESENCE_WARM_UP,
    RAW,
    RAW_AT,
    SETTLE_HEAT_TICKS,
    SETTLE_TICKS,
    STATES,
    WAITING,
    WORKING_FROM_PCT,
    WORKING_UNTIL_PCT,
)
from detectors.node.gpu_columns import (
    IDLE as IDLES,
)
from detectors.node.gpu_columns import (
    WORKING as WORKS,
)
from schemas.frame import NodeFrame
from schemas.matrix import Matrix

WILD = np.array([np.nan, 0, -1, 1, 100, 255, 4294967295, 9.2e18, np.inf, -np.inf], dtype=np.float32)
USE = ("gpu_utilization_pct", "sm_active_ratio")


class Plain:
    """One GPU after the other, one number after the other, of a node whose GPUs and job do not change."""

    def __init__(self, rows: int) -> None:
        self.columns, self.ranges = Columns(RAW), Ranges("gpu", RAW)
        self.increases, self.averages = Increases(rows, len(COUNTED)), Averages(rows, len(COMPARED))
        self.baseline = Baseline(COMPARED, rows, STATES)
        self.state, self.age = [-1] * rows, [float(SETTLE_HEAT_TICKS)] * rows
        self.presence, self.ticks = np.zeros((rows, len(RAW)), dtype=np.float32), np.float32(0)

    def update(self, frame: NodeFrame) -> dict[str, np.ndarray]:
        raw, out_of_range = self.ranges.apply(self.columns.select(frame.sections["gpu"]))
        here = ~np.isnan(raw)
        expected = self.presence > EXPECTED_PRESENCE
        for row in raw:
            if np.isnan(row[RAW_AT["power_average_w"]]):
                row[RAW_AT["power_average_w"]] = row[RAW_AT["power_w"]]
        grown = self.increases.apply(raw[:, [RAW_AT[name] for name in COUNTED]])
        readings = self.averages.apply(np.concatenate([raw[:, [RAW_AT[name] for name in MEASURED]], grown], axis=1))
        settled = np.zeros(readings.shape, dtype=bool)
        for r in range(len(raw)):
            now = used(raw[r], RAW_AT)
            mean = used(readings[r], COMPARED_AT)
            works = self.state[r] == WORKS
            if not np.isnan(mean):
                works = mean >= (WORKING_UNTIL_PCT if works else WORKING_FROM_PCT)
            state = WORKS if works else WAITING if frame.gpus[r].job else IDLES
            self.age[r] = self.age[r] + 1 if self.state[r] in (state, -1) else 0
            self.state[r] = state
            for c, name in enumerate(COMPARED):
                wait = SETTLE_HEAT_TICKS if name.endswith("_c") else SETTLE_TICKS
                settled[r, c] = self.age[r] >= wait and not (works and now < WORKING_UNTIL_PCT)
        states = np.array(self.state, dtype=np.intp)
        z, centre = self.baseline.compare(readings, states)
        z[~settled] = np.nan
        self.baseline.learn(readings, states, settled)
        absent = expected & ~here
        told = {
            "raw": raw, "grown": grown, "readings": readings, "z": z, "centre": centre, "state": states,
            "absent": absent, "here": here.any(axis=1), "known": (self.presence > 0).any(axis=1),
            "missing_share": absent.sum(axis=1) / np.maximum(expected.sum(axis=1), 1), "out_of_range": out_of_range,
        }  # fmt: skip
        self.ticks = min(self.ticks + np.float32(1), np.float32(PRESENCE_WARM_UP))
        gain = 1 / self.ticks if self.ticks < PRESENCE_WARM_UP else np.float32(1 / PRESENCE_TICKS)
        self.presence = (self.presence + gain * (here - self.presence)).astype(np.float32)
        return told


def used(row: np.ndarray, at: dict[str, int]) -> float:
    utilization, active = (float(row[at[name]]) for name in USE)
    return active * 100 if np.isnan(utilization) else utilization


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.01, 0.3]), st.sampled_from(["a", ""]))
def test_the_compiled_way_says_what_the_plain_one_says(seed: int, wild: float, job: str) -> None:
    random = np.random.default_rng(seed)
    plain, deviations = Plain(3), Deviations()
    frames = node_frames(range(70), gpus=3, seed=seed, job=job)
    frames += node_frames(range(70, 100), gpus=3, seed=seed + 1, job=job, usual=IDLE)
    frames += node_frames(range(100, 150), gpus=3, seed=seed + 2, job=job, usual=WORKING)
    for frame in frames:
        values = frame.sections["gpu"].values().copy()
        hit = random.random(values.shape) < wild
        values[hit] = random.choice(WILD, hit.sum())
        values[random.random(3) < wild / 3] = np.nan
        matrix = Matrix.of(frame.sections["gpu"].rows, COLUMNS, values)
        frame = msgspec.structs.replace(frame, sections={"gpu": matrix})
        tick, expected = deviations.update(frame), plain.update(frame)
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(tick, name), value, rtol=1e-6, err_msg=name)
        deviations.learn(np.ones(3, dtype=bool))
