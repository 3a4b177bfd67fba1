"""NCCL Inspector's lines, every format version: what one rank says of one finished operation.

Versions as of NCCL's source: v4.0 (2.28.3 to 2.30.7, plain and verbose, `coll_perf` and `p2p_perf`), v4.1 (a
`dump_stats` line), v4.2 (algorithm and protocol), v4.3 and v4.4 (the header stands once, in a marker, and the lines
after it are bare). The shape of a line decides, not the version it claims, so older samples and patched builds that
send floats are read alike. Nothing here raises on bad input: a line is data or a Rejected with its reason.

A full node's ranks write thousands of lines a second that begin alike but for a time, so a beginning is decoded once
and of the lines that begin so only the operation is. What comes of it is what the whole line would give.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from collectors.nccl.inspector_line import (
    HEADER,
    LINE,
    MAX_BANDWIDTH_GBS,
    MAX_EXEC_TIME_US,
    MAX_NUMBER,
    MAX_SIZE_BYTES,
    POINT_TO_POINT,
    PROBE,
    SOUND_COLLECTIVE,
    TRACE,
    UNREADABLE,
    Collective,
    Line,
    PointToPoint,
    Stats,
)
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

    `exec_time_us` is the longest kernel time over the channels and contains the wait for peers. `peer` is the other
    rank of a Send or Recv. A Send's or Recv's `sn` is the process's own count: never compare it. `trace` is what the
    verbose format says of each channel's kernel, as it stands in the line: only one operation of a dozen is asked.
    """

    process: Process
    member: Member
    function: Function
    sn: int
    size_bytes: int
    exec_time_us: float
    dump_us: int
    trace: bytes = b""
    peer: int | None = None
    timing_source: str = ""
    algorithm: str = ""
    protocol: str = ""

    @property
    def stop_us(self) -> float:
        """When the last of its kernels was seen to stop (the writer's wall clock); NaN where nothing says it."""
        try:
            kernels = TRACE.decode(self.trace).kernel_events
        except UNREADABLE:
            return math.nan
        stop_us = max((kernel.kernel_stop_ts for kernel in kernels), default=math.nan)
        return stop_us if 0 <= stop_us <= MAX_TIME_US else math.nan


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


MOST_HEADERS = 1000
"""Headers remembered of a file: more communicators than a rank is in."""

_COLLECTIVE, _POINT_TO_POINT = b'"coll_perf":', b'"p2p_perf":'
_BARE = (b"{" + _COLLECTIVE, b"{" + _POINT_TO_POINT)
_TIME = b'"dump_timestamp_us":'
_TO_COLLECTIVE = len(_COLLECTIVE)
_FIRST_TIME, _LAST_TIME = b"1000000000000000", b"%d" % MAX_TIME_US
"""As long as each other: times of other lengths are not looked for."""

_sound_collective = SOUND_COLLECTIVE.decode
"""Thousands of times a second: it need not be looked up."""


class _Beginning(NamedTuple):
    """Lines that begin with `begin`, whose time is in the bytes from `at` to `to`, and that go on with `middle` up to
    the operation: who says it."""

    begin: bytes
    at: int
    to: int
    middle: bytes
    process: Process
    member: Member


