"""Tables of GPU readings, one row a GPU and moment: nvidia-smi's CSV, dmon tables, DCGM's fields as columns."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collectors.base import event
from collectors.gpu.recorded import GpuColumns, GpuRow, dmon_like, dmon_rows
from collectors.table import table as matrix_of
from lockstep.analyze import table
from lockstep.analyze.files import head, lines
from lockstep.analyze.gpu_samples import Sample, last_xid, sample
from lockstep.analyze.recognise import PARQUET, parquet_columns
from lockstep.analyze.recording import CLUSTER, TICK_MS, Input, Progress
from schemas import Event, NodeFrame
from schemas.frame import Gpu


def read_series(input_: Input, node: str, progress: Progress) -> Iterator[Sample]:
    """The samples of each node (`node`, where the table names none): a GPU that comes again begins the next one."""
    columns: GpuColumns | None = None
    held: dict[str, list[GpuRow]] = {}
    nodes: dict[str, _Node] = {}
    for number, row in enumerate(_rows(input_.path), 1):
        if row is not None and columns is None:
            columns = GpuColumns(row)
        found = columns.row(row) if row is not None and columns is not None else None
        if found is None:
            input_.skip("broken" if row is None else "no_gpu_or_time")
            continue
        if number % 50_000 == 0:
            progress(f"judging {input_.path.name}", number)
        name = found.node or node
        waiting = held.setdefault(name, [])
        if any(other.gpu == found.gpu for other in waiting):
            yield nodes.setdefault(name, _Node(name)).sample(input_, waiting)
            waiting.clear()
        waiting.append(found)
    for name, waiting in held.items():
        yield nodes.setdefault(name, _Node(name)).sample(input_, waiting)


def _rows(path: Path) -> Iterator[Mapping[str, Any] | None]:
    start = head(path)
    if dmon_like(start):
        return (row for _, row in dmon_rows(line.decode("utf-8", "replace") for line in lines(path)))
    columns = parquet_columns(path) if start.startswith(PARQUET) else ()
    return (
        row and {name.strip(): value for name, value in row.items() if name} for _, row in table.rows(path, columns)
    )


class _Node:
    """One node of a table: numbers its samples, and knows the last XID of each GPU."""

    def __init__(self, name: str) -> None:
        self._name, self._seq = name, 0
        self._xids: dict[str, int] = {}

    def sample(self, input_: Input, rows: list[GpuRow]) -> Sample:
        self._seq += 1
        columns = tuple(dict.fromkeys(name for row in rows for name in row.values))
        filled = [{name: row.values.get(name, "blank") for name in columns} for row in rows]
        matrix, missing = matrix_of("gpu", [row.gpu for row in rows], columns, filled)
        frame = NodeFrame(
            cluster=CLUSTER,
            ts_ms=rows[0].ts_ms if rows[0].ts_ms is not None else self._seq * TICK_MS,
            node=self._name,
            run_id=1,
            seq=self._seq,
            gpus=tuple(Gpu(uuid=row.gpu, pci=row.pci, slot=row.slot) for row in rows),
            sections={"gpu": matrix},
            missing=missing,
        )
        return sample(input_, frame, [happened for row in rows for happened in self._events(row)])

    def _events(self, row: GpuRow) -> Iterator[Event]:
        said = set(row.values.values())
        if "lost" in said:
            yield event("gpu_lost", severity="critical", gpu=row.gpu, text="the driver says: GPU is lost")
        elif "reset_required" in said:
            text = "the driver says: GPU requires reset"
            yield event("gpu_reset_required", severity="critical", gpu=row.gpu, text=text)
        if row.xid is not None:
            if row.xid > 0 and row.xid != self._xids.get(row.gpu, 0):
                yield last_xid(row.xid, row.gpu)
            self._xids[row.gpu] = row.xid
