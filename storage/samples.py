"""Stored GPU samples back to the frames they came from, ten minutes of a node at a time: what forests learn from."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from clickhouse_connect.driver.client import Client

from schemas import Incident, NodeFrame
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import names
from storage.client import working
from storage.restore import restored

AT_ONCE_MS = 600_000
"""How much of a node is read together: 8 GPUs at 1 Hz are 4,800 rows, 9 MB while they are Python's numbers."""

METRICS = names("gpu")

_WHICH = (
    " WHERE cluster = {cluster:String} AND ts >= fromUnixTimestamp64Milli({from_ms:Int64})"
    " AND ts < fromUnixTimestamp64Milli({to_ms:Int64})"
)
_LABELS = ("toUnixTimestamp64Milli(ts)", "run_id", "seq", "rack", "gpu", "slot", "job", "parent")
_FRAMES = (
    f"SELECT {', '.join((*_LABELS, *METRICS))} FROM gpu_samples FINAL{_WHICH} AND node = {{node:String}}"
    " ORDER BY run_id, seq, slot, gpu"
)


class Extent(NamedTuple):
    """How much there is of a node in a period: rows are ticks of GPUs, some of them perhaps twice."""

    node: str
    rows: int


def newest_ms(client: Client, cluster: str) -> int | None:
    """When the newest sample of the cluster was taken; None where there is none."""
    sql = "SELECT toUnixTimestamp64Milli(max(ts)), count() FROM gpu_samples WHERE cluster = {cluster:String}"
    with working("GPU samples"):
        found, count = client.query(sql, parameters={"cluster": cluster}).result_rows[0]
    return int(found) if count else None


def extents(client: Client, cluster: str, from_ms: int, to_ms: int) -> list[Extent]:
    """The nodes with samples in the period, by name."""
    sql = f"SELECT node, count() FROM gpu_samples{_WHICH} GROUP BY node ORDER BY node"
    with working("GPU samples"):
        found = client.query(sql, parameters={"cluster": cluster, "from_ms": from_ms, "to_ms": to_ms})
    return [Extent(str(node), int(rows)) for node, rows in found.result_rows]


def frames(client: Client, cluster: str, node: str, from_ms: int, to_ms: int) -> Iterator[NodeFrame]:
    """The GPU part of a node's frames in the order in which they were sent, without repeats."""
    for begin_ms in range(from_ms, to_ms, AT_ONCE_MS):
        asked = {"cluster": cluster, "node": node, "from_ms": begin_ms, "to_ms": min(begin_ms + AT_ONCE_MS, to_ms)}
        with working(f"GPU samples of {node}"):
            columns = client.query(_FRAMES, parameters=asked).result_columns
        yield from _framed(cluster, node, columns)


def incidents_during(client: Client, cluster: str, from_ms: int, to_ms: int) -> list[Incident]:
    """The newest revision of every incident that was open in the period."""
    sql = (
        "SELECT * FROM v_incidents WHERE cluster = {cluster:String}"
        " AND onset_at < fromUnixTimestamp64Milli({to_ms:Int64})"
        " AND (resolved_at IS NULL OR resolved_at >= fromUnixTimestamp64Milli({from_ms:Int64})) ORDER BY onset_at, id"
    )
    with working("incidents"):
        found = client.query(sql, parameters={"cluster": cluster, "from_ms": from_ms, "to_ms": to_ms})
        return [restored(Incident, row) for row in found.named_results()]


def _framed(cluster: str, node: str, columns: Sequence[Sequence[object]]) -> Iterator[NodeFrame]:
    if not columns:
        return
    labels = list(zip(*columns[: len(_LABELS)], strict=True))
    readings = np.column_stack([np.asarray(column, dtype=np.float32) for column in columns[len(_LABELS) :]])
    at = 0
    for (ts_ms, run_id, seq), group in groupby(labels, key=lambda row: row[:3]):
        rows = list(group)
        uuids = [str(row[4]) for row in rows]
        yield NodeFrame(
            cluster=cluster,
            ts_ms=ts_ms,
            node=node,
            run_id=run_id,
            seq=seq,
            rack=rows[0][3],
            gpus=tuple(Gpu(uuid=row[4], slot=row[5], job=row[6], parent=row[7]) for row in rows),
            sections={"gpu": Matrix.of(uuids, METRICS, readings[at : at + len(rows)])},
        )
        at += len(rows)
