"""Bus bandwidth: what a collective's time says of the links, alike for every size of group.

Factors as in nccl-tests' and NCCL Inspector's own arithmetic; GB is 1e9 bytes. For AllGather and ReduceScatter the
message size of Inspector is one rank's piece, so the traffic is size x ranks.
"""

from schemas.collective import Function

SYNCHRONOUS: frozenset[Function] = frozenset({"AllReduce", "AllGather", "ReduceScatter"})
"""Functions in which every rank waits for every other. Broadcast, Reduce, Send, Recv and what is built of them do not
make all ranks wait, so the shortest time in them names nobody."""


def bus_bandwidth_gbs(function: Function, size_bytes: int, ranks: int, time_us: float) -> float:
    """Bus bandwidth of one operation in GB/s. With the group's shortest time it is the true one; with a rank's own
    time it contains that rank's waiting. NaN for a time that is not positive.

    >>> round(bus_bandwidth_gbs("AllReduce", 16_777_216, 8, 900), 2)
    32.62
    """
    if not time_us > 0 or ranks < 1:
        return float("nan")
    traffic = size_bytes * (ranks if function in ("AllGather", "ReduceScatter") else 1)
    share = (ranks - 1) / ranks
    factor = {"AllReduce": 2 * share, "AllGather": share, "ReduceScatter": share}.get(function, 1.0)
    return traffic / time_us * 1e-3 * factor
