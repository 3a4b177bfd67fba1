"""NCCL Inspector's Prometheus files: means by GPU, collective and size, of both label sets (NCCL 2.29.3 and 2.30).

They carry no rank from 2.30 on and only means, so they say how fast, not who. The writer deletes them at the end and
writes nothing new while nothing runs: an old file looks healthy.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.nccl.inspector_line import MAX_BANDWIDTH_GBS, MAX_EXEC_TIME_US
from collectors.prometheus_text import parse

UNITS = {
    "nccl_bus_bandwidth_gbs": "busbw_gbs",
    "nccl_algorithm_bandwidth_gbs": "algbw_gbs",
    "nccl_collective_exec_time_microseconds": "exec_time_us",
    "nccl_p2p_bus_bandwidth_gbs": "busbw_gbs",
    "nccl_p2p_exec_time_microseconds": "exec_time_us",
}
"""Metrics, and what their values are here."""

_LOOKS = re.compile(rb"^nccl_(bus_bandwidth_gbs|algorithm_bandwidth_gbs|(collective|p2p)_\w+)\s*\{", re.M)


class Mean(NamedTuple):
    """One value. `quantity` is one of UNITS; `rank` and `sn` (of the last operation) are told by 2.29 only."""

    quantity: str
    value: float
    node: str
    gpu: str
    communicator: str
    function: str
    size: str
    ranks: int | None
    rank: int | None
    sn: int | None
    algorithm: str
    job: str


def looks_like(start: bytes) -> bool:
    """Whether a file that starts like this is one of them."""
    return bool(_LOOKS.search(start))


def means(text: str) -> Iterator[Mean | None]:
    """Every value in the file's order; None for one that cannot be (the 2^64 sizes of an unnamed datatype)."""
    for sample in parse(text).samples:
        quantity = UNITS.get(sample.name)
        if quantity is None:
            continue
        labels = sample.labels
        try:
            value = float(sample.value)
        except ValueError:
            value = math.nan
        most = MAX_EXEC_TIME_US if quantity == "exec_time_us" else MAX_BANDWIDTH_GBS
        size = labels.get("message_size", "")
        if not 0 <= value <= most or (size.endswith("TB") and len(size) > 8):
            yield None
            continue
        yield Mean(
            quantity,
            value,
            labels.get("node") or labels.get("hostname", ""),
            labels.get("gpu") or labels.get("gpu_device_id", ""),
            labels.get("comm_id") or labels.get("comm_name", ""),
            labels.get("collective") or labels.get("p2p_operation", ""),
            size,
            _natural(labels.get("nranks")),
            _natural(labels.get("rank")),
            _natural(labels.get("coll_sn")),
            labels.get("algo_proto", ""),
            labels.get("slurm_job_id", ""),
        )


def _natural(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
