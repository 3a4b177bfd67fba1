"""One JSON line of NCCL Inspector, as its writer's keys: what is read of it, in every format version."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_SIZE_BYTES = 2**62
"""A size from here on is the writer's arithmetic gone wrong (an unnamed datatype yields 2^64 - 131136)."""

MAX_BANDWIDTH_GBS = 1e5
"""100 TB/s: fifty times the fastest NVLink domain's share of one GPU."""

MAX_EXEC_TIME_US = 86_400e6
"""A day: longer than any watchdog lets an operation run."""

MAX_NUMBER = 2**62
"""Sequence numbers from here on are torn ones."""

MAX_WHOLE = 2**53
"""Below it a float is the number it was written as."""

Bandwidth = Annotated[float, Meta(ge=0, le=MAX_BANDWIDTH_GBS)]


class Header(msgspec.Struct, gc=False):
    id: str
    rank: int
    n_ranks: int
    nnodes: int = 0
    comm_name: str = ""


class Metadata(msgspec.Struct, gc=False):
    hostname: str
    pid: int
    dump_timestamp_us: float = 0.0


class Kernel(msgspec.Struct, gc=False):
    kernel_stop_ts: float


class Trace(msgspec.Struct, gc=False):
    kernel_events: list[Kernel] = []


class Collective(msgspec.Struct, gc=False):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: float
    coll_exec_time_us: float
    coll_timing_source: str = ""
    coll_algo: str = ""
    coll_proto: str = ""
    coll_algobw_gbs: float | None = None
    coll_busbw_gbs: float | None = None
    event_trace_ts: msgspec.Raw = msgspec.Raw()


class PointToPoint(msgspec.Struct, gc=False):
    p2p: str
    p2p_sn: int
    p2p_msg_size_bytes: float
    p2p_exec_time_us: float
    p2p_peer: int | None = None
    p2p_timing_source: str = ""
    p2p_algobw_gbs: float | None = None
    p2p_busbw_gbs: float | None = None
    event_trace_ts: msgspec.Raw = msgspec.Raw()


class SoundCollective(msgspec.Struct, gc=False):
    """A collective of which nothing is absurd (as `Perf` and the limits there say); others are no value of it."""

    coll: Literal["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]
    coll_sn: Annotated[int, Meta(ge=0, lt=MAX_NUMBER)]
    coll_msg_size_bytes: Annotated[int, Meta(ge=0, lt=MAX_WHOLE)]
    coll_exec_time_us: Annotated[float, Meta(gt=0, le=MAX_EXEC_TIME_US)]
    coll_timing_source: str = ""
    coll_algo: str = ""
    coll_proto: str = ""
    coll_algobw_gbs: Bandwidth | None = None
    coll_busbw_gbs: Bandwidth | None = None
    event_trace_ts: msgspec.Raw = msgspec.Raw()


class Stats(msgspec.Struct, gc=False):
    coll_records: int = 0
    p2p_records: int = 0
    proxy_records: int = 0
    coll_dropped_since_last_dump: int = 0
    p2p_dropped_since_last_dump: int = 0


class Line(msgspec.Struct, gc=False):
    header: msgspec.Raw = msgspec.Raw()
    """Undecoded: of thousands of lines a second nearly all repeat one of a few."""
    metadata: Metadata | None = None
    coll_perf: Collective | None = None
    p2p_perf: PointToPoint | None = None
    dump_stats: Stats | None = None
    proxy_trace: dict[str, Any] | None = None


class Probe(msgspec.Struct):
    """A line whose operation is any value."""

    header: Header
    metadata: Metadata
    coll_perf: msgspec.Raw = msgspec.Raw()
    p2p_perf: msgspec.Raw = msgspec.Raw()


LINE = msgspec.json.Decoder(Line)
HEADER = msgspec.json.Decoder(Header)
TRACE = msgspec.json.Decoder(Trace)
SOUND_COLLECTIVE = msgspec.json.Decoder(SoundCollective)
POINT_TO_POINT = msgspec.json.Decoder(PointToPoint)
PROBE = msgspec.json.Decoder(Probe)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What their `decode` raises; a ValidationError is the first of them."""
