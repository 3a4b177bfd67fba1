"""NCCL Inspector lines in the v4.0 form, one number changed at a time."""

import json


def operation(
    pid: int = 1,
    sn: int = 0,
    time: float = 100.0,
    id: str = "0xc",
    rank: int = 0,
    size: int = 8,
    function: str = "AllReduce",
    size_bytes: int = 1 << 24,
    host: str = "node-01",
    dump_us: int = 1_796_000_000_000_000,
    name: str = "default_pg",
    nodes: int = 1,
) -> bytes:
    """One finished collective of one process."""
    return json.dumps(
        _about(pid, id, rank, size, host, dump_us, name, nodes)
        | {
            "coll_perf": {
                "coll": function,
                "coll_sn": sn,
                "coll_msg_size_bytes": size_bytes,
                "coll_exec_time_us": time,
                "coll_timing_source": "kernel_gpu",
            }
        }
    ).encode()


def stats_line(pid: int = 1, id: str = "0xc", dump_us: int = 1_796_000_000_000_000, records: int = 0) -> bytes:
    """The marker of one dump (v4.1 and later)."""
    return json.dumps(
        _about(pid, id, 0, 8, "node-01", dump_us, "default_pg", 1) | {"dump_stats": {"coll_records": records}}
    ).encode()


def _about(
    pid: int, id: str, rank: int, size: int, host: str, dump_us: int, name: str, nodes: int
) -> dict[str, dict[str, object]]:
    return {
        "header": {"id": id, "comm_name": name, "rank": rank, "n_ranks": size, "nnodes": nodes},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": dump_us,
            "hostname": host,
            "pid": pid,
        },
    }
