"""From late members of many communicators to few culprits: cascades are discounted, and who moved together is one.

A late rank in tensor parallel makes its whole tensor group late in data parallel, so the smallest communicator with a
steady culprit speaks and its members are excused in wider ones. What is left is a rank, a whole node, a whole group,
or too many for any one of them. Slow transfers are intersected: what all slow communicators share and no fast one has.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from detectors.job.arrival import Lateness
from detectors.job.groups import Group, Stream

MOST_OF_A_NODE = 0.6
"""This part of a node's ranks late together, two at least, is the node (rule of thumb of the root-cause notes)."""

EXCUSED = 2.0
"""A member is excused by its narrower group's culprit unless it costs this many times as much of the time: a delay at
each of several inner collectives adds up to one large delay at the outer one."""

OWN_SHARE = 0.5
ALONE = 3.0
"""Inside a node that is late as a whole, a rank that causes half of that by itself inside a narrower group, and three
times as much as the next, is the culprit instead."""

MANY = 8
"""More single culprits than this at once are not singled out."""


class LateRank(NamedTuple):
    """One late rank: how late, since when, where that was seen best, and what it added up to there lately. `standing`:
    it has no healthy past, and its delay is that behind its peers."""

    rank: int
    delay_us: float
    period_us: float
    onset_ms: int
    onset_sn: int
    hits: int
    group: Group
    stream: Stream
    standing: bool = False
    caused_us: float = 0.0

    @property
    def cost(self) -> float:
        """The part of the time that is lost; microseconds where the rounds carry no time."""
        return self.delay_us / self.period_us if self.period_us > 0 else self.delay_us


class Blame(NamedTuple):
    """Culprits of one kind. `scope` is rank, node, group or job; `node` and `group` name it for those scopes."""

    scope: str
    late: tuple[LateRank, ...]
    node: str = ""
    group: str = ""


class SlowLinks(NamedTuple):
    """Communicators whose transfers became slow together. `shared` are the ranks on all of them and on no fast one."""

    groups: tuple[Group, ...]
    worst: tuple[Stream, Lateness]
    shared: tuple[int, ...]
    one_node: str
    fast_peers: int


def late_ranks(says: Sequence[tuple[Group, Stream, Lateness]], node_of: Mapping[int, str]) -> list[Blame]:
    """Who is to blame for lateness, most delay first. `node_of` maps every known rank of the job to its node.

    `says` holds the streams in which anything stirs, not only those with a steady culprit.
    """
    by_group: dict[str, dict[int, LateRank]] = {}
    named: set[tuple[str, int]] = set()
    groups = {group.id: group for group, _, _ in says}
    for group, stream, lateness in says:
        for i in lateness.steady.nonzero()[0].tolist():
            found = _late_rank(group, stream, lateness, i)
            known = by_group.setdefault(group.id, {})
            if found.rank >= 0 and (found.rank not in known or found.delay_us > known[found.rank].delay_us):
                known[found.rank] = found
            if lateness.late[i]:
                named.add((group.id, found.rank))
    culprits: dict[int, LateRank] = {}
    for id_, rank in _roots(by_group, groups, _behind_slow_links(says)):
        found = by_group[id_][rank]
        if (id_, rank) not in named:
            continue  # it may have stopped: it still excuses its peers, who are told of later
        if rank not in culprits:
            culprits[rank] = found
        elif found.delay_us > culprits[rank].delay_us:
            culprits[rank] = culprits[rank]._replace(delay_us=found.delay_us)
    return _together(culprits, node_of, says)


Entry = tuple[str, int]
"""A communicator and a rank that is late in it."""


