"""Weeks of a node, or a rack, in a few readings an hour (simulated): what slow trends are tested with."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from schemas import NodeFrame, RackFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix

START_MS = 20_000 * 86_400_000
DAY_MS = 86_400_000
AN_HOUR = 3
"""Readings an hour: as many as make it a point."""

COLUMNS = (
    "thermal_margin_c", "power_w", "power_limit_w", "ecc_sbe_count", "remapped_uncorrectable_count", "remap_pending",
    "pcie_replay_count",
)  # fmt: skip
MARGIN, POWER, _, CORRECTED, ROWS, PENDING, REPLAYS = range(len(COLUMNS))
AT_WORK, IDLE = 690.0, 75.0

Change = Callable[[np.ndarray, float], None]


def moments(days: float, since_day: float = 0.0) -> Iterator[tuple[float, int]]:
    """Days since the start, and milliseconds."""
    step = DAY_MS // (24 * AN_HOUR)
    for ts_ms in range(int(since_day * DAY_MS), int(days * DAY_MS), step):
        yield ts_ms / DAY_MS, START_MS + ts_ms


def slow_node(
    days: float,
    change: Change | None = None,
    *,
    seed: int = 1,
    gpus: int = 4,
    node: str = "n1",
    power_w: float = AT_WORK,
    names: Sequence[str] = (),
    links: Callable[[float], list[list[float]]] | None = None,
    since_day: float = 0.0,
) -> Iterator[NodeFrame]:
    """GPUs with a thermal margin of 25 K that goes with the hour of the day, and noise. `change(values, day)` alters
    readings (GPUs, COLUMNS) in place; `links(day)` gives rows of bit error rate (log10) and codewords with five wrong
    symbols a second for two links of each GPU."""
    random = np.random.default_rng(seed)
    own = tuple(names) or tuple(f"GPU-{i}" for i in range(gpus))
    ends = tuple(f"{gpu}/{link}" for gpu in own for link in range(2))
    listed = tuple(Gpu(uuid=gpu, pci=f"0000:{i + 1:02x}:00.0") for i, gpu in enumerate(own))
    for i, (day, ts_ms) in enumerate(moments(days, since_day), int(since_day * 24 * AN_HOUR)):
        values = np.zeros((len(own), len(COLUMNS)), dtype="<f4")
        values[:, MARGIN] = 25 + 3 * np.sin(2 * np.pi * day) + random.standard_normal(len(own))
        values[:, 1:3] = power_w, 700.0
        if change is not None:
            change(values, day)
        sections = {"gpu": Matrix(own, COLUMNS, values.tobytes())}
        if links is not None:
            sections["nvlink"] = Matrix.of(ends, ["effective_ber_log10", "fec_5_per_s"], links(day))
        yield NodeFrame(
            cluster="c", ts_ms=ts_ms, node=node, run_id=1, seq=i, gpus=listed, sections=sections
        )  # fmt: skip


def slow_rack(days: float, fans: Callable[[float], float], pump: Callable[[float], float]) -> Iterator[RackFrame]:
    """A rack of two nodes with two fans each, a pump that runs, one on standby, and one valve. `fans` is the speed of
    the fans of node t1 in percent, `pump` that of the pump."""
    random = np.random.default_rng(1)
    for i, (day, ts_ms) in enumerate(moments(days)):
        noise = random.standard_normal(6)
        speeds = [[fans(day) + noise[0]], [fans(day) + noise[1]], [40 + noise[2]], [40 + noise[3]]]
        sections = {
            "fan": Matrix.of(["t1/Fan1", "t1/Fan2", "t2/Fan1", "t2/Fan2"], ["speed_pct"], speeds),
            "cdu": Matrix.of(["Pump1", "Pump2"], ["pump_speed_pct"], [[pump(day) + noise[4]], [0.0]]),
            "loop": Matrix.of(["loop-1"], ["valve_pct"], [[55 + noise[5]]]),
        }
        yield RackFrame(cluster="c", ts_ms=ts_ms, node="n1", run_id=1, seq=i, rack="r1", sections=sections)
