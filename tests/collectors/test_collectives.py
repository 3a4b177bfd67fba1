"""The reducer: what leaves a node of its ranks' operations, and what a hang looks like in it."""

from collections.abc import Iterator

import pytest
from inspector_lines import operation, stats_line

from collectors.base import NoData
from collectors.nccl.collectives import BUDGET, MOST_FILES, Claim, CollectiveReducer, CollectivesCollector
from collectors.nccl.inspector import DumpStats, InspectorReader, Perf, Process
from schemas import sampling


def parsed(*lines: bytes) -> Iterator[Perf | DumpStats]:
    for found in InspectorReader().read_all(lines):
        assert isinstance(found, Perf | DumpStats)
        yield found


def reducer_of(*lines: bytes, **options: object) -> CollectiveReducer:
    reducer = CollectiveReducer(lambda p: Claim("job", rank=p.pid), **options)  # type: ignore[arg-type]
    for found in parsed(*lines):
        reducer.add(found)
    return reducer


def test_one_frame_per_job_and_tick() -> None:
    reducer = CollectiveReducer(lambda p: Claim("a" if p.pid < 2 else "b", rank=p.pid))
    for found in parsed(*(operation(pid=pid, rank=pid) for pid in range(4))):
        reducer.add(found)
    frames = reducer.frames(1000)
    assert [(f.job, len(f.operations)) for f in frames] == [("a", 2), ("b", 2)]
    assert [len(f.operations) for f in reducer.frames(2000)] == [0, 0]


def test_the_global_rank_comes_from_the_widest_communicator() -> None:
    reducer = CollectiveReducer(settle_ms=0)
    for found in parsed(operation(pid=9, id="0xtp", rank=1, size=4), operation(pid=9, id="0xworld", rank=13, size=16)):
        reducer.add(found)
    (frame,) = reducer.frames(1000)
    assert {(c.id, c.rank, c.comm_rank) for c in frame.communicators} == {("0xtp", 13, 1), ("0xworld", 13, 13)}
    assert frame.job.startswith("comm:")


def test_records_wait_for_their_job_and_are_not_lost() -> None:
    known: dict[Process, Claim] = {}
    reducer = CollectiveReducer(known.get)
    for found in parsed(operation(pid=9)):
        reducer.add(found)
    assert reducer.frames(1000) == []
    known[Process("node-01", 9)] = Claim("slurm:x", rank=3, gpu="GPU-1")
    (frame,) = reducer.frames(5000)
    assert (frame.job, len(frame.operations), frame.communicators[0].gpu) == ("slurm:x", 1, "GPU-1")


def test_after_ten_seconds_the_widest_communicator_names_the_job() -> None:
    reducer = CollectiveReducer()
    for found in parsed(operation(pid=9)):
        reducer.add(found)
    assert reducer.frames(1000) == []
    assert len(reducer.frames(11_000)) == 1


def test_progress_is_sent_even_when_nothing_moved() -> None:
    reducer = reducer_of(operation(sn=41))
    reducer.frames(1000)
    (frame,) = reducer.frames(2000)
    assert [p.last_sn for p in frame.progress] == [41]
    assert not frame.operations


def test_a_process_that_is_gone_is_sent_no_more() -> None:
    alive = {7}
    reducer = reducer_of(operation(pid=7), alive=lambda p: p.pid in alive)
    assert len(reducer.frames(1000)) == 1
    alive.clear()
    assert len(reducer.frames(2000)) == 1  # the tick in which it is noticed
    assert reducer.frames(3000) == []


def test_blocks_are_whole_ranges_of_sequence_numbers() -> None:
    lines = [operation(sn=sn, time=100.0 + sn) for sn in range(14, 33)]
    (frame,) = reducer_of(*lines).frames(1000)
    blocks = {b.index: b for b in frame.blocks}
    assert set(blocks) == {0, 1}
    assert (blocks[1].count, blocks[1].k, blocks[1].min_us, blocks[1].max_us) == (16, 4, 116.0, 131.0)
    assert blocks[1].sum_us == sum(100.0 + sn for sn in range(16, 32))


def test_gaps_in_sequence_numbers_are_coverage() -> None:
    (frame,) = reducer_of(*(operation(sn=sn) for sn in (0, 1, 5, 6))).frames(1000)
    assert frame.coverage == pytest.approx(4 / 7)


def test_sequence_numbers_that_begin_again_are_a_new_process() -> None:
    (frame,) = reducer_of(*(operation(sn=sn) for sn in (5000, 5001, 0, 1))).frames(1000)
    assert frame.progress[0].last_sn == 1
    assert frame.coverage == 1.0


def test_a_flood_is_sampled_alike_on_every_rank() -> None:
    count = 16 * BUDGET
    frames = [reducer_of(*(operation(pid=p, sn=sn) for sn in range(count))).frames(1000)[0] for p in (1, 2)]
    kept = [{op.sn for op in frame.operations} for frame in frames]
    assert frames[0].sample_level == 4
    assert kept[0] == kept[1] == {sn for sn in range(count) if sampling.sampled("0xc", "AllReduce", sn, 4)}
    assert sum(b.count for b in frames[0].blocks) == count - 16


def test_dump_statistics_keep_a_silent_communicator_known() -> None:
    (frame,) = reducer_of(stats_line()).frames(1000)
    assert (len(frame.communicators), frame.operations) == (1, ())


class Lines:
    def __init__(self, *lines: bytes) -> None:
        self.lines = [("f", line) for line in lines]

    def read(self) -> list[tuple[str, bytes]]:
        out, self.lines = self.lines, []
        return out


def test_the_collector_counts_what_it_cannot_use() -> None:
    source = Lines(operation(), b'{"header"', operation(size_bytes=2**63))
    collector = CollectivesCollector(source, CollectiveReducer(lambda _: Claim("j")))
    reading = collector.collect(1000)
    assert reading.missing == {"nccl_broken": 1, "nccl_absurd_size": 1}
    assert len(reading.drafts) == 1
    assert len(collector.collect(2000).drafts) == 1


def test_files_of_process_ids_that_never_come_back_are_forgotten() -> None:
    source = Lines()
    collector = CollectivesCollector(source, CollectiveReducer(lambda _: Claim("j")))
    for tick in range(3):
        names = [f"host-pid{tick * MOST_FILES + n}.log" for n in range(MOST_FILES)]
        source.lines = [(name, operation(sn=tick)) for name in names] + [("steady.log", operation(sn=tick))]
        collector.collect(1000 * tick)
    assert len(collector._readers) == MOST_FILES
    assert "steady.log" in collector._readers


def test_without_any_line_there_is_no_data() -> None:
    with pytest.raises(NoData):
        CollectivesCollector(Lines(), CollectiveReducer()).collect(1000)
