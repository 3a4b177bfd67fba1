"""NCCL Inspector's lines, every format version: what one rank says of one finished operation.

Versions as of NCCL's source: v4.0 (2.28.3 to 2.30.7, plain and verbose, `coll_perf` and `p2p_perf`), v4.1 (a
`dump_stats` line), v4.2 (algorithm and protocol), v4.3 and v4.4 (the header stands once, in a marker, and the lines
after it are bare). The shape of a line decides, not the version it claims, so older samples and patched builds that
send floats are read alike. Nothing here raises on bad input: a line is data or a Rejected with its reason.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from schemas.collective import Function

FUNCTIONS: dict[str, Function] = {
    "AllReduce": "AllReduce",
    "AllGather": "AllGather",
    "ReduceScatter": "ReduceScatter",
    "Broadcast": "Broadcast",
    "Reduce": "Reduce",
    "AlltoAll": "AllToAll",
    "AllToAll": "AllToAll",
    "Send": "Send",
    "Recv": "Recv",
}

MAX_SIZE_BYTES = 2**62
"""A size from here on is the writer's arithmetic gone wrong (an unnamed datatype yields 2^64 - 131136)."""

MAX_BANDWIDTH_GBS = 1e5
"""100 TB/s: fifty times the fastest NVLink domain's share of one GPU."""

MAX_EXEC_TIME_US = 86_400e6
"""A day: longer than any watchdog lets an operation run."""


MAX_NUMBER = 2**62
"""Sequence numbers from here on are torn ones."""

MAX_PID = 2**32

MAX_TIME_US = 4_102_444_800_000_000
"""The year 2100: a clock that says more is broken, not early."""

MAX_RANKS = 2**20
"""A communicator of more ranks than any cluster has GPUs: a torn number."""


class Process(NamedTuple):
    """The process that wrote: host name as it printed it, and process id."""

    hostname: str
    pid: int


class Member(NamedTuple):
    """One communicator as the writing process sees it; `rank` is the rank inside the communicator."""

    id: str
    name: str
    rank: int
    size: int
    nodes: int


class Perf(msgspec.Struct, frozen=True, gc=False):
    """One finished operation of one process. `dump_us` is the writer's wall clock when it wrote the line.

    `exec_time_us` is the longest kernel time over the channels and contains the wait for peers. `start_us` and
    `stop_us` (host wall clock, verbose format only) are when the kernel was seen to start and stop, else NaN.
    `peer` is the other rank of a Send or Recv. A Send's or Recv's `sn` is the process's own count: never compare it.
    """

    process: Process
    member: Member
    function: Function
    sn: int
    size_bytes: int
    exec_time_us: float
    dump_us: int
    start_us: float = math.nan
    stop_us: float = math.nan
    peer: int | None = None
    timing_source: str = ""
    algorithm: str = ""
    protocol: str = ""


class DumpStats(NamedTuple):
    """The writer's own word on one dump of one communicator: records written, and records it had to drop."""

    process: Process
    member: Member
    dump_us: int
    records: int
    dropped: int


class Rejected(NamedTuple):
    """A line that is no operation: `reason` is one of REASONS."""

    reason: str


REASONS = (
    "broken",
    "unattributable",
    "bad_field",
    "unknown_function",
    "absurd_size",
    "absurd_bandwidth",
    "absurd_time",
)
"""broken: no JSON object (a partial last line is normal). unattributable: a bare record without its marker."""

IGNORED = Rejected("proxy_trace")
"""A proxy_trace record: well formed, and not used yet."""

Parsed = Perf | DumpStats | Rejected


class _Header(msgspec.Struct, gc=False):
    id: str
    rank: int
    n_ranks: int
    nnodes: int = 0
    comm_name: str = ""


class _Metadata(msgspec.Struct, gc=False):
    hostname: str
    pid: int
    dump_timestamp_us: float = 0.0


class _Kernel(msgspec.Struct, gc=False):
    kernel_start_ts: float = math.nan
    kernel_stop_ts: float = math.nan


class _Trace(msgspec.Struct, gc=False):
    kernel_events: list[_Kernel] = []


class _Collective(msgspec.Struct, gc=False):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: float
    coll_exec_time_us: float
    coll_timing_source: str = ""
    coll_algo: str = ""
    coll_proto: str = ""
    coll_algobw_gbs: float | None = None
    coll_busbw_gbs: float | None = None
    event_trace_ts: _Trace | None = None


class _PointToPoint(msgspec.Struct, gc=False):
    p2p: str
    p2p_sn: int
    p2p_msg_size_bytes: float
    p2p_exec_time_us: float
    p2p_peer: int | None = None
    p2p_timing_source: str = ""
    p2p_algobw_gbs: float | None = None
    p2p_busbw_gbs: float | None = None
    event_trace_ts: _Trace | None = None


class _Stats(msgspec.Struct, gc=False):
    coll_records: int = 0
    p2p_records: int = 0
    proxy_records: int = 0
    coll_dropped_since_last_dump: int = 0
    p2p_dropped_since_last_dump: int = 0


class _Line(msgspec.Struct, gc=False):
    header: msgspec.Raw = msgspec.Raw()
    """Undecoded: of thousands of lines a second nearly all repeat one of a few."""
    metadata: _Metadata | None = None
    coll_perf: _Collective | None = None
    p2p_perf: _PointToPoint | None = None
    dump_stats: _Stats | None = None
    proxy_trace: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_Line)
_header_decoder = msgspec.json.Decoder(_Header)

MOST_HEADERS = 1000
"""Headers remembered of a file: more communicators than a rank is in."""


