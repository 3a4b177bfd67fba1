"""Frames of a node at work, as plain as possible: what the detectors' tests feed."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from schemas import NodeFrame, RackFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import names

T0 = 1_700_000_000_000
COLUMNS = names("gpu", every_s=1)
COLUMN = {name: i for i, name in enumerate(COLUMNS)}

WORKING = {
    "power_w": 690.0, "power_average_w": 690.0, "power_limit_w": 700.0, "temperature_c": 60.0,
    "memory_temperature_c": 70.0, "thermal_margin_c": 25.0, "sm_clock_mhz": 1900.0, "memory_clock_mhz": 2600.0,
    "gpu_utilization_pct": 96.0, "memory_utilization_pct": 60.0, "memory_used_mib": 60000.0, "sm_active_ratio": 0.8,
    "tensor_active_ratio": 0.4, "dram_active_ratio": 0.5, "power_cap_share": 0.9, "clocks_event_reasons": 4.0,
    "pcie_tx_bytes_per_s": 1e9, "pcie_rx_bytes_per_s": 1e9, "nvlink_tx_bytes_per_s": 2e11,
    "nvlink_rx_bytes_per_s": 2e11,
}  # fmt: skip
IDLE = WORKING | {
    "power_w": 75.0, "power_average_w": 75.0, "temperature_c": 30.0, "memory_temperature_c": 36.0,
    "thermal_margin_c": 57.0, "sm_clock_mhz": 345.0, "gpu_utilization_pct": 0.0, "memory_utilization_pct": 0.0,
    "memory_used_mib": 600.0, "sm_active_ratio": 0.0, "tensor_active_ratio": 0.0, "dram_active_ratio": 0.0,
    "power_cap_share": 0.0, "clocks_event_reasons": 1.0, "pcie_tx_bytes_per_s": 1e5, "pcie_rx_bytes_per_s": 1e5,
    "nvlink_tx_bytes_per_s": 0.0, "nvlink_rx_bytes_per_s": 0.0,
}  # fmt: skip
STEADY = ("_c", "_mhz", "limit_w")

Change = Callable[[np.ndarray, int], None]


def uuids(count: int) -> list[str]:
    return [f"GPU-{i}" for i in range(count)]


def readings(random: np.random.Generator | None, rows: int, usual: Mapping[str, float] = WORKING) -> np.ndarray:
    """(rows, COLUMNS): `usual` with noise of 0.2 % (heat and clocks) to 2 %; counters and the rest 0."""
    values = np.zeros((rows, len(COLUMNS)), dtype=np.float32)
    for name, value in usual.items():
        noise = 0.0 if random is None or name == "clocks_event_reasons" else 0.002 if name.endswith(STEADY) else 0.02
        factor = 1 if random is None else 1 + noise * random.standard_normal(rows)
        values[:, COLUMN[name]] = value * factor
    shares = [COLUMN[name] for name in COLUMNS if name.endswith(("_ratio", "_share"))]
    values[:, shares] = np.minimum(values[:, shares], 1)
    used = [COLUMN["gpu_utilization_pct"], COLUMN["memory_utilization_pct"]]
    values[:, used] = np.minimum(values[:, used], 100)
    return values


def node_frame(
    second: int, values: np.ndarray, job: str | Sequence[str] = "job-1", node: str = "n1", run_id: int = 1
) -> NodeFrame:
    """One tick: `values` (GPUs, COLUMNS)."""
    count = len(values)
    jobs = [job] * count if isinstance(job, str) else job
    gpus = tuple(
        Gpu(uuid=uuid, pci=f"0000:{i + 1:02x}:00.0", slot=i, job=jobs[i], rank=i if jobs[i] else None)
        for i, uuid in enumerate(uuids(count))
    )
    return NodeFrame(
        cluster="c",
        ts_ms=T0 + second * 1000,
        node=node,
        run_id=run_id,
        seq=second,
        rack="r1",
        gpus=gpus,
        sections={
            "gpu": Matrix.of(uuids(count), COLUMNS, values),
            "host": Matrix.of([node], ["cpu_utilization_pct", "load_1m"], [[20.0, float("nan")]]),
        },
    )


def node_frames(
    seconds: range,
    gpus: int = 4,
    seed: int | None = 1,
    change: Change | None = None,
    usual: Mapping[str, float] = WORKING,
    job: str | Sequence[str] = "job-1",
    run_id: int = 1,
) -> list[NodeFrame]:
    """A node at work; `change(values, second)` alters a tick's readings in place. Without `seed` there is no noise."""
    random = None if seed is None else np.random.default_rng(seed)
    out = []
    for second in seconds:
        values = readings(random, gpus, usual)
        if change is not None:
            change(values, second)
        out.append(node_frame(second, values, job, run_id=run_id))
    return out


LOOP = {"supply_c": 32.0, "return_c": 44.0, "flow_lpm": 130.0, "heat_w": 108_000.0}


def rack_frame(
    second: int,
    random: np.random.Generator | None = None,
    loop: Mapping[str, float] | None = None,
    pump_pct: float = 44.0,
    pressure_kpa: float = 90.0,
    leaks: Mapping[str, float] | None = None,
    output_w: float = 14_000.0,
    node: str = "n1",
) -> RackFrame:
    """One tick of a rack with one loop, a running and a standby pump, two trays' leak detectors and eight shelves."""
    noise = (lambda: 1.0) if random is None else lambda: 1 + 0.003 * random.standard_normal()
    values = LOOP | dict(loop or {})
    wet = {f"{tray}/{part}": 0.0 for tray in ("t1", "t2") for part in ("ColdPlate", "Manifold")} | dict(leaks or {})
    return RackFrame(
        cluster="c",
        ts_ms=T0 + second * 1000,
        node=node,
        run_id=1,
        seq=second,
        rack="r1",
        sections={
            "loop": Matrix.of(["loop"], list(values), [[value * noise() for value in values.values()]]),
            "cdu": Matrix.of(
                ["pump-1", "pump-2"],
                ["pump_speed_pct", "pressure_kpa"],
                [[pump_pct * noise(), pressure_kpa * noise()], [0.0, pressure_kpa * noise()]],
            ),
            "leak": Matrix.of(list(wet), ["leak_detected"], [[value] for value in wet.values()]),
            "shelf": Matrix.of(
                [f"shelf-{i}" for i in range(8)], ["output_w"], [[output_w * noise()] for _ in range(8)]
            ),
        },
    )
