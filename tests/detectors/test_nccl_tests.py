"""What runs of nccl-tests prove, and what they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.job.nccl_tests import Bench, Device, Row, comparable, judge
from schemas.finding import Finding

SIZES = (1 << 20, 1 << 24, 1 << 28)


def bench(
    hosts: tuple[str, ...] = ("n1",),
    speed: float = 1.0,
    wrong: float | None = 0,
    late: int | None = None,
    ranks: int = 8,
) -> Bench:
    devices = tuple(Device(r, hosts[r * len(hosts) // ranks], 100 + r, r, "", "H100") for r in range(ranks))
    times: tuple[tuple[float, ...], ...] = ()
    if late is not None:
        rng = np.random.default_rng(3)
        table = 500 + rng.uniform(0, 8, (ranks, 20))
        table[late] -= 300
        times = tuple(tuple(map(float, row)) for row in table)
    rows = tuple(
        Row(size, "float", "sum -1", False, 100.0, 50.0 * share * speed, 87.5 * share * speed, wrong, times)
        for size, share in zip(SIZES, (0.2, 0.9, 1.0), strict=True)
    )
    return Bench("all_reduce_perf", "2.19.6", devices, rows, 0)


def said(*runs: Bench) -> list[Finding]:
    return judge("c", "j", runs, 1000)


def test_a_good_run_alone_proves_nothing() -> None:
    assert said(bench()) == []
    assert not comparable([bench()])


def test_wrong_results_are_hardware() -> None:
    (finding,) = said(bench(wrong=4))
    assert (finding.kind, finding.subject.node, finding.runner_up) == ("hardware", "n1", "gpu_memory_error")
    assert "wrong" in finding.summary
    assert said(bench(wrong=None)) == []


@pytest.mark.parametrize("late", [0, 5, 7])
def test_the_process_with_the_shortest_time_comes_late(late: int) -> None:
    (finding,) = said(bench(("n1", "n2"), late=late))
    assert (finding.kind, finding.subject.rank, finding.victims) == ("straggler", late, 7)
    assert finding.subject.node == ("n1" if late < 4 else "n2")
    assert finding.slowdown is not None
    assert finding.slowdown > 2


def test_jitter_blames_nobody() -> None:
    rng = np.random.default_rng(1)
    run = bench()
    times = tuple(tuple(map(float, row)) for row in 500 + rng.uniform(0, 200, (8, 20)))
    rows = tuple(Row(r.size_bytes, "float", "", False, 1.0, 50.0, 87.5, 0, times) for r in run.rows)
    assert said(Bench("t", "", run.devices, rows)) == []


def test_the_slow_host_among_its_like() -> None:
    runs = [bench((f"n{i}",), 0.8 if i == 2 else 1.0 + 0.01 * i) for i in range(5)]
    (finding,) = said(*runs)
    assert (finding.kind, finding.subject.node) == ("degradation", "n2")
    assert comparable(runs)


def test_pairs_point_at_the_host_they_share() -> None:
    pairs = [("a", "b"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")]
    runs = [bench(pair, 0.7 if "b" in pair else 1.0) for pair in pairs]
    (finding,) = said(*runs)
    assert (finding.kind, finding.cause, finding.subject.node) == ("slow_link", "fabric_link", "b")


def test_a_small_difference_and_other_kinds_of_runs_are_no_verdict() -> None:
    assert said(*(bench((f"n{i}",), 0.95 if i == 2 else 1.0) for i in range(4))) == []
    assert said(bench(("a",)), bench(("b",)), bench(("c",), 0.5, ranks=4)) == []
    assert said(bench(("a",)), bench(("b",), 0.5)) == []


@given(st.permutations(range(5)))
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    runs = [bench((f"n{i}",), 0.8 if i == 2 else 1.0) for i in range(5)]
    assert [f.subject for f in said(*(runs[i] for i in order))] == [f.subject for f in said(*runs)]
