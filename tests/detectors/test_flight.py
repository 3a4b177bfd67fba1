"""Who hangs, from what the dumps of a job say."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from detectors.hang.flight import judge
from detectors.hang.flight_dump import Dump, Group, Op
from detectors.hang.waits import ends, waiters

WORLD = "0:default_pg:all"


def state(key: str, ranks: Sequence[int], enqueued: int, completed: int, started: int = -1) -> Group:
    return Group(key, key, tuple(ranks), enqueued, started, completed)


def op(key: str, seq: int, at: int = 0, name: str = "all_reduce", **more: Any) -> Op:
    return Op(key, seq, name, 1_000_000 + at, False, **more)


def dump(rank: int, groups: list[Group], ops: list[Op], written_ms: int = 0) -> Dump:
    return Dump(rank, {group.key: group for group in groups}, tuple(ops), written_ms, 1_000_000)


def world_of(size: int, late: Sequence[int] = (), absent: Sequence[int] = ()) -> list[Dump]:
    """All but `late` are in collective 8 of the whole world; `absent` left no dump."""
    ranks = range(size)
    return [
        dump(rank, [state(WORLD, ranks, 7 if rank in late else 8, 7)], [] if rank in late else [op(WORLD, 8)])
        for rank in ranks
        if rank not in absent
    ]


@pytest.mark.parametrize(("size", "late"), [(2, (1,)), (4, (2,)), (16, (9, 14)), (64, (0,)), (512, (17, 311))])
def test_a_rank_that_never_entered_is_named_in_worlds_of_any_size(size: int, late: tuple[int, ...]) -> None:
    (hang,) = judge(world_of(size, late))
    assert (hang.cause, hang.ranks, hang.victims) == ("not_entered", late, size - len(late))
    assert "number 8" in hang.evidence[0]


@given(st.permutations(range(8)))
def test_the_order_of_dumps_does_not_matter(order: list[int]) -> None:
    dumps = world_of(8, (3,))
    assert judge([dumps[i] for i in order]) == judge(dumps)


def test_a_finished_job_hangs_nowhere() -> None:
    assert judge([dump(r, [state(WORLD, range(4), 8, 8)], []) for r in range(4)]) == []


def test_one_dump_blames_nobody() -> None:
    assert judge(world_of(4, (2,))[:1]) == []


def test_the_last_to_finish_is_not_stuck() -> None:
    dumps = [dump(r, [state(WORLD, range(4), 8, 8)], []) for r in range(3)]
    assert judge([*dumps, dump(3, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8)])]) == []


def test_a_dump_that_was_written_before_the_operation_began_is_no_witness() -> None:
    dumps = world_of(4)
    dumps[2] = dump(2, [state(WORLD, range(4), 7, 7)], [], written_ms=1_001_000)
    assert "not_entered" not in {hang.cause for hang in judge(dumps)}
    dumps[2] = dump(2, [state(WORLD, range(4), 7, 7)], [], written_ms=1_601_000)
    assert [hang.ranks for hang in judge(dumps)] == [(2,)]


def test_times_of_files_that_an_archive_set_are_not_believed() -> None:
    """Rank 2 never entered and so has nothing in its dump; all files say 1980."""
    dumps = [
        Dump(d.rank, d.groups, d.ops, 315_532_800_000, 0 if d.rank == 2 else 1_700_000_000_000)
        for d in world_of(4, (2,))
    ]
    late = [replace(d, ops=tuple(replace(o, created_ms=1_700_000_000_000) for o in d.ops)) for d in dumps]
    assert [hang.ranks for hang in judge(late)] == [(2,)]


def test_what_began_a_moment_before_the_dumps_is_in_flight() -> None:
    young = [dump(r, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8)], written_ms=1_002_000) for r in range(4)]
    assert judge(young) == []


def test_a_gpu_behind_its_peers_is_stuck() -> None:
    """Rank 1 was given operation 5 of its group, which its peer has finished; all others wait for it elsewhere."""
    pairs = {rank: (f"pair{rank // 2}", (rank // 2 * 2, rank // 2 * 2 + 1)) for rank in range(4)}
    dumps = []
    for rank, (pair, ranks) in pairs.items():
        stuck = rank == 1
        groups = [state(WORLD, range(4), 7 if stuck else 8, 7), state(pair, ranks, 5, 4 if stuck else 5)]
        dumps.append(dump(rank, groups, [op(pair, 5)] if stuck else [op(WORLD, 8)]))
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks, hang.runner_up) == ("gpu_stuck", (1,), "transport_stalled")


def test_the_root_of_a_broadcast_is_done_before_the_others() -> None:
    """Rank 1 still receives what rank 0 has sent; both wait for rank 2 elsewhere."""
    pair = [state("pair", (0, 1), 5, 5), state("pair", (0, 1), 5, 4)]
    dumps = [
        dump(0, [state(WORLD, range(3), 8, 7), pair[0]], [op(WORLD, 8)]),
        dump(1, [state(WORLD, range(3), 8, 7), pair[1]], [op("pair", 5, name="broadcast"), op(WORLD, 8)]),
        dump(2, [state(WORLD, range(3), 7, 7)], []),
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks) == ("not_entered", (2,))


def test_with_timing_on_the_gpu_that_did_not_start_is_stuck() -> None:
    groups = {r: state(WORLD, range(4), 8, 7, started=7 if r == 3 else 8) for r in range(4)}
    (hang,) = judge([dump(r, [g], [op(WORLD, 8, started=r != 3)]) for r, g in groups.items()])
    assert (hang.cause, hang.ranks) == ("gpu_stuck", (3,))


def test_all_inside_and_nobody_out_is_the_transport() -> None:
    (hang,) = judge(world_of(4))
    assert (hang.cause, hang.ranks, hang.group) == ("transport_stalled", (), WORLD)
    assert hang.confidence < 0.8


def test_the_waiting_chain_leads_to_its_end() -> None:
    """Tensor group (0, 1) waits for 1; the world waits for both of them; the pipeline's send waits too."""
    tensor = [state("tp", (0, 1), 5, 4), state("tp", (0, 1), 4, 4)]
    dumps = [
        dump(0, [state(WORLD, range(4), 7, 7), tensor[0]], [op("tp", 5)]),
        dump(1, [state(WORLD, range(4), 7, 7), tensor[1]], []),
        dump(2, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8), op("pp", 3, p2p=True, peer=0, name="recv from rank 0")]),
        dump(3, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8)]),
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks, hang.victims) == ("not_entered", (1,), 3)


