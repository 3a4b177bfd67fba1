"""Answers of NCCL's RAS: JSON whole, broken and mended, text of old versions, events, nonsense."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.ras import BadRas, looks_like, parse


def member(rank: int, count: int = 5, **status: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "host": "192.0.2.11",
        "pid": 100 + rank,
        "cuda_dev": rank,
        "nvml_dev": rank,
        "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "abort_flag": False, **status},
        "collective_counts": {"Broadcast": 0, "AllReduce": count},
    }


def missing(rank: int, dead: bool = False) -> dict[str, Any]:
    gone = member(rank)
    return {k: gone[k] for k in ("rank", "host", "pid", "cuda_dev", "nvml_dev")} | {
        "status": {"unresponsive": True, "considered_dead": dead}
    }


def answer(ranks: list[dict[str, Any]], absent: list[dict[str, Any]] | None = None, at: str = "10:50:00") -> str:
    document = {
        "nccl_version": "2.30.7",
        "timestamp": f"2026-11-30 {at}",
        "communicators_count": 1,
        "communicators": [
            {
                "hash": "0xae94423cfbb2ef4a",
                "size": len(ranks) + len(absent or ()),
                "ranks": ranks,
                "missing_ranks": absent or [],
            }
        ],
    }
    return json.dumps(document, indent=2)


def test_an_answer_in_json() -> None:
    (snapshot,) = parse(
        answer([member(0), member(1, 4), member(2, init_state=7)], [missing(3, True)]).encode()
    ).snapshots
    (communicator,) = snapshot.communicators
    assert snapshot.ts_ms == 1_796_035_800_000
    assert (communicator.id, communicator.size) == ("0xae94423cfbb2ef4a", 4)
    assert [(m.rank, m.counts["AllReduce"], m.running) for m in communicator.members] == [
        (0, 5, True),
        (1, 4, True),
        (2, 5, False),
    ]
    assert [(a.rank, a.dead, a.process) for a in communicator.absent] == [(3, True, ("192.0.2.11", 103))]


def test_the_comma_that_old_versions_forget_is_put_back() -> None:
    whole = answer([member(0)], [missing(1)])
    broken = whole.replace('"nvml_dev": 1,\n', '"nvml_dev": 1\n')
    assert broken != whole
    found = parse(broken.encode())
    assert found.snapshots == parse(whole.encode()).snapshots
    assert "repaired" in found.notes[0]


def test_answers_one_after_the_other() -> None:
    found = parse((answer([member(0)]) + "\n" + answer([member(0)], at="10:50:15")).encode())
    times = [snapshot.ts_ms for snapshot in found.snapshots]
    assert times == [1_796_035_800_000, 1_796_035_815_000]


def test_a_torn_second_answer_leaves_the_first() -> None:
    found = parse((answer([member(0)]) + "\n" + answer([member(0)])[:200]).encode())
    assert len(found.snapshots) == 1
    assert any("broken JSON" in note for note in found.notes)


def test_a_rank_outside_its_communicator_is_left_out_and_said() -> None:
    found = parse(answer([member(0), member(1_057_455_228)]).encode())
    assert [m.rank for m in found.snapshots[0].communicators[0].members] == [0]
    assert "cannot be" in found.notes[0]


def test_null_status_is_survived() -> None:
    broken = member(1) | {"status": None, "collective_counts": None}
    (snapshot,) = parse(answer([member(0), broken]).encode()).snapshots
    assert [m.counts for m in snapshot.communicators[0].members] == [{"Broadcast": 0, "AllReduce": 5}, {}]


MISMATCH = """Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4   {status}  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different {function} operation counts
  3 ranks have launched up to operation 6650
  1 rank has launched up to operation 6649
  Rank 2 -- GPU 2 managed by process 483074 on node 192.0.2.210
"""


@pytest.mark.parametrize(("function", "name"), [("collective", "collective"), ("AllGather", "AllGather")])
def test_a_mismatch_in_text(function: str, name: str) -> None:
    (snapshot,) = parse(MISMATCH.format(status="RUNNING", function=function).encode()).snapshots
    (communicator,) = snapshot.communicators
    assert {m.rank: m.counts[name] for m in communicator.members} == {0: 6650, 1: 6650, 2: 6649, 3: 6650}
    assert all(m.running for m in communicator.members)
    (ending,) = parse(MISMATCH.format(status="FINALIZE", function=function).encode()).snapshots
    assert not any(m.running for m in ending.communicators[0].members)


def test_a_dead_process_in_text() -> None:
    text = """Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 192.0.2.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
"""
    (snapshot,) = parse(text.encode()).snapshots
    (absent,) = snapshot.communicators[0].absent
    assert (absent.rank, absent.dead, absent.process) == (21, True, ("192.0.2.213", 3487984))


def test_two_texts_in_one_file_are_two_snapshots() -> None:
    text = MISMATCH.format(status="RUNNING", function="AllReduce")
    assert len(parse((text + text).encode()).snapshots) == 2


def test_monitor_events_tell_of_deaths() -> None:
    event = {"timestamp": "2025-12-19 13:07:07", "group": "LIFECYCLE", "event": "PEER_DEAD"}
    peer = {"host": "192.0.2.45", "pid": 1524345}
    stream = (
        json.dumps(event | {"event": "PEER_NEW", "peer": peer}) + "\n" + json.dumps(event | {"peer": peer}, indent=1)
    )
    assert [s.lost for s in parse(stream.encode()).snapshots][1][0][0] == ("192.0.2.45", 1524345)
    text = b"[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 192.0.2.45 managing GPU 1\n"
    assert parse(text).snapshots[0].lost[0][0] == ("192.0.2.45", 1524345)


@pytest.mark.parametrize("data", [b"", b"{", b"hello", b"{}", b'{"communicators": 3}', b"\xff\xfe\x00"])
def test_what_is_no_answer_is_one_line(data: bytes) -> None:
    with pytest.raises(BadRas) as caught:
        parse(data)
    assert "\n" not in str(caught.value)


def test_answers_are_known_by_their_beginning() -> None:
    assert looks_like(answer([member(0)]).encode())
    assert looks_like(MISMATCH.encode())
    assert not looks_like(b'{"header": {}, "coll_perf": {}}\n')
    assert not looks_like(b"step,rank\n1,2\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(member(0))), values, max_size=4),
    st.integers(0, 900),
    st.binary(max_size=30),
    st.text(alphabet="#0123 ()abDEINCOMPLETRMSH\n-", max_size=60),
)
def test_nothing_breaks_it(row: dict[str, Any], cut: int, junk: bytes, line: str) -> None:
    whole = answer([member(0) | row, member(1)], [missing(2) | row]).encode()
    text = MISMATCH.encode()
    for data in (
        whole,
        whole[:cut],
        whole[:cut] + junk,
        junk,
        (MISMATCH[:cut] + line + MISMATCH[cut:]).encode(),
        text[:cut],
    ):
        with contextlib.suppress(BadRas):
            parse(data)


def test_of_diagnostics_what_is_not_in_order_is_told_and_the_rest_counted() -> None:
    lines = (
        "=== RAS Diagnostics ===",
        "[OK]   NVLink: 18 links per GPU, all active",
        "[WARN] NVLink: 17 links on rank 3",
        "[OK]   rdma_topo check: passed on 8/8 ranks",
        "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
    )
    found = parse("".join(f"node-1:12 NCCL DIAG {line}\n" for line in lines).encode())
    assert found.notes == ["diagnostics: [WARN] NVLink: 17 links on rank 3", "diagnostics: 2 checks are OK"]
