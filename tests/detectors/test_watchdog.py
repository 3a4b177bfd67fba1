"""What a log proves: victims report, suspects are silent."""

from detectors.hang.watchdog import LogLine, judge


def timeout(rank: int, seq: int = 9, **more: object) -> LogLine:
    return LogLine("timeout", rank=rank, seq=seq, op="ALLREDUCE", timeout_ms=600_000, **more)  # type: ignore[arg-type]


def test_the_one_that_does_not_report_is_the_suspect() -> None:
    (hang,) = judge([(n, timeout(r)) for n, r in enumerate((0, 1, 3, 4, 5, 6, 7))], range(8))
    assert (hang.cause, hang.ranks, hang.victims) == ("not_entered", (2,), 7)
    assert hang.confidence < 0.8
    assert any("report no time-out" in text for text in hang.evidence)


def test_when_all_or_few_report_nobody_is_named() -> None:
    for reporters in (range(8), (0,), (0, 1, 2)):
        (hang,) = judge([(n, timeout(r)) for n, r in enumerate(reporters)], range(8))
        assert (hang.cause, hang.ranks) == ("unknown", ())


def test_a_rank_whose_own_count_is_behind_has_not_entered() -> None:
    lines = [LogLine("exception", rank=r, seq=9, enqueued=8 if r == 1 else 11, completed=8) for r in range(4)]
    (hang,) = judge(list(enumerate(lines)))
    assert hang.ranks == (1,)


def test_a_stuck_watchdog_names_its_rank() -> None:
    (hang,) = judge([(3, LogLine("stuck", rank=6))])
    assert (hang.cause, hang.ranks, hang.runner_up) == ("python_stall", (6,), "gpu_stuck")


def test_warnings_name_link_or_node() -> None:
    line = LogLine("warn", host="node-01", device=3, warning="transport", link="mlx5_3", op="12", peer="192.0.2.21")
    (hang,) = judge([(1, line), (2, line._replace(warning="flushed")), (3, line._replace(warning="other"))])
    assert (hang.cause, hang.link, hang.node) == ("transport_stalled", "mlx5_3", "node-01")
    (hang,) = judge([(1, LogLine("warn", host="n", device=0, warning="mismatch", local=11))])
    assert (hang.cause, hang.ranks) == ("collective_mismatch", (11,))