def test_two_communicators_that_wait_for_each_other_are_a_deadlock() -> None:
    dumps = [
        dump(0, [state("a", (0, 1), 5, 4), state("b", (0, 1), 2, 2)], [op("a", 5)]),
        dump(1, [state("a", (0, 1), 4, 4), state("b", (0, 1), 3, 2)], [op("b", 3)]),
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks, hang.group) == ("communicator_deadlock", (), "a and b")


def test_a_receive_that_was_posted_ahead_makes_no_deadlock() -> None:
    """Rank 1 is stuck in its process with a receive from 2 open; 2 waits for it in their group, and so does 0."""
    dumps = [
        dump(0, [state(WORLD, range(3), 8, 7)], [op(WORLD, 8)]),
        dump(1, [state(WORLD, range(3), 7, 7)], [op("pp", 4, p2p=True, peer=2, name="recv from rank 2")]),
        dump(2, [state(WORLD, range(3), 8, 7)], [op(WORLD, 8)]),
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks) == ("not_entered", (1,))


def test_a_receive_without_its_send_waits_for_the_sender() -> None:
    dumps = [
        dump(0, [state("pp", (0, 1, 2), 3, 3)], []),
        dump(1, [state("pp", (0, 1, 2), 4, 3)], [op("pp", 4, p2p=True, peer=0, name="recv from rank 0")]),
        dump(2, [state("pp", (0, 1, 2), 4, 3)], [op("pp", 4, p2p=True, peer=1, name="recv from rank 1")]),
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks) == ("not_entered", (0,))


def test_a_missing_dump_is_blamed_only_for_want_of_others() -> None:
    (hang,) = judge(world_of(8, absent=(5,)))
    assert (hang.cause, hang.ranks, hang.runner_up) == ("process_gone", (5,), "not_entered")
    assert hang.confidence < 0.8
    (hang,) = judge(world_of(8, late=(2,), absent=(5,)))
    assert hang.ranks == (2,)
    assert any("no dump of rank 5" in text for text in hang.evidence)
    (hang,) = judge(world_of(8, absent=(1, 2, 3, 5, 6)))
    assert (hang.cause, hang.ranks) == ("unknown", ())


