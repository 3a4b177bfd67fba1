"""Whether the logs of one folder are of one job: what they say of ranks, worlds, groups and days must go together."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lockstep.analyze.job_log import JobLog

APART_DAYS = 1
"""A hang is told within a day; logs further apart tell of two."""


class _Facts(NamedTuple):
    """What one log says of its job: ranks that write, process groups, its communicators' ids and the widest one's size,
    timed-out operations (rank, number, operation), and days (month * 31 + day, as old lines have no year)."""

    ranks: set[int]
    groups: set[str]
    ids: set[str]
    world: int
    works: set[tuple[int, int, str]]
    days: set[int]


def jobs(logs: Mapping[Path, JobLog]) -> list[list[Path]]:
    """The logs by job. All of them are one while nothing speaks against it; where something does, only those are joined
    that name the same communicator or the same timed-out operation."""
    facts = {path: _facts(log) for path, log in logs.items()}
    paths = sorted(facts)
    if not any(_differ(facts[a], facts[b]) for n, a in enumerate(paths) for b in paths[:n]):
        return [paths]
    found: list[list[Path]] = []
    for path in paths:
        mine = facts[path]
        for job in found:
            others = [facts[other] for other in job]
            if any(_linked(mine, other) for other in others) and not any(_differ(mine, other) for other in others):
                job.append(path)
                break
        else:
            found.append([path])
    return found


def _facts(log: JobLog) -> _Facts:
    out = _Facts(set(log.writers), set(), set(), 0, set(), set())
    for _, line in log.said:
        rank = line.rank if line.rank is not None else line.local if line.what != "warn" else None
        if rank is not None and line.what != "init":
            out.ranks.add(rank)
        if line.what == "init":
            out.ids.add(line.group)
        elif line.group:
            out.groups.add(line.group)
        if line.seq is not None and line.op and rank is not None:
            out.works.add((rank, line.seq, line.op))
        if day := _day(line.clock):
            out.days.add(day)
    return out._replace(world=log.world)


def _day(clock: str) -> int:
    """Of "0321 02:07:08" or "2026-03-21 02:07:08"; 0 where there is none."""
    digits = clock.split(" ")[0].replace("-", "")[-4:]
    return int(digits[:2]) * 31 + int(digits[2:]) if digits.isdigit() and len(digits) == 4 else 0


def _differ(a: _Facts, b: _Facts) -> bool:
    """Whether the two cannot be of one job."""
    if _linked(a, b):
        return False
    # In one hang different ranks time out in different groups, at the same time.
    beside = bool(a.days & b.days) and not a.ranks & b.ranks
    if a.groups and b.groups and not a.groups & b.groups and not beside:
        return True
    if a.ids and b.ids and a.world and b.world and a.world != b.world:
        return True
    if any(one.world and max(other.ranks, default=0) >= one.world for one, other in ((a, b), (b, a))):
        return True
    if a.ranks & b.ranks and a.works and b.works:
        return True
    return bool(a.days and b.days) and min(abs(x - y) for x in a.days for y in b.days) > APART_DAYS


def _linked(a: _Facts, b: _Facts) -> bool:
    """Whether both name one communicator or one timed-out operation."""
    return bool(a.ids & b.ids or {work[1:] for work in a.works} & {work[1:] for work in b.works})
