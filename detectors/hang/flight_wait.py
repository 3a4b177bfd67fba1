"""What every rank waits for, from the dumps of one job."""

from collections.abc import Iterable

import msgspec

from detectors.hang.flight_dump import Dump, Op

YOUNG_MS = 5_000
"""An operation that began less than this before the dump was written is in flight, not stuck: the least deadline of
`detectors.job.progress`."""


class Wait(msgspec.Struct):
    """One rank in one open operation, and the members that are not in it."""

    rank: int
    op: Op
    absent: set[int]
    unknown: set[int]


def waits_of(dumps: dict[int, Dump]) -> Iterable[Wait]:
    """Every rank's oldest open operation of every group, unless it is too young to be stuck."""
    for rank, dump in sorted(dumps.items()):
        first: dict[tuple[str, bool, bool, int | None], Op] = {}
        for op in dump.ops:
            if not op.done and not (dump.written_ms and 0 <= dump.written_ms - op.created_ms < YOUNG_MS):
                key = (op.group, op.p2p, op.sends, op.peer)
                if key not in first or op.seq < first[key].seq:
                    first[key] = op
        for op in first.values():
            if op.p2p:
                if op.peer is None or op.peer == rank:
                    continue
                other = dumps.get(op.peer)
                absent = {op.peer} if other is not None and not _meets(other, rank, op) else set()
                yield Wait(rank, op, absent, {op.peer} if other is None else set())
                continue
            absent, unknown = set(), set()
            for member in members(dumps, op.group):
                other = dumps.get(member)
                state = other.groups.get(op.group) if other else None
                if other is None or state is None or state.enqueued is None:
                    unknown.add(member)
                elif state.enqueued < op.seq and not _too_early(other, op):
                    absent.add(member)
            yield Wait(rank, op, absent - {rank}, unknown - {rank})


def _too_early(other: Dump, op: Op) -> bool:
    """Whether a dump was written before the operation could be missed in it."""
    return 0 < other.written_ms < op.created_ms + YOUNG_MS and other.newest_ms <= other.written_ms


def _meets(peer: Dump, rank: int, op: Op) -> bool:
    """Whether the peer of a send or receive has its counterpart: open, or gone through already (its count of the group
    of two is that far)."""
    if any(o.p2p and o.peer == rank and o.sends != op.sends and not o.done for o in peer.ops):
        return True
    state = peer.groups.get(op.group)
    return state is not None and len(state.ranks) == 2 and state.enqueued is not None and state.enqueued >= op.seq


def members(dumps: dict[int, Dump], group: str) -> tuple[int, ...]:
    """The ranks of a group: as configured, else all whose dumps speak of it."""
    for dump in dumps.values():
        known = dump.groups.get(group)
        if known is not None and known.ranks:
            return known.ranks
    return tuple(sorted(rank for rank, dump in dumps.items() if group in dump.groups))