class InspectorReader:
    """Reads the lines of ONE file in order; it remembers the last marker, because bare lines belong to it.

    >>> InspectorReader().read(b'{"header":')
    Rejected(reason='broken')
    """

    def __init__(self) -> None:
        self._marker: tuple[Process, Member, int] | None = None
        self._bare_left = 0
        self._members: dict[bytes, Member] = {}
        self._process = Process("", -1)

    def read(self, line: bytes) -> Parsed:
        """What one line says (without or with its newline)."""
        try:
            found = _decoder.decode(line)
            who = self._who(found)
        except msgspec.ValidationError:
            self._one_bare_less()
            return Rejected("bad_field")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._one_bare_less()
            return Rejected("broken")
        if isinstance(who, Rejected):
            return who
        if found.dump_stats is not None:
            return _stats(*who, found.dump_stats)
        if found.coll_perf is not None:
            return _collective(*who, found.coll_perf)
        if found.p2p_perf is not None:
            return _point_to_point(*who, found.p2p_perf)
        return IGNORED if found.proxy_trace is not None else Rejected("bad_field")

    def read_all(self, lines: Iterable[bytes]) -> list[Parsed]:
        """All non-empty lines, in order."""
        return [self.read(line) for line in lines if line.strip()]

    def _who(self, line: _Line) -> tuple[Process, Member, int] | Rejected:
        header, metadata = bytes(line.header), line.metadata
        if metadata is None or header in (b"", b"null"):
            if self._marker is None or not self._bare_left:
                return Rejected("unattributable")
            self._bare_left -= 1
            return self._marker
        self._bare_left = 0
        member = self._members.get(header) or self._member(header)
        if member is None or metadata.pid < 0:
            return Rejected("bad_field")
        dump_us = metadata.dump_timestamp_us
        if not 0 <= dump_us <= 4_102_444_800_000_000:
            return Rejected("absurd_time")
        if self._process != (metadata.hostname, metadata.pid):
            self._process = Process(metadata.hostname, metadata.pid)
        who = self._process, member, int(dump_us)
        if line.dump_stats is not None:
            stats = line.dump_stats
            self._marker = who
            self._bare_left = max(stats.coll_records, 0) + max(stats.p2p_records, 0) + max(stats.proxy_records, 0)
        return who

    def _member(self, header: bytes) -> Member | None:
        """The communicator that a header speaks of; None where it cannot be. Raises msgspec's errors."""
        h = _header_decoder.decode(header)
        if not (0 <= h.rank < h.n_ranks <= MAX_RANKS and 0 < len(h.id) <= 64):
            return None
        member = Member(h.id, h.comm_name[:128], h.rank, h.n_ranks, max(h.nnodes, 0))
        if len(self._members) >= MOST_HEADERS:
            self._members.clear()
        self._members[header] = member
        return member

    def _one_bare_less(self) -> None:
        self._bare_left = max(self._bare_left - 1, 0)


def _stats(process: Process, member: Member, dump_us: int, stats: _Stats) -> DumpStats:
    records = max(stats.coll_records, 0) + max(stats.p2p_records, 0)
    dropped = max(stats.coll_dropped_since_last_dump, 0) + max(stats.p2p_dropped_since_last_dump, 0)
    return DumpStats(process, member, dump_us, records, dropped)


def _collective(process: Process, member: Member, dump_us: int, c: _Collective) -> Perf | Rejected:
    function = FUNCTIONS.get(c.coll)
    wrong = _absurd(
        function, c.coll_sn, c.coll_msg_size_bytes, c.coll_exec_time_us, c.coll_algobw_gbs, c.coll_busbw_gbs
    )
    if wrong or function is None:
        return Rejected(wrong or "unknown_function")
    start, stop = _span(c.event_trace_ts)
    return Perf(
        process, member, function, c.coll_sn, int(c.coll_msg_size_bytes), c.coll_exec_time_us, dump_us, start, stop,
        None, c.coll_timing_source, c.coll_algo, c.coll_proto,
    )  # fmt: skip


def _point_to_point(process: Process, member: Member, dump_us: int, p: _PointToPoint) -> Perf | Rejected:
    function = FUNCTIONS.get(p.p2p)
    wrong = _absurd(function, p.p2p_sn, p.p2p_msg_size_bytes, p.p2p_exec_time_us, p.p2p_algobw_gbs, p.p2p_busbw_gbs)
    if wrong or function is None:
        return Rejected(wrong or "unknown_function")
    start, stop = _span(p.event_trace_ts)
    return Perf(
        process, member, function, p.p2p_sn, int(p.p2p_msg_size_bytes), p.p2p_exec_time_us, dump_us, start, stop,
        p.p2p_peer, p.p2p_timing_source,
    )  # fmt: skip


def _absurd(
    function: Function | None, sn: int, size: float, exec_time_us: float, algobw: float | None, busbw: float | None
) -> str | None:
    if function is None:
        return "unknown_function"
    if sn < 0:
        return "bad_field"
    if not 0 <= size < MAX_SIZE_BYTES:
        return "absurd_size"
    if not 0 < exec_time_us <= MAX_EXEC_TIME_US:
        return "absurd_time"
    if not (0 <= (algobw or 0) <= MAX_BANDWIDTH_GBS and 0 <= (busbw or 0) <= MAX_BANDWIDTH_GBS):
        return "absurd_bandwidth"
    return None


def _span(trace: _Trace | None) -> tuple[float, float]:
    start, stop = math.inf, -math.inf
    for event in trace.kernel_events if trace is not None else ():
        start, stop = min(start, event.kernel_start_ts), max(stop, event.kernel_stop_ts)
    return (start, stop) if start < math.inf and stop > -math.inf else (math.nan, math.nan)