class InspectorReader:
    """Reads the lines of ONE file in order; it remembers the last marker, because bare lines belong to it.

    >>> InspectorReader().read(b'{"header":')
    Rejected(reason='broken')
    """

    def __init__(self) -> None:
        self._marker: tuple[Process, Member, int] | None = None
        self._bare_left = 0
        self._members: dict[bytes, Member] = {}
        self._beginnings: dict[bytes, _Beginning | None] = {}
        """By their bytes; None for one that is of no use."""
        self._beginning = _Beginning(b"\n", 0, 0, b"", Process("", -1), Member("", "", 0, 0, 0))
        """The last one: communicators are written one after another."""
        self._process = Process("", -1)

    def read(self, line: bytes) -> Parsed:
        """What one line says (without or with its newline)."""
        return self._known(line) or self.read_whole(line)

    def read_whole(self, line: bytes) -> Parsed:
        """The same, without what earlier lines have taught of beginnings."""
        try:
            found = LINE.decode(line)
            who = self._who(found)
        except msgspec.ValidationError:
            self._one_bare_less()
            return Rejected("bad_field")
        except UNREADABLE:
            self._one_bare_less()
            return Rejected("broken")
        if isinstance(who, Rejected):
            return who
        if found.dump_stats is not None:
            return _stats(*who, found.dump_stats)
        if found.coll_perf is not None:
            self._learn(line, *who)
            return _collective(*who, found.coll_perf)
        if found.p2p_perf is not None:
            self._learn(line, *who)
            return _point_to_point(*who, found.p2p_perf)
        return IGNORED if found.proxy_trace is not None else Rejected("bad_field")

    def read_all(self, lines: Iterable[bytes]) -> list[Parsed]:
        """All non-empty lines, in order."""
        return [self.read(line) for line in lines if line.strip()]

    def _known(self, line: bytes) -> Perf | Rejected | None:
        """An operation's line that begins as one before it; None for any other, and for what is odd."""
        if self._bare_left and self._marker is not None and line.startswith(_BARE):
            process, member, dump_us = self._marker
            at, left = 1, self._bare_left - 1
        else:
            known = self._beginning
            if not line.startswith(known.begin):
                another = self._beginnings.get(line[: line.find(_TIME) + len(_TIME)])
                if another is None:
                    return None
                known = self._beginning = another
            _, at, to, middle, process, member = known
            time = line[at:to]
            if not (line.startswith(middle, to) and time.isdigit() and _FIRST_TIME <= time <= _LAST_TIME):
                return None
            dump_us, at, left = int(time), to + len(middle), 0
        found: Perf | Rejected
        try:
            if line[-1:] != b"}":
                return None
            if line.startswith(_COLLECTIVE, at):
                c = _sound_collective(line[at + _TO_COLLECTIVE : -1])
                found = Perf(
                    process, member, c.coll, c.coll_sn, c.coll_msg_size_bytes, c.coll_exec_time_us, dump_us,
                    bytes(c.event_trace_ts), None, c.coll_timing_source, c.coll_algo, c.coll_proto,
                )  # fmt: skip
            elif line.startswith(_POINT_TO_POINT, at):
                point_to_point = POINT_TO_POINT.decode(line[at + len(_POINT_TO_POINT) : -1])
                found = _point_to_point(process, member, dump_us, point_to_point)
            else:
                return None
        except UNREADABLE:
            return None
        self._bare_left = left
        return found

    def _learn(self, line: bytes, process: Process, member: Member, dump_us: int) -> None:
        """Remember how this operation's line begins, if other lines can begin so with another time."""
        at = line.find(_TIME) + len(_TIME)
        begin, to = line[:at], at + len(_LAST_TIME)
        if line.startswith(_BARE) or at < len(_TIME) or begin in self._beginnings:
            return
        end = next((end for name in (_COLLECTIVE, _POINT_TO_POINT) if (end := line.find(name, to)) >= 0), to)
        middle = line[to:end]
        if len(self._beginnings) >= MOST_HEADERS:
            self._beginnings.clear()
        self._beginnings[begin] = _Beginning(begin, at, to, middle, process, member) if _is_one(begin, middle) else None

    def _who(self, line: Line) -> tuple[Process, Member, int] | Rejected:
        header, metadata = bytes(line.header), line.metadata
        if metadata is None or header in (b"", b"null"):
            if self._marker is None or not self._bare_left:
                return Rejected("unattributable")
            self._bare_left -= 1
            return self._marker
        self._bare_left = 0
        member = self._members.get(header) or self._member(header)
        if member is None or not 0 <= metadata.pid < MAX_PID:
            return Rejected("bad_field")
        dump_us = metadata.dump_timestamp_us
        if not 0 <= dump_us <= MAX_TIME_US:
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
        h = HEADER.decode(header)
        if not (0 <= h.rank < h.n_ranks <= MAX_RANKS and h.nnodes <= MAX_RANKS and 0 < len(h.id) <= 64):
            return None
        member = Member(h.id, h.comm_name[:128], h.rank, h.n_ranks, max(h.nnodes, 0))
        if len(self._members) >= MOST_HEADERS:
            self._members.clear()
        self._members[header] = member
        return member

    def _one_bare_less(self) -> None:
        self._bare_left = max(self._bare_left - 1, 0)


def _is_one(begin: bytes, middle: bytes) -> bool:
    """Whether any time between the two, and any operation after them, make a line of the process's own: tried out."""
    times = (_FIRST_TIME, _LAST_TIME)
    for time, name in ((time, name) for time in times for name in (_COLLECTIVE, _POINT_TO_POINT)):
        try:
            probe = PROBE.decode(begin + time + middle + name + b"7}")
        except UNREADABLE:
            return False
        said = bytes(probe.coll_perf) or bytes(probe.p2p_perf)
        if probe.metadata.dump_timestamp_us != int(time) or said != b"7":
            return False
    return True


def _stats(process: Process, member: Member, dump_us: int, stats: Stats) -> DumpStats:
    records = max(stats.coll_records, 0) + max(stats.p2p_records, 0)
    dropped = max(stats.coll_dropped_since_last_dump, 0) + max(stats.p2p_dropped_since_last_dump, 0)
    return DumpStats(process, member, dump_us, records, dropped)


def _collective(process: Process, member: Member, dump_us: int, c: Collective) -> Perf | Rejected:
    function, size = FUNCTIONS.get(c.coll), c.coll_msg_size_bytes
    wrong = _absurd(function, c.coll_sn, size, c.coll_exec_time_us, c.coll_algobw_gbs, c.coll_busbw_gbs)
    if function is None or wrong is not None:
        return Rejected(wrong or "unknown_function")
    return Perf(
        process, member, function, c.coll_sn, int(size), c.coll_exec_time_us, dump_us, bytes(c.event_trace_ts), None,
        c.coll_timing_source, c.coll_algo, c.coll_proto,
    )  # fmt: skip


def _point_to_point(process: Process, member: Member, dump_us: int, p: PointToPoint) -> Perf | Rejected:
    function, size = FUNCTIONS.get(p.p2p), p.p2p_msg_size_bytes
    wrong = _absurd(function, p.p2p_sn, size, p.p2p_exec_time_us, p.p2p_algobw_gbs, p.p2p_busbw_gbs)
    if function is None or wrong is not None:
        return Rejected(wrong or "unknown_function")
    return Perf(
        process, member, function, p.p2p_sn, int(size), p.p2p_exec_time_us, dump_us, bytes(p.event_trace_ts),
        p.p2p_peer, p.p2p_timing_source,
    )  # fmt: skip


def _absurd(
    function: Function | None, sn: int, size: float, exec_time_us: float, algobw: float | None, busbw: float | None
) -> str | None:
    if function is None:
        return "unknown_function"
    if not 0 <= sn < MAX_NUMBER:
        return "bad_field"
    if not 0 <= size < MAX_SIZE_BYTES:
        return "absurd_size"
    if not 0 < exec_time_us <= MAX_EXEC_TIME_US:
        return "absurd_time"
    if not (0 <= (algobw or 0) <= MAX_BANDWIDTH_GBS and 0 <= (busbw or 0) <= MAX_BANDWIDTH_GBS):
        return "absurd_bandwidth"
    return None
