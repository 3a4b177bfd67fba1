"""NCCL Inspector's Prometheus files of both versions, and CoMMA's latency files."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl import comma, inspector_metrics
from collectors.nccl.inspector_metrics import means

NEW = (
    'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="4242",node="node-01",gpu="GPU0",comm_name="DP Group 0",'
    'n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678.263\n'
)
OLD = (
    'nccl_collective_exec_time_microseconds{comm_id="0xd1",hostname="node-02",rank="4",slurm_job_id="unknown",nranks="8",'
    'n_nodes="1",gpu_device_id="GPU4",collective="AllReduce",coll_sn="228924",timestamp="2025-10-17T03:31:47Z",'
    'message_size="2.00GB"} 7747\n'
)


def test_both_label_sets() -> None:
    new, old = means(NEW + OLD)
    assert new is not None
    assert (new.quantity, new.value, new.node, new.gpu, new.ranks, new.rank) == (
        "busbw_gbs",
        678.263,
        "node-01",
        "GPU0",
        4,
        None,
    )
    assert old is not None
    assert (old.quantity, old.value, old.node, old.rank, old.sn) == ("exec_time_us", 7747, "node-02", 4, 228_924)


def test_what_cannot_be_is_none() -> None:
    absurd = NEW.replace("4-5GB", "16777215-16777216TB"), NEW.replace("678.263", "4.6e14"), NEW.replace("678.263", "x")
    assert [found for text in absurd for found in means(text)] == [None] * 3
    assert list(means("# HELP x\nother_metric 3\n")) == []


ROW = {
    "args": {"size": 20971520}, "cat": "COLL", "child_dur": 1456, "comm_hash": "0x58", "dur": 11039,
    "name": "all_reduce", "rank": 0, "seq_num": 57, "ts": 9615369, "proxyops": [{"cat": "PROXY"}],
}  # fmt: skip


def test_comma_whole_and_cut() -> None:
    (operation,) = comma.parse(json.dumps([ROW]).encode())
    assert (operation.function, operation.sn, operation.exec_time_us, operation.size_bytes) == (
        "all_reduce",
        57,
        1456,
        20971520,
    )
    rows = json.dumps([ROW, ROW, ROW], separators=(",", ":"))
    assert len(comma.parse(rows[:-1].encode())) == 3
    assert len(comma.parse(rows[:-40].encode())) == 2


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"[1]", b'{"cat": "PROXY"}', b"\xff"])
def test_no_comma_file_is_one_line(data: bytes) -> None:
    with pytest.raises(comma.BadTrace) as caught:
        comma.parse(data)
    assert "\n" not in str(caught.value)


def test_known_by_their_beginning() -> None:
    assert inspector_metrics.looks_like(NEW.encode())
    assert inspector_metrics.looks_like(OLD.encode())
    assert comma.looks_like(json.dumps([ROW]).encode())
    assert not comma.looks_like(b'{"header": {}, "coll_perf": {}}')


@given(st.text(max_size=80), st.integers(0, 300), st.binary(max_size=40))
def test_nothing_breaks_them(text: str, cut: int, junk: bytes) -> None:
    list(means(NEW[:cut] + text + NEW[cut:]))
    for data in (junk, json.dumps([ROW]).encode()[:cut] + junk):
        with contextlib.suppress(comma.BadTrace):
            comma.parse(data)