def _roots(
    by_group: Mapping[str, Mapping[int, LateRank]], groups: Mapping[str, Group], behind: Mapping[int, float]
) -> list[Entry]:
    """The late ranks that no other one explains, those of narrow groups first.

    A rank that waited for another in one group comes late to the next: in tensor parallel and then in data parallel,
    or the other way round. Where two explain each other the narrower group is believed. `behind` is what slow
    transfers cost a rank by themselves.
    """
    members = {id_: frozenset(groups[id_].ranks.tolist()) for id_ in by_group}
    # Only a minority speaks for its group: where most of it is late, nobody inside was waited for.
    speaking = [id_ for id_, late in by_group.items() if len(late) <= max(1, groups[id_].size // 2)]
    entries = sorted(
        ((id_, rank) for id_, late in by_group.items() for rank in late), key=lambda e: (groups[e[0]].size, *e)
    )

    def explains(other: str, id_: str, rank: int) -> bool:
        if other == id_ or rank not in members[other] or rank in by_group[other] or members[id_] <= members[other]:
            return False
        most = max(found.cost for found in by_group[other].values())
        return by_group[id_][rank].cost <= EXCUSED * most

    by_whom: dict[Entry, list[Entry]] = {}
    explained: set[Entry] = set()
    for id_, rank in entries:
        if by_group[id_][rank].cost <= EXCUSED * behind.get(rank, 0.0):
            explained.add((id_, rank))
            continue
        by_whom[id_, rank] = [(other, c) for other in speaking if explains(other, id_, rank) for c in by_group[other]]
    roots = [entry for entry in entries if entry in by_whom and not by_whom[entry]]
    left = [entry for entry in entries if by_whom.get(entry)]
    explained.update(roots)
    while left:
        now = [entry for entry in left if explained.intersection(by_whom[entry])]
        if not now:
            now = left[:1]
            roots += now
        explained.update(now)
        left = [entry for entry in left if entry not in explained]
    # Where a rank is late in several groups, the one in which it kept others waiting is shown.
    explains_count = Counter(who for others in by_whom.values() for who in others)
    return sorted(roots, key=lambda e: (groups[e[0]].size, -explains_count[e], *e))


def _late_rank(group: Group, stream: Stream, lateness: Lateness, i: int) -> LateRank:
    return LateRank(
        int(group.ranks[i]),
        float(lateness.delay_us[i]),
        lateness.period_us,
        int(lateness.onset_ms[i]),
        int(lateness.onset_sn[i]),
        int(lateness.hits[i]),
        group,
        stream,
        bool(lateness.standing[i]),
        float(lateness.caused_us[i]),
    )


def _behind_slow_links(says: Sequence[tuple[Group, Stream, Lateness]]) -> dict[int, float]:
    """Ranks that come late elsewhere because a transfer of their own group is slow, and what that costs."""
    excused: dict[int, float] = {}
    for group, _, lateness in says:
        if lateness.slow or lateness.slowing:
            lost = max(lateness.t_us - lateness.t_past_us, 0.0)
            cost = lost / lateness.period_us if lateness.period_us > 0 else lost
            for rank in group.ranks.tolist():
                excused[rank] = excused.get(rank, 0.0) + cost
    return excused


def _together(
    culprits: Mapping[int, LateRank], node_of: Mapping[int, str], says: Sequence[tuple[Group, Stream, Lateness]]
) -> list[Blame]:
    if not culprits:
        return []
    members = Counter(node_of.values())
    nodes: dict[str, set[int]] = {}
    for rank in culprits:
        nodes.setdefault(node_of.get(rank, ""), set()).add(rank)
    blames = []
    left = dict(culprits)
    for node, late in sorted(nodes.items()):
        if node and len(late) >= 2 and len(late) >= MOST_OF_A_NODE * members[node]:
            found = [left.pop(rank) for rank in sorted(late)]
            inner = _inner_culprit(found, says)
            blames.append(Blame("node", tuple(found), node=node) if inner is None else Blame("rank", (inner,)))
    if len(left) > MANY:
        blames.append(Blame("job", tuple(left.values())))
    else:
        blames += [Blame("rank", (found,)) for found in left.values()]
    blames.sort(key=lambda b: -max(f.delay_us for f in b.late))
    return blames


def _inner_culprit(late: Sequence[LateRank], says: Sequence[tuple[Group, Stream, Lateness]]) -> LateRank | None:
    """The one rank among `late` that makes the others late inside their own narrower groups, if there is one.

    Its lateness there need not be steady: it may come late to one of several operations of a step.
    """
    ranks = {found.rank for found in late}
    widths = {found.group.id for found in late}
    caused: dict[int, float] = {}
    best: dict[int, LateRank] = {}
    for group, stream, lateness in says:
        inside = {rank: i for i, rank in enumerate(group.ranks.tolist()) if rank in ranks}
        if len(inside) < 2 or group.id in widths:
            continue
        for rank, i in inside.items():
            here_us = float(lateness.caused_us[i])
            caused[rank] = caused.get(rank, 0.0) + here_us
            if here_us > 0:
                best[rank] = _late_rank(group, stream, lateness, i)
    ranked = sorted(caused.items(), key=lambda item: (-item[1], item[0]))
    (first, most), *others = [*ranked[:2], (-1, 0.0)]
    outer = max(found.caused_us for found in late)
    if first not in best or most < OWN_SHARE * outer or most < ALONE * others[0][1]:
        return None
    widest = max(late, key=lambda found: found.delay_us)
    return best[first]._replace(
        delay_us=widest.delay_us, period_us=widest.period_us, onset_ms=widest.onset_ms, hits=best[first].hits
    )


def slow_links(says: Sequence[tuple[Group, Stream, Lateness]], heard: Mapping[Stream, Group]) -> SlowLinks | None:
    """The slow communicators of a job as one verdict; None where none is slow.

    `heard` are all streams of the job that go on. Only groups that do the same (function and size) are compared.
    """
    slow: dict[str, Group] = {}
    worst: tuple[Stream, Lateness] | None = None
    for group, stream, lateness in says:
        if lateness.slow or lateness.slowing:
            slow[group.id] = group
        if lateness.slow and (worst is None or lateness.rise > worst[1].rise):
            worst = (stream, lateness)
    if worst is None:
        return None
    sets = [{r for r in group.ranks.tolist() if r >= 0} for group in slow.values()]
    shared = set.intersection(*sets)
    alike = {
        stream.communicator: group
        for stream, group in heard.items()
        if stream[1:] == worst[0][1:] and stream.communicator not in slow
    }
    for group in alike.values():
        shared -= set(group.ranks.tolist())
    hosts = set.union(*(group.hosts() for group in slow.values()))
    widest = max(group.nodes or len(group.hosts()) for group in slow.values())
    one_node = next(iter(hosts)) if len(hosts) == 1 and widest <= 1 else ""
    return SlowLinks(tuple(slow.values()), worst, tuple(sorted(shared)), one_node, len(alike))
