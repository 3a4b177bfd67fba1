"""Lines of job logs: every version's words, and what is none of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.log import event_of, looks_like, parse, rank_of

NEW = "[rank4]:[E321 02:07:08.414640780 ProcessGroupNCCL.cpp:607] "
TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, "
    "NumelOut=466119168, Timeout(ms)=600000) ran for 600067 milliseconds before timing out."
)


def test_a_time_out_in_the_words_of_today_and_of_old() -> None:
    new = parse(NEW + "[Rank 4] " + TIMEOUT)
    assert new is not None
    assert (new.what, new.rank, new.seq, new.op, new.timeout_ms) == ("timeout", 4, 1580, "ALLREDUCE", 600_000)
    assert new.clock == "0321 02:07:08"
    old = parse(
        "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=469508, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1804406 milliseconds before timing out."
    )
    assert old is not None
    assert (old.what, old.rank, old.local, old.seq, old.timeout_ms) == ("timeout", None, 1, 469_508, 1_800_000)


@pytest.mark.parametrize(
    ("words", "group", "numbers"),
    [
        (
            "[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 1580, last enqueued "
            "NCCL work: 1582, last completed NCCL work: 1579.",
            "PG 1",
            (1580, 1582, 1579),
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 118]  failure detected by watchdog at work sequence id: 2398459 PG "
            "status: last enqueued work: 2398578, last completed work: 2398458",
            "PG ID 0 PG GUID 0(default_pg)",
            (2398459, 2398578, 2398458),
        ),
        (
            "[PG ID 2 PG GUID 9 Rank 4] Timeout at NCCL work: 610, last enqueued NCCL work: 616, last completed NCCL "
            "work: -1.",
            "PG ID 2 PG GUID 9",
            (610, 616, -1),
        ),
    ],
)
def test_the_watchdog_s_summary_in_three_versions(words: str, group: str, numbers: tuple[int, int, int]) -> None:
    found = parse(NEW + words)
    assert found is not None
    assert (found.what, found.rank, found.group) == ("exception", 4, group)
    assert (found.seq, found.enqueued, found.completed) == numbers


def test_a_stuck_watchdog_and_a_dump() -> None:
    stuck = parse(NEW + "[PG ID 0 PG GUID  Rank 3] ProcessGroupNCCL's watchdog got stuck for 10 seconds without making")
    assert stuck is not None
    assert (stuck.what, stuck.rank, stuck.local) == ("stuck", 4, 3)
    dump = parse(NEW + "[PG ID 0 PG GUID 0 Rank 4] Received a dump signal due to a collective timeout from  rank 0 and")
    assert dump is not None
    assert dump.what == "dump"


def test_network_errors_of_three_versions() -> None:
    lines = (
        "node-01:983:1261 [3] transport/net_ib.cc:0 NCCL WARN NET/IB : Got completion from peer 192.0.2.21<55921> with "
        "status=12 opcode=1 len=0 vendor err 129 (Send)",
        "node-01:982:1255 [2] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 2",
        "[2026-11-30 10:50:21] node-01:9100:9188 [3] transport/net_ib/p2p.cc:688 (ncclIbLog) NCCL WARN NET/IB: Got "
        "completion from peer 192.0.2.21<55921> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=X hca mlx5_3",
        "node-01:983:1261 [3] transport/net_ib.cc:0 NCCL WARN NET/IB : Got completion from peer 192.0.2.21<5> with "
        "status=5 opcode=1",
    )
    found = [parse(line) for line in lines]
    assert [(f.warning, f.op, f.host, f.link) for f in found if f] == [
        ("transport", "12", "node-01", ""),
        ("transport", "4", "node-01", ""),
        ("transport", "IBV_WC_RETRY_EXC_ERR(12)", "node-01", "mlx5_3"),
        ("flushed", "5", "node-01", ""),
    ]


def test_a_communicator_s_place() -> None:
    found = parse(
        "node-01:984:1257 [4] NCCL INFO comm 0x557fe785f7a0 rank 36 nranks 64 cudaDev 4 nvmlDev 4 busId 9b000 commId "
        "0x5ae77eb5ea4ec1ee - Init COMPLETE"
    )
    assert found is not None
    assert (found.what, found.local, found.group, found.pid) == ("init", 36, "0x5ae77eb5ea4ec1ee", 984)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step 100 loss 2.3",
        "node-01:1307367:1307586 [0] NCCL INFO include/net.h:32 -> 5",
        "[E ProcessGroupNCCL.cpp:495] Some NCCL operations have failed or timed out.",
        "NCCL version 2.16.2+cuda11.6",
    ],
)
def test_lines_that_say_nothing(line: str) -> None:
    assert parse(line) is None


def test_a_line_as_an_event_of_its_rank() -> None:
    found = parse(NEW + "[Rank 4] " + TIMEOUT)
    assert found is not None
    event = event_of(found, job="j")
    assert (event.kind, event.rank, event.job, event.severity) == ("nccl_watchdog", 4, "j", "warning")
    assert event.detail["seq"] == "1580"
    assert event.detail["op"] == "ALLREDUCE"


def test_logs_are_known_by_what_is_in_them() -> None:
    assert looks_like((NEW + "x").encode())
    assert looks_like(b"a\nnode:1:1 [0] NCCL INFO x\n")
    assert not looks_like(b"step,rank\n")
    assert rank_of(NEW) == 4


@given(
    st.text(max_size=80),
    st.sampled_from([TIMEOUT, "last enqueued work: ", "NCCL WARN ", "a:1:1 [1] NCCL WARN Got completion", "PG ID"]),
    st.text(max_size=80),
)
def test_nothing_breaks_it(before: str, words: str, after: str) -> None:
    for line in (before + words + after, NEW + before + words + after, words[: len(before)] + after):
        found = parse(line)
        if found is not None:
            event_of(found)
