"""What detection says of a node's GPUs each tick, as records: scores beside matrices, one record a job."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.baseline import Baseline
from detectors.compile import compiled
from detectors.condition import Float32, Index
from detectors.deviation import COMPARED, COMPARED_AT, RAW_AT, SCORED_NAMES, Deviation
from detectors.event_watch import EventWatch
from detectors.magnitude import strongest
from schemas.features import Baselines, Features, GpuScore
from schemas.frame import Gpu, NodeFrame
from schemas.matrix import Matrix

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

_PUBLISHED_AT = np.array([COMPARED_AT[name] for name in PUBLISHED])
_AS_READ_AT = np.array([RAW_AT[name] for name in AS_READ])


class Scores(NamedTuple):
    """What the forest says of the rows of a tick: score and p-value, both NaN where too little was judged."""

    score: NDArray[np.float64]
    p: NDArray[np.float64]


def features_of(frame: NodeFrame, tick: Deviation, scores: Scores, model: str, events: EventWatch) -> list[Features]:
    """One record for each job whose GPUs are in the frame, in its order."""
    gpus: Sequence[Gpu] = frame.gpus
    listed = _listed(frame)
    if len(listed) != len(gpus):
        known = {gpu.uuid: gpu for gpu in gpus}
        gpus = [known.get(uuid) or Gpu(uuid=uuid) for uuid in listed]
    strong = strongest(tick.scored, tick.residual, SCORED_NAMES)
    said = [
        GpuScore(
            uuid=gpu.uuid,
            pci=gpu.pci,
            rank=gpu.rank,
            score=score,
            p_value=p if p == p else None,
            strongest=names,
            recent=events.recent(gpu.uuid, frame.ts_ms),
        )
        for gpu, score, p, names in zip(gpus, scores.score.tolist(), scores.p.tolist(), strong, strict=False)
    ]
    jobs = [gpu.job for gpu in gpus]
    rows = len(jobs)  # GPUs that are known and not in the frame come after those in it
    z, centres, readings = (np.empty((rows, n), dtype="<f4") for n in (len(PUBLISHED), len(PUBLISHED), len(READ)))
    _publish(tick.z, tick.centre, tick.readings, tick.raw, _PUBLISHED_AT, _AS_READ_AT, z, centres, readings)
    host = _host(frame)
    out = []
    for job in dict.fromkeys(jobs):
        own: slice | list[int] = slice(None)
        uuids, theirs = listed, tuple(said)
        if jobs.count(job) < rows:
            own = [row for row, other in enumerate(jobs) if other == job]
            uuids, theirs = tuple(listed[row] for row in own), tuple(said[row] for row in own)
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
                gpus=theirs,
                z=Matrix(uuids, PUBLISHED, z[own].tobytes()),
                readings=Matrix(uuids, READ, readings[own].tobytes()),
                centres=Matrix(uuids, PUBLISHED, centres[own].tobytes()),
                host=host,
            )
        )
    return out


@compiled
def _publish(
    z: Float32,
    centre: Float32,
    readings: Float32,
    raw: Float32,
    published: Index,
    as_read: Index,
    z_out: Float32,
    centre_out: Float32,
    readings_out: Float32,
) -> None:
    for r in range(len(z_out)):
        for k in range(len(published)):
            c = published[k]
            z_out[r, k], centre_out[r, k], readings_out[r, k] = z[r, c], centre[r, c], readings[r, c]
        for k in range(len(as_read)):
            readings_out[r, len(published) + k] = raw[r, as_read[k]]


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


def _listed(frame: NodeFrame) -> tuple[str, ...]:
    matrix = frame.sections.get("gpu")
    return tuple(dict.fromkeys([*[gpu.uuid for gpu in frame.gpus], *(matrix.rows if matrix is not None else ())]))


def _host(frame: NodeFrame) -> dict[str, float]:
    """The finite readings of host and tray."""
    out: dict[str, float] = {}
    for section in ("host", "tray"):
        matrix = frame.sections.get(section)
        if matrix is not None and matrix.rows:
            out |= matrix.row(0)
    return out
