"""From late members of many communicators to few culprits: cascades are discounted, and who moved together is one.

A late rank in tensor parallel makes its whole tensor group late in data parallel, so the smallest communicator with a
steady culprit speaks and its members are excused in wider ones. What is left is a rank, a whole node, a whole group,
or too many for any one of them. Slow transfers are intersected: what all slow communicators share and no fast one has.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from detectors.arrival import Lateness
from detectors.groups import Group, Stream

MOST_OF_A_NODE = 0.6
"""This part of a node's ranks late together, two at least, is the node (rule of thumb of the root-cause notes)."""

EXCUSED = 2.0
"""A member is excused by its narrower group's culprit unless it costs this many times as much of the time: a delay at
each of several inner collectives adds up to one large delay at the outer one."""

MANY = 8
"""More single culprits than this at once are not singled out."""


class LateRank(NamedTuple):
    """One late rank: how late, since when, and where that was seen best."""

    rank: int
    delay_us: float
    period_us: float
    onset_ms: int
    onset_sn: int
    hits: int
    group: Group
    stream: Stream

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


def late_ranks(says: Iterable[tuple[Group, Stream, Lateness]], node_of: Mapping[int, str]) -> list[Blame]:
    """Who is to blame for lateness, most delay first. `node_of` maps every known rank of the job to its node."""
    by_group: dict[str, dict[int, LateRank]] = {}
    groups: dict[str, Group] = {}
    for group, stream, lateness in says:
        for i in lateness.late.nonzero()[0]:
            rank = int(group.ranks[i])
            if rank < 0:
                continue
            groups[group.id] = group
            found = LateRank(
                rank,
                float(lateness.delay_us[i]),
                lateness.period_us,
                int(lateness.onset_ms[i]),
                int(lateness.onset_sn[i]),
                int(lateness.hits[i]),
                group,
                stream,
            )
            known = by_group.setdefault(group.id, {})
            if rank not in known or found.delay_us > known[rank].delay_us:
                known[rank] = found
    culprits: dict[int, LateRank] = {}
    excused: dict[int, float] = {}
    for id_ in sorted(by_group, key=lambda g: (groups[g].size, g)):
        group, late = groups[id_], by_group[id_]
        for rank, found in late.items():
            if rank in culprits:
                if found.delay_us > culprits[rank].delay_us:
                    culprits[rank] = culprits[rank]._replace(delay_us=found.delay_us)
            elif rank not in excused or found.cost > EXCUSED * excused[rank]:
                culprits[rank] = found
        # Only a minority speaks for its group: where most of it is late, nobody inside was waited for.
        if len(late) <= max(1, group.size // 2):
            most = max(found.cost for found in late.values())
            for member in group.ranks.tolist():
                if member >= 0 and member not in late:
                    excused[member] = max(most, excused.get(member, 0.0))
    return _together(culprits, node_of)


def _together(culprits: Mapping[int, LateRank], node_of: Mapping[int, str]) -> list[Blame]:
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
            blames.append(Blame("node", tuple(left.pop(rank) for rank in sorted(late) if rank in left), node=node))
    if len(left) > MANY:
        blames.append(Blame("job", tuple(left.values())))
    else:
        blames += [Blame("rank", (found,)) for found in left.values()]
    blames.sort(key=lambda b: -max((f.delay_us for f in b.late), default=0.0))
    return [b for b in blames if b.late]


def slow_links(says: Iterable[tuple[Group, Stream, Lateness]], fast: Iterable[Group]) -> SlowLinks | None:
    """The slow communicators of a job as one verdict; None where none is slow."""
    slow: dict[str, Group] = {}
    worst: tuple[Stream, Lateness] | None = None
    for group, stream, lateness in says:
        if lateness.slow:
            slow[group.id] = group
            if worst is None or lateness.t_us / lateness.t_past_us > worst[1].t_us / worst[1].t_past_us:
                worst = (stream, lateness)
    if worst is None:
        return None
    sets = [{r for r in group.ranks.tolist() if r >= 0} for group in slow.values()]
    shared = set.intersection(*sets)
    widest = max(group.nodes or len(group.hosts()) for group in slow.values())
    peers = [g for g in fast if g.id not in slow and (g.nodes or len(g.hosts())) >= min(widest, 2)]
    for group in peers:
        shared -= set(group.ranks.tolist())
    hosts = set.union(*(group.hosts() for group in slow.values()))
    one_node = next(iter(hosts)) if len(hosts) == 1 and widest <= 1 else ""
    return SlowLinks(tuple(slow.values()), worst, tuple(sorted(shared)), one_node, len(peers))
