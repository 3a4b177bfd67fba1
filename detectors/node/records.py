"""What detection says of a node's GPUs each tick, as records: scores beside matrices, one record a job."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled
from detectors.condition import Float32, Index
from detectors.event_watch import EventWatch
from detectors.forest.magnitude import largest_row
from detectors.node.baseline import Baseline
from detectors.node.deviation import Deviation
from detectors.node.gpu_columns import COMPARED, COMPARED_AT, RAW_AT, SCORED_NAMES
from detectors.node.gpu_pass import Records
from schemas.features import Baselines, Features, GpuScore
from schemas.frame import NodeFrame
from schemas.matrix import LITTLE, Matrix

PUBLISHED = (
    "power_w", "power_average_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz", "memory_clock_mhz",
    "power_cap_share", "software_thermal_share", "hardware_thermal_share", "power_brake_share",
    "gpu_utilization_pct", "memory_used_mib", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio",
    "pcie_rx_bytes_per_s", "nvlink_rx_bytes_per_s", "ecc_dbe_count", "pcie_replay_count", "nvlink_error_count",
)  # fmt: skip
"""The conditions that a cause is read from; of counters the increase per tick. Others stay in baselines and frames."""

AS_READ = ("clocks_event_reasons", "recovery_action", "remap_pending")
"""Codes and bits go out as they were read."""

READ = PUBLISHED + AS_READ

_PUBLISHED_AT: Index = np.array([COMPARED_AT[name] for name in PUBLISHED], dtype=np.intp)
_AS_READ_AT: Index = np.array([RAW_AT[name] for name in AS_READ], dtype=np.intp)

_STRONGEST = 3
"""So many metrics are named that made a score."""


class Scores(NamedTuple):
    """What the forest says of the rows of a tick: score and p-value, both NaN where too little was judged, and the
    lowest p-value (1 for none)."""

    score: NDArray[np.float64]
    p: NDArray[np.float64]
    lowest: float


def features_of(frame: NodeFrame, tick: Deviation, scores: Scores, model: str, events: EventWatch) -> list[Features]:
    """One record for each job whose GPUs are in the frame, in its order."""
    roster = tick.roster
    rows = len(roster.uuids)  # GPUs that are known and not in the frame come after those in it
    z, centres = np.empty((rows, len(PUBLISHED)), dtype=LITTLE), np.empty((rows, len(PUBLISHED)), dtype=LITTLE)
    readings, strong = np.empty((rows, len(READ)), dtype=LITTLE), np.empty((rows, _STRONGEST), dtype=np.intp)
    _publish(tick.told, z, centres, readings, strong)
    said = tuple(
        [
            GpuScore(
                uuid=gpu.uuid,
                pci=gpu.pci,
                rank=gpu.rank,
                score=score,
                p_value=p if p == p else None,
                strongest=tuple([SCORED_NAMES[i] for i in names if i >= 0]),
                recent=events.recent(gpu.uuid, frame.ts_ms),
            )
            for gpu, score, p, names in zip(
                roster.gpus, scores.score.tolist(), scores.p.tolist(), strong.tolist(), strict=False
            )
        ]
    )
    host = _host(frame)
    out = []
    for job, own, uuids in roster.crews:
        whole = len(uuids) == rows
        published, read = _sheets(uuids)
        out.append(
            Features(
                cluster=frame.cluster,
                ts_ms=frame.ts_ms,
                node=frame.node,
                run_id=frame.run_id,
                seq=frame.seq,
                job=job,
                model=model,
                rack=frame.rack,
                gpus=said if whole else tuple([said[i] for i in own.tolist()]),
                z=published.with_data((z if whole else z[own]).tobytes()),
                readings=read.with_data((readings if whole else readings[own]).tobytes()),
                centres=published.with_data((centres if whole else centres[own]).tobytes()),
                host=host,
            )
        )
    return out


@lru_cache(maxsize=4096)
def _sheets(uuids: tuple[str, ...]) -> tuple[Matrix, Matrix]:
    """Matrices of these GPUs, of PUBLISHED and of READ, whose numbers are yet to come."""
    published, read = (Matrix(uuids, columns, bytes(4 * len(uuids) * len(columns))) for columns in (PUBLISHED, READ))
    return published, read


@compiled
def _publish(told: Records, z_out: Float32, centre_out: Float32, readings_out: Float32, strongest: Index) -> None:
    """What goes out of the GPUs in the frame: the published columns, and the places of their strongest metrics."""
    for r in range(len(z_out)):
        z, centre, readings, raw = told[r]["z"], told[r]["centre"], told[r]["readings"], told[r]["raw"]
        for k in range(len(_PUBLISHED_AT)):
            c = _PUBLISHED_AT[k]
            z_out[r, k], centre_out[r, k], readings_out[r, k] = z[c], centre[c], readings[c]
        for k in range(len(_AS_READ_AT)):
            readings_out[r, len(_PUBLISHED_AT) + k] = raw[_AS_READ_AT[k]]
        largest_row(told[r]["scored"], told[r]["residual"], strongest[r])


def baselines_of(frame: NodeFrame, tick: Deviation, baseline: Baseline) -> Baselines:
    """Centre and spread of every metric that is compared, NaN where nothing was learned."""
    spread: Float32 = np.where(np.isnan(tick.centre), np.float32(np.nan), baseline.spread(tick.state))
    return Baselines(
        cluster=frame.cluster,
        ts_ms=frame.ts_ms,
        node=frame.node,
        run_id=frame.run_id,
        seq=frame.seq,
        centre=Matrix.of(tick.uuids, COMPARED, tick.centre),
        spread=Matrix.of(tick.uuids, COMPARED, spread),
    )


def _host(frame: NodeFrame) -> dict[str, float]:
    """The finite readings of host and tray."""
    out: dict[str, float] = {}
    for section in ("host", "tray"):
        matrix = frame.sections.get(section)
        if matrix is not None and matrix.rows:
            out |= matrix.row(0)
    return out
