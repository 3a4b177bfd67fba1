"""Step lines as a training callback writes them: one JSON object a step and rank, times in microseconds."""

from schemas.jobkey import job_key
from simulator.environment import environment
from simulator.job import StepReport
from simulator.lines import Lines
from simulator.topology import Topology


class StepWriter:
    """Writes the reports of all ranks into the `Lines` of their nodes (by node index)."""

    def __init__(self, topology: Topology, cluster: str, sinks: list[Lines]) -> None:
        self._job = job_key(environment(topology, cluster, 0)) or ""
        self._sinks = sinks
        gpus = [int(gpu) for gpu in topology.gpu_of_rank]
        self._nodes = [int(topology.node_of_gpu[gpu]) for gpu in gpus]
        self._tails = [
            f',"node":"{topology.nodes[node]}","gpu":"{topology.uuids[gpu]}","job":"{self._job}"}}'
            for gpu, node in zip(gpus, self._nodes, strict=True)
        ]

    def write(self, report: StepReport, start_ms: int, clock_offset_ms: list[int]) -> None:
        """The lines of one step. `start_ms` is the wall clock at the fleet's start, offsets are per node."""
        columns = (
            report.ranks, report.end_us, report.data_us, report.compute_us, report.comm_us, report.wait_us,
            report.step_us, report.work, report.allocator_us,
        )  # fmt: skip
        for rank, end, data, compute, comm, wait, step, work, stall in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            node = self._nodes[rank]
            ts_ms = start_ms + int(end // 1000) + clock_offset_ms[node]
            line = (
                f'{{"step":{report.step},"rank":{rank},"data_us":{data:.0f},"compute_us":{compute:.0f},'
                f'"comm_us":{comm:.0f},"wait_us":{wait:.0f},"step_us":{step:.0f},"ts_ms":{ts_ms},"work":{work:.0f},'
                f'"frag_stall_us":{stall:.0f}{self._tails[rank]}'
            )
            self._sinks[node].push(f"steps-rank{rank}.jsonl", line.encode())