def test_half_of_a_pipeline_blames_nobody() -> None:
    """The other stage's dumps are on other nodes: all ranks here wait to receive from there."""
    tensor = [state("tp", (0, 1), 5, 4) for _ in range(2)]
    receives = [op("pp", 3, p2p=True, peer=2 + rank, name="recv") for rank in range(2)]
    (hang,) = judge([dump(rank, [tensor[rank]], [op("tp", 5), receives[rank]]) for rank in range(2)])
    assert (hang.cause, hang.ranks) == ("unknown", ())


@pytest.mark.parametrize("size", [64, 512])
def test_large_worlds_take_no_time_to_speak_of(size: int) -> None:
    (hang,) = judge(world_of(size, late=(size - 1,)))
    assert hang.ranks == (size - 1,)


@pytest.mark.parametrize("odd", [(3,), (0, 5)])
def test_a_minority_that_calls_something_else_is_named(odd: tuple[int, ...]) -> None:
    dumps = [
        dump(r, [state(WORLD, range(8), 8, 7)], [op(WORLD, 8, name="_all_gather_base" if r in odd else "all_reduce")])
        for r in range(8)
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks) == ("collective_mismatch", odd)


def test_one_rank_calls_and_several_call() -> None:
    dumps = [
        dump(r, [state(WORLD, range(8), 8, 7)], [op(WORLD, 8, name="all_gather" if r == 3 else "all_reduce")])
        for r in range(8)
    ]
    (hang,) = judge(dumps)
    assert "ranks 0, 1, 2, 4, 5, 6 and 1 more call all_reduce, rank 3 calls all_gather" in hang.summary


def test_sizes_and_types_must_agree_where_the_collective_demands_it() -> None:
    def one(rank: int, **more: Any) -> Dump:
        return dump(rank, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8, **more)])

    sizes = [one(r, sizes_in=((64 if r == 2 else 128,),), dtypes=("Float",)) for r in range(4)]
    assert [(h.cause, h.ranks) for h in judge(sizes)] == [("collective_mismatch", (2,))]
    types = [one(r, sizes_in=((128,),), dtypes=("Half" if r == 1 else "Float",)) for r in range(4)]
    assert [(h.cause, h.ranks) for h in judge(types)] == [("collective_mismatch", (1,))]
    for name in ("all_to_all", "all_gather"):
        uneven = [one(r, name=name, sizes_in=((64 + r,),)) for r in range(4)]
        assert [h.cause for h in judge(uneven)] == ["transport_stalled"]
    base = [one(r, name="_all_gather_base", sizes_in=((64 if r == 3 else 65,),)) for r in range(4)]
    assert [(h.cause, h.ranks) for h in judge(base)] == [("collective_mismatch", (3,))]


def test_half_against_half_names_the_group() -> None:
    dumps = [
        dump(r, [state(WORLD, range(4), 8, 7)], [op(WORLD, 8, name="broadcast" if r < 2 else "all_reduce")])
        for r in range(4)
    ]
    (hang,) = judge(dumps)
    assert (hang.cause, hang.ranks, hang.group) == ("collective_mismatch", (), WORLD)
    pair = [
        dump(r, [state(WORLD, (0, 1), 8, 7)], [op(WORLD, 8, name="broadcast" if r else "all_reduce")]) for r in (0, 1)
    ]
    assert judge(pair)[0].ranks == (0, 1)


@given(st.dictionaries(st.integers(0, 12), st.sets(st.integers(0, 12)), max_size=12))
def test_waiting_ends_where_nobody_waits_on(waits: dict[int, set[int]]) -> None:
    for end in ends(waits):
        assert all(waits.get(node, set()) <= end for node in end)
        outside = waiters(waits, end)
        assert not outside & end
        assert outside | (end if len(end) > 1 else set()) or any(end & waits.get(n, set()) for n in end)


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = {i: {i + 1} for i in range(100_000)}
    assert ends(chain) == [frozenset({100_000})]
