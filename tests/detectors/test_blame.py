"""Cascades are discounted: the smallest group with a steady culprit speaks, and who moved together is one."""

import numpy as np

from detectors.job.arrival import Lateness
from detectors.job.blame import late_ranks, slow_links
from detectors.job.groups import Group, Stream

NODES = {rank: f"n{rank // 4}" for rank in range(16)}


def group(id_: str, ranks: list[int], nodes: int = 1) -> Group:
    g = Group(id_, "", len(ranks), nodes)
    g.ranks = np.array(ranks)
    g.where = [NODES[r] for r in ranks]
    return g


TENSOR = [group(f"0xt{n}", [4 * n + i for i in range(4)]) for n in range(4)]
DATA = [group(f"0xd{i}", [i, 4 + i, 8 + i, 12 + i], 4) for i in range(4)]


def says(
    g: Group,
    late: dict[int, float],
    period_us: float = 100_000,
    caused: dict[int, float] | None = None,
    t: float = 1.0,
) -> tuple[Group, Stream, Lateness]:
    """What the stream of a group says: steady late ranks with their delay; `t` is the rise of the transfer."""
    at = {int(rank): i for i, rank in enumerate(g.ranks)}
    mask, delay, sums = np.zeros(g.size, np.bool_), np.zeros(g.size), np.zeros(g.size)
    for rank, us in late.items():
        mask[at[rank]], delay[at[rank]] = True, us
    for rank, us in (caused or {r: 12 * us for r, us in late.items()}).items():
        sums[at[rank]] = us
    hits = np.full(g.size, 9)
    zeros = np.zeros(g.size, np.int64)
    lateness = Lateness(
        mask,
        mask,
        delay,
        sums,
        zeros,
        zeros,
        hits,
        t > 1.1,
        t > 1.1,
        0,
        0,
        400.0 * t,
        400.0,
        0.01,
        10.0,
        period_us,
        np.zeros(g.size, np.bool_),
    )
    return g, Stream(g.id, "AllReduce", 1 << 20), lateness


def test_a_tensor_parallel_culprit_excuses_its_group_in_data_parallel() -> None:
    everything = [says(TENSOR[1], {6: 3000.0})] + [says(DATA[i], {4 + i: 3000.0}) for i in range(4)]
    blames = late_ranks(everything, NODES)
    assert [(b.scope, b.late[0].rank, b.late[0].group.id) for b in blames] == [("rank", 6, "0xt1")]


def test_a_data_parallel_culprit_excuses_its_group_in_tensor_parallel() -> None:
    """Who waited for rank 5 in data parallel starts the next step late and keeps its own tensor group waiting."""
    everything = [says(DATA[1], {5: 3000.0})] + [says(TENSOR[n], {4 * n + 1: 2900.0}) for n in range(4)]
    blames = late_ranks(everything, NODES)
    assert [(b.scope, b.late[0].rank) for b in blames] == [("rank", 5)]


def test_the_wide_group_does_not_excuse_who_is_late_inside_it() -> None:
    """All of a tensor group waited alike for rank 9 in the world: it cannot have made rank 2 late among them."""
    world = group("0xw", list(range(16)), 4)
    blames = late_ranks([says(world, {9: 3000.0}), says(TENSOR[0], {2: 2000.0})], NODES)
    assert sorted(b.late[0].rank for b in blames) == [2, 9]


def test_many_small_delays_inside_add_up_to_a_large_one_outside() -> None:
    everything = [says(TENSOR[1], {6: 3000.0}, 30_000)] + [says(DATA[i], {4 + i: 9500.0}, 100_000) for i in range(4)]
    assert [b.late[0].rank for b in late_ranks(everything, NODES)] == [6]


def test_a_node_whose_ranks_are_all_late_is_the_node() -> None:
    (blame,) = late_ranks([says(DATA[i], {4 + i: 3000.0}) for i in range(4)], NODES)
    assert (blame.scope, blame.node, len(blame.late)) == ("node", "n1", 4)


def test_inside_a_late_node_the_one_who_causes_it_is_named_though_not_steady() -> None:
    inner = says(TENSOR[1], {}, 33_000, caused={6: 12_000.0, 5: 500.0})
    outer = [says(DATA[i], {4 + i: 3000.0}, caused={4 + i: 12_000.0}) for i in range(4)]
    (blame,) = late_ranks([inner, *outer], NODES)
    assert (blame.scope, blame.late[0].rank) == ("rank", 6)


def test_inside_a_late_node_a_rank_that_causes_little_of_it_is_not_the_culprit() -> None:
    inner = says(TENSOR[1], {}, 33_000, caused={6: 4_000.0, 5: 500.0})
    outer = [says(DATA[i], {4 + i: 3000.0}, caused={4 + i: 12_000.0}) for i in range(4)]
    (blame,) = late_ranks([inner, *outer], NODES)
    assert (blame.scope, blame.node) == ("node", "n1")


def test_a_culprit_that_just_stopped_still_excuses_its_group() -> None:
    g, stream, lateness = says(TENSOR[1], {6: 3000.0})
    stopped = (g, stream, lateness._replace(late=np.zeros(4, np.bool_)))
    blames = late_ranks([stopped, *(says(DATA[i], {4 + i: 3000.0}) for i in range(4))], NODES)
    assert [(b.scope, b.late[0].rank) for b in blames] == [("rank", 6)]


def test_two_independent_culprits_are_two() -> None:
    blames = late_ranks([says(TENSOR[0], {1: 2000.0}), says(TENSOR[3], {14: 5000.0})], NODES)
    assert [(b.scope, b.late[0].rank) for b in blames] == [("rank", 14), ("rank", 1)]


def test_ranks_behind_a_slow_link_of_their_own_are_excused() -> None:
    slow = says(TENSOR[1], {}, t=9.0)
    everything = [slow, *(says(DATA[i], {4 + i: 3200.0}) for i in range(4))]
    assert late_ranks(everything, NODES) == []
    found = slow_links(everything, {})
    assert found is not None
    assert (found.one_node, [g.id for g in found.groups]) == ("n1", ["0xt1"])


def test_one_slow_group_among_equals_is_told_from_all_of_them_slow() -> None:
    streams = {says(g, {})[1]: g for g in DATA}
    one = slow_links([says(DATA[2], {}, t=3.0)], streams)
    assert one is not None
    assert (one.fast_peers, one.shared) == (3, (2, 6, 10, 14))
    every = slow_links([says(g, {}, t=3.0) for g in DATA], streams)
    assert every is not None
    assert (every.fast_peers, every.shared, len(every.groups)) == (0, (), 4)


def test_nothing_late_blames_nobody() -> None:
    assert late_ranks([says(g, {}) for g in TENSOR], NODES) == []
    assert slow_links([says(g, {}) for g in TENSOR], {}) is None
