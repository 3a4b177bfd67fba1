"""Rounds from frames: complete groups only, deadlines, absent ranks, blocks where operations are missing."""

import msgspec
import numpy as np
import pytest
from job_records import T0, SmallJob

from detectors.job.bandwidth import bus_bandwidth_gbs
from detectors.job.groups import DEADLINE_MS, Assembly
from schemas import CollectiveFrame
from schemas.collective import Block, Communicator, Operation


def frame(rank: int, size: int, *operations: tuple[int, float], bytes_: int = 1024, **more: object) -> CollectiveFrame:
    return CollectiveFrame(
        cluster="c",
        ts_ms=T0,
        node=f"n{rank}",
        run_id=1,
        seq=1,
        job="j",
        communicators=(Communicator(id="0x1", size=size, rank=100 + rank, comm_rank=rank),),
        operations=tuple(Operation(0, "AllReduce", sn, bytes_, us, T0) for sn, us in operations),
        **more,  # type: ignore[arg-type]
    )


def test_a_round_is_given_when_all_ranks_are_there() -> None:
    assembly = Assembly()
    assembly.add(T0, frame(0, 2, (5, 10.0)))
    assert assembly.ready(T0) == []
    assembly.add(T0 + 1000, frame(1, 2, (5, 30.0)))
    (round_,) = assembly.ready(T0 + 1000)
    assert (round_.sn, round_.exec_us.tolist()) == (5, [10.0, 30.0])
    assert assembly.ready(T0 + 2000) == []


@pytest.mark.parametrize(("size", "heard", "counts"), [(8, 7, False), (8, 8, True), (20, 18, True), (20, 17, False)])
def test_ninety_percent_count_at_the_deadline_and_all_up_to_eight(size: int, heard: int, counts: bool) -> None:
    assembly = Assembly()
    for rank in range(size):
        assembly.add(T0, frame(rank, size, *([(0, 1.0)] if rank < heard else [])))
    rounds = assembly.ready(T0 + DEADLINE_MS)
    assert [round_.whole for round_ in rounds] == [counts]
    assert assembly.coverage() == float(counts)
    assert set(assembly.absent) == {100 + rank for rank in range(heard, size)}


@pytest.mark.parametrize("rank", [2**17, 2**63, 2**64 - 1])
def test_a_rank_that_no_job_has_is_left_out(rank: int) -> None:
    assembly = Assembly()
    odd = frame(0, 2, (5, 10.0))
    (communicator,) = odd.communicators
    assembly.add(T0, msgspec.structs.replace(odd, communicators=(msgspec.structs.replace(communicator, rank=rank),)))
    assembly.add(T0, frame(0, 2, (5, 10.0)))
    assembly.add(T0, frame(1, 2, (5, 30.0)))
    assert [round_.exec_us.tolist() for round_ in assembly.ready(T0)] == [[10.0, 30.0]]


def test_less_than_three_quarters_of_a_group_say_nothing() -> None:
    assembly = Assembly()
    for rank in range(8):
        assembly.add(T0, frame(rank, 8, *([(0, 1.0)] if rank < 5 else [])))
    assert assembly.ready(T0 + DEADLINE_MS) == []


def test_ranks_that_disagree_on_the_size_are_a_mismatch_not_a_round() -> None:
    assembly = Assembly()
    assembly.add(T0, frame(0, 2, (5, 10.0)))
    assembly.add(T0, frame(1, 2, (5, 10.0), bytes_=4096))
    assert assembly.ready(T0) == []
    assert assembly.mismatched == {("0x1", "AllReduce", 5): (1024, 4096)}


def test_a_repeated_operation_counts_once() -> None:
    assembly = Assembly()
    assembly.add(T0, frame(0, 2, (5, 10.0), (5, 99.0)))
    assembly.add(T0, frame(1, 2, (5, 30.0)))
    assert assembly.ready(T0)[0].exec_us.tolist() == [10.0, 30.0]


def test_members_that_cannot_be_are_left_out() -> None:
    good = frame(0, 2, (0, 1.0))
    for wrong in (
        Communicator(id="0x1", size=2, rank=0, comm_rank=5),
        Communicator(id="0x1", size=2**40, rank=0, comm_rank=0),
    ):
        assembly = Assembly()
        assembly.add(T0, msgspec.structs.replace(good, communicators=(wrong,)))
        assert assembly.ready(T0 + DEADLINE_MS) == []
    assembly = Assembly()
    assembly.add(T0, msgspec.structs.replace(good, operations=(Operation(7, "AllReduce", 0, 1, 1.0, T0),)))
    assert assembly.ready(T0 + DEADLINE_MS) == []


def test_blocks_stand_in_for_operations_that_were_not_sent() -> None:
    assembly = Assembly()
    for rank in range(2):
        block = Block(0, "AllReduce", 10, 4, 3, 16, 16 * (100.0 + rank), 50.0, 200.0)
        assembly.add(T0, frame(rank, 2, blocks=(block,)))
    (round_,) = assembly.ready(T0)
    assert (round_.stream.block, round_.sn, round_.exec_us.tolist()) == (True, 48, [100.0, 101.0])


def test_blocks_say_nothing_more_where_the_operations_are_here() -> None:
    assembly = Assembly()
    for rank in range(2):
        operations = [(sn, 1.0) for sn in range(16)]
        block = Block(0, "AllReduce", 10, 4, 0, 16, 16.0, 1.0, 1.0)
        assembly.add(T0, frame(rank, 2, *operations, blocks=(block,)))
    assert [r.stream.block for r in assembly.ready(T0)] == [False] * 16


def test_many_sizes_fall_together_in_classes() -> None:
    assembly = Assembly()
    for sn in range(100):
        for rank in range(2):
            assembly.add(T0, frame(rank, 2, (sn, 1.0), bytes_=1000 + sn))
    streams = {r.stream for r in assembly.ready(T0)}
    assert len(streams) <= 32 + 2


def test_a_small_jobs_groups_are_found() -> None:
    job, assembly = SmallJob(), Assembly()
    for f in job.collectives(0):
        assembly.add(T0, f)
    rounds = assembly.ready(T0)
    assert len(rounds) == 4 * 2 + 4
    assert assembly.groups["0xd2"].ranks.tolist() == [2, 6, 10, 14]
    assert assembly.groups["0xt1"].hosts() == {"r01-t01"}


def test_bus_bandwidth_uses_the_factors_of_the_writer() -> None:
    assert bus_bandwidth_gbs("AllReduce", 17179869184, 8, 61974) == pytest.approx(485.119, abs=0.01)
    assert bus_bandwidth_gbs("ReduceScatter", 2147483648, 8, 41057) == pytest.approx(366.1345, abs=0.01)
    assert bus_bandwidth_gbs("Broadcast", 1000, 4, 1) == 1.0
    assert np.isnan(bus_bandwidth_gbs("AllReduce", 1, 4, 0))
