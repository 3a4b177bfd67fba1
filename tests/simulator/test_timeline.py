import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.effects import Floats, Hang
from simulator.timeline import STEP, Plan, Played, group_worst, play, transfer_us

RANKS = 16
SIZES = {"tensor": 4, "data": RANKS // 4, "world": RANKS}
GROUPS = {"tensor": RANKS // 4, "data": 4, "world": 1}
MEMBERS = {
    "tensor": [list(range(first, first + 4)) for first in range(0, RANKS, 4)],
    "data": [list(range(slot, RANKS, 4)) for slot in range(4)],
    "world": [list(range(RANKS))],
}


def plan(seed: int = 1, late: dict[int, float] | None = None) -> Plan:
    rng = np.random.default_rng(seed)
    compute = rng.normal(100_000, 100, (len(STEP), RANKS))
    for rank, us in (late or {}).items():
        compute[1, rank] += us
    return Plan(
        data_us=np.full(RANKS, 1000.0),
        compute_us=compute,
        extra_us=np.zeros((len(STEP), RANKS)),
        jitter=np.ones((len(STEP), RANKS)),
        transfer=tuple(np.full(GROUPS[c.over], transfer_us(c, SIZES[c.over])) for c in STEP),
    )


def times(played: Played, i: int) -> Floats:
    return played.exec_us(i, np.arange(RANKS))


@given(seed=st.integers(0, 1000), culprit=st.integers(0, RANKS - 1), late_us=st.floats(5_000, 500_000))
def test_the_culprit_shows_the_shortest_time_in_its_groups_and_the_victims_its_delay(
    seed: int, culprit: int, late_us: float
) -> None:
    played = play(plan(seed, {culprit: late_us}), np.zeros(RANKS))
    tensor = times(played, 1)
    own = next(group for group in MEMBERS["tensor"] if culprit in group)
    assert min(own, key=lambda rank: tensor[rank]) == culprit
    assert all(tensor[rank] > tensor[culprit] + late_us - 2_000 for rank in own if rank != culprit)
    # Data parallel: the whole tray comes late, one of it in every group, and is the shortest there.
    reduce = times(played, 3)
    for group in MEMBERS["data"]:
        assert min(group, key=lambda rank: reduce[rank]) in own


@given(seed=st.integers(0, 1000))
def test_nobody_leaves_before_the_last_arrives_plus_the_transfer(seed: int) -> None:
    played = play(plan(seed), np.zeros(RANKS))
    for i, collective in enumerate(STEP):
        for group in MEMBERS[collective.over]:
            last = played.arrive[i, group].max()
            transfer = transfer_us(collective, SIZES[collective.over])
            assert np.allclose(played.end[i, group], last + transfer)
            assert np.isclose(times(played, i)[group].min(), transfer)


def test_a_rank_that_does_not_enter_stops_its_group_then_everybody() -> None:
    played = play(plan(), np.zeros(RANKS), Hang("absent", (5,)))
    assert np.isfinite(played.end[0]).all()
    assert np.isfinite(played.arrive[1]).tolist() == [rank != 5 for rank in range(RANKS)]
    assert np.flatnonzero(~np.isfinite(played.end[1])).tolist() == [4, 5, 6, 7]
    assert not np.isfinite(played.end[3]).any()


def test_a_stuck_kernel_is_entered_by_all_and_does_not_end() -> None:
    played = play(plan(), np.zeros(RANKS), Hang("stuck", (5,)))
    assert np.isfinite(played.arrive[1]).all()
    assert np.flatnonzero(~np.isfinite(played.end[1])).tolist() == [4, 5, 6, 7]


def test_a_stalled_transport_stops_one_data_group_at_its_reduction() -> None:
    played = play(plan(), np.zeros(RANKS), Hang("transport", (5,)))
    assert np.isfinite(played.arrive[3]).all()
    assert np.flatnonzero(~np.isfinite(played.end[3])).tolist() == MEMBERS["data"][1]
    assert np.isfinite(played.end[4]).sum() == RANKS - 4
    assert not np.isfinite(played.end[5]).any()


def test_a_ring_is_as_slow_as_its_slowest_link() -> None:
    slow = np.ones(RANKS)
    slow[5] = 3.0
    assert group_worst(slow, "data").tolist() == [1, 3, 1, 1]
    assert group_worst(slow, "tensor").tolist() == [1, 3, 1, 1]
    assert group_worst(slow, "world").tolist() == [3]


def test_transfer_times_are_those_of_the_links() -> None:
    tensor, data = STEP[0], STEP[3]
    assert np.isclose(transfer_us(tensor, 4), (1 << 30) * 1.5 / 650e9 * 1e6)
    assert np.isclose(transfer_us(data, 128), (16 << 20) * 127 / 42e9 * 1e6)
