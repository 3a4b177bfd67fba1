"""NCCL Inspector's own lines for every finished collective: format v4.0, key for key as NCCL 2.30.7 writes it.

One file a process holds all its communicators; `header.rank` is the rank inside the communicator; the time is an
integer of microseconds and contains the wait for peers. A dump thread writes four times a second.
"""

import numpy as np

from simulator.job import FIRST_STEP, Completed
from simulator.lines import Lines
from simulator.timeline import STEP, Collective
from simulator.topology import GPUS_PER_TRAY, Group, Topology

DUMP_US = 250_000
GIT_REV = "v2.30.7-1"


class InspectorWriter:
    """Writes the lines of all ranks into the `Lines` of their nodes (by node index)."""

    def __init__(self, topology: Topology, sinks: list[Lines]) -> None:
        ranks = range(topology.job_size)
        nodes = [int(topology.node_of_gpu[topology.gpu_of_rank[rank]]) for rank in ranks]
        self._files = [f"{topology.nodes[nodes[rank]]}-pid{topology.pid(rank)}.log" for rank in ranks]
        self._push = [sinks[node].push for node in nodes]
        self._nodes = np.array(nodes)
        self._traffic = [_traffic(topology, collective) for collective in STEP]
        self._heads = [[_head(_group(topology, c, rank), rank) for rank in ranks] for c in STEP]
        self._tails = [
            [
                f',"hostname":"{topology.nodes[nodes[rank]]}","pid":{topology.pid(rank)}}},'
                f'"coll_perf":{{"coll":"{c.function}","coll_sn":'
                for rank in ranks
            ]
            for c in STEP
        ]

    def write(self, done: Completed, start_us: int, clock_offset_us: list[int]) -> None:
        """The lines of one collective. `start_us` is the wall clock at the fleet's start, offsets are per node."""
        collective, i = STEP[done.index], done.index
        sn = sequence_number(done.step, i)
        traffic, factor = self._traffic[i]
        size = f',"coll_msg_size_bytes":{collective.size_bytes},"coll_exec_time_us":'
        exec_us = np.maximum(np.rint(done.exec_us), 1)
        algobw = traffic / exec_us / 1e3
        dump_us = (start_us + np.ceil(done.end_us / DUMP_US) * DUMP_US).astype(np.int64)
        heads, tails, files, push = self._heads[i], self._tails[i], self._files, self._push
        for rank, node, us, taken, bw in zip(
            done.ranks.tolist(),
            self._nodes[done.ranks].tolist(),
            dump_us.tolist(),
            exec_us.astype(np.int64).tolist(),
            algobw.tolist(),
            strict=True,
        ):
            line = (
                f"{heads[rank]}{us + clock_offset_us[node]}{tails[rank]}{sn}{size}{taken}"
                f',"coll_timing_source":"kernel_gpu","coll_algobw_gbs":{bw:.6f},"coll_busbw_gbs":{bw * factor:.6f}}}}}'
            )
            push[rank](files[rank], line.encode())


def sequence_number(step: int, index: int) -> int:
    """NCCL counts per communicator and function, from 0: tensor-parallel AllReduce runs three times a step."""
    same = [i for i, c in enumerate(STEP) if (c.over, c.function) == (STEP[index].over, STEP[index].function)]
    return (step - FIRST_STEP + 1) * len(same) + same.index(index)


def _group(topology: Topology, collective: Collective, rank: int) -> Group:
    if collective.over == "world":
        return topology.world
    if collective.over == "data":
        return topology.data_groups[rank % GPUS_PER_TRAY]
    return topology.tensor_groups[rank // GPUS_PER_TRAY]


def _head(group: Group, rank: int) -> str:
    return (
        f'{{"header":{{"id":"{group.id}","comm_name":"{group.name}","rank":{group.ranks.index(rank)},'
        f'"n_ranks":{len(group.ranks)},"nnodes":{group.nodes}}},'
        '"metadata":{"inspector_output_format_version":"v4.0",'
        f'"git_rev":"{GIT_REV}","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":'
    )


def _traffic(topology: Topology, collective: Collective) -> tuple[float, float]:
    """Bytes the plugin counts, and its factor from algorithm to bus bandwidth."""
    n = len(_group(topology, collective, 0).ranks)
    if collective.function == "AllReduce":
        return float(collective.size_bytes), 2 * (n - 1) / n
    return float(collective.size_bytes * n), (n - 1) / n
