"""The parser of NCCL Inspector's lines: every format version, and whatever else may stand in such a file."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.inspector import IGNORED, REASONS, DumpStats, InspectorReader, Parsed, Perf, Process, Rejected

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "nccl" / "inspector"


def header(**changes: Any) -> dict[str, Any]:
    return {"id": "0x7f8c496ae9f661", "comm_name": "DP_GROUP_0", "rank": 2, "n_ranks": 8, "nnodes": 1} | changes


def metadata(version: str = "v4.0", **changes: Any) -> dict[str, Any]:
    return {
        "inspector_output_format_version": version,
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": 1_748_030_377_748_202,
        "hostname": "node-01",
        "pid": 77,
    } | changes


def collective(**changes: Any) -> dict[str, Any]:
    return {
        "coll": "AllReduce",
        "coll_sn": 1407,
        "coll_msg_size_bytes": 1 << 24,
        "coll_exec_time_us": 900,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 18.64,
        "coll_busbw_gbs": 32.62,
    } | changes


def line(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


def read(*lines: bytes) -> list[Parsed]:
    return InspectorReader().read_all(lines)


def perf(found: Parsed) -> Perf:
    assert isinstance(found, Perf)
    return found


def test_a_plain_v4_0_line_is_one_operation() -> None:
    found = perf(read(line(header=header(), metadata=metadata(), coll_perf=collective()))[0])
    assert found.process == Process("node-01", 77)
    assert (found.member.id, found.member.name, found.member.rank, found.member.size) == (
        "0x7f8c496ae9f661",
        "DP_GROUP_0",
        2,
        8,
    )
    assert (found.function, found.sn, found.size_bytes, found.exec_time_us) == ("AllReduce", 1407, 1 << 24, 900.0)
    assert math.isnan(found.stop_us)


def test_verbose_lines_say_when_the_kernel_stopped() -> None:
    events = [
        {"channel_id": 0, "kernel_start_ts": 50, "kernel_stop_ts": 940, "kernel_record_ts": 930},
        {"channel_id": 1, "kernel_start_ts": 40, "kernel_stop_ts": 950, "kernel_record_ts": 930},
    ]
    body = collective(event_trace_ts={"coll_start_ts": 1, "coll_stop_ts": 2, "kernel_events": events})
    found = perf(read(line(header=header(), metadata=metadata(), coll_perf=body))[0])
    assert found.stop_us == 950.0


@pytest.mark.parametrize("trace", [None, 5, {}, {"kernel_events": 5}, {"kernel_events": []}, {"kernel_events": [{}]}])
def test_an_operation_whose_kernels_are_not_understood_is_one_without_their_times(trace: object) -> None:
    found = perf(read(line(header=header(), metadata=metadata(), coll_perf=collective(event_trace_ts=trace)))[0])
    assert math.isnan(found.stop_us)
    assert found.exec_time_us == 900.0


def test_older_lines_without_name_source_or_bandwidth_are_read() -> None:
    old_header = {"id": "0x7f8c496ae9f661", "rank": 0, "n_ranks": 4, "nnodes": 1}
    body = {"coll": "ReduceScatter", "coll_sn": 0, "coll_msg_size_bytes": 8, "coll_exec_time_us": 5663.0}
    found = perf(read(line(header=old_header, metadata=metadata(), coll_perf=body))[0])
    assert (found.member.name, found.timing_source, found.exec_time_us) == ("", "", 5663.0)


def test_point_to_point_lines_name_the_peer() -> None:
    body = {"p2p": "Send", "p2p_sn": 3, "p2p_peer": 6, "p2p_msg_size_bytes": 1 << 20, "p2p_exec_time_us": 55}
    found = perf(read(line(header=header(), metadata=metadata(), p2p_perf=body))[0])
    assert (found.function, found.peer, found.sn) == ("Send", 6, 3)


def test_v4_1_counts_what_the_writer_dropped_and_v4_2_names_the_algorithm() -> None:
    stats = {"coll_records": 1, "coll_dropped_since_last_dump": 512, "p2p_records": 0}
    body = collective(coll_algo="RING", coll_proto="LL")
    marker, operation = read(
        line(header=header(), metadata=metadata("v4.1"), dump_stats=stats),
        line(header=header(), metadata=metadata("v4.2"), coll_perf=body),
    )
    assert isinstance(marker, DumpStats)
    assert (marker.records, marker.dropped) == (1, 512)
    assert (perf(operation).algorithm, perf(operation).protocol) == ("RING", "LL")


def test_v4_3_bare_lines_belong_to_their_marker() -> None:
    stats = {"coll_records": 1, "p2p_records": 1, "proxy_records": 1}
    p2p = {"p2p": "Recv", "p2p_sn": 0, "p2p_peer": 1, "p2p_msg_size_bytes": 9000, "p2p_exec_time_us": 9}
    found = read(
        line(header=header(rank=5), metadata=metadata("v4.4"), dump_stats=stats),
        line(coll_perf=collective()),
        line(p2p_perf=p2p),
        line(proxy_trace={"record_type": "proxy_op", "is_final": True}),
        line(coll_perf=collective(coll_sn=1408)),
    )
    assert perf(found[1]).member.rank == perf(found[2]).member.rank == 5
    assert found[3] is IGNORED
    assert found[4] == Rejected("unattributable")


def test_communicators_that_take_turns_in_one_file_stay_apart() -> None:
    headers = [header(), header(rank=5), header()]
    found = read(*(line(header=h, metadata=metadata(), coll_perf=collective()) for h in headers))
    assert [perf(one).member.rank for one in found] == [headers[0]["rank"], 5, headers[0]["rank"]]


def test_a_header_that_cannot_be_is_refused_each_time() -> None:
    wrong = line(header=header(rank=8, n_ranks=8), metadata=metadata(), coll_perf=collective())
    assert read(wrong, wrong) == [Rejected("bad_field")] * 2


def test_a_header_of_null_is_none() -> None:
    assert read(line(header=None, metadata=metadata(), coll_perf=collective())) == [Rejected("unattributable")]


def test_bare_lines_after_a_lost_marker_are_counted_not_guessed() -> None:
    assert read(line(coll_perf=collective())) == [Rejected("unattributable")]


def test_a_zero_record_marker_is_a_sign_of_life() -> None:
    (found,) = read(line(header=header(), metadata=metadata("v4.3"), dump_stats={"coll_records": 0}))
    assert isinstance(found, DumpStats)
    assert found.records == 0


def test_a_torn_bare_line_uses_up_its_place() -> None:
    found = read(
        line(header=header(), metadata=metadata("v4.3"), dump_stats={"coll_records": 1}),
        line(coll_perf=collective())[:40],
        line(coll_perf=collective()),
    )
    assert found[1:] == [Rejected("broken"), Rejected("unattributable")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"coll_msg_size_bytes": 18446744073709486080}, "absurd_size"),
        ({"coll_msg_size_bytes": -1}, "absurd_size"),
        ({"coll_algobw_gbs": 461168601842737.1}, "absurd_bandwidth"),
        ({"coll_exec_time_us": 0}, "absurd_time"),
        ({"coll_exec_time_us": 1e14}, "absurd_time"),
        ({"coll": "Invalid"}, "unknown_function"),
        ({"coll_sn": -1}, "bad_field"),
        ({"coll_sn": 2**62}, "bad_field"),
        ({"coll_sn": "one"}, "bad_field"),
    ],
)
def test_nonsense_is_rejected_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    assert read(line(header=header(), metadata=metadata(), coll_perf=collective(**changes))) == [Rejected(reason)]


@pytest.mark.parametrize("changes", [{"rank": 8}, {"n_ranks": 0}, {"id": ""}, {"n_ranks": 2**31}, {"id": "0x" * 99}])
def test_a_header_that_cannot_be_is_rejected(changes: dict[str, Any]) -> None:
    found = read(line(header=header(**changes), metadata=metadata(), coll_perf=collective()))
    assert found == [Rejected("bad_field")]


@given(st.binary(max_size=300))
def test_no_bytes_raise(junk: bytes) -> None:
    found = InspectorReader().read(junk)
    assert not isinstance(found, Rejected) or found.reason in REASONS


@given(st.integers(0, 400))
def test_a_line_cut_anywhere_is_broken_or_whole(cut: int) -> None:
    whole = line(header=header(), metadata=metadata(), coll_perf=collective())
    found = InspectorReader().read(whole[:cut])
    assert isinstance(found, Perf) if cut >= len(whole) else isinstance(found, Rejected)


@pytest.mark.skipif(not REAL.is_dir(), reason="shared/data is not beside the project")
def test_the_real_files_are_read_as_far_as_they_make_sense() -> None:
    def counted(name: str) -> Counter[str]:
        found = read(*(REAL / name).read_bytes().splitlines())
        return Counter(f.reason if isinstance(f, Rejected) else type(f).__name__ for f in found)

    assert counted("datadog_real_line.jsonl") == {"Perf": 1}
    assert counted("nvidia_readme_examples.jsonl") == {"Perf": 3}
    assert counted("v4.1_constructed.jsonl") == counted("v4.2_constructed.jsonl") == {"Perf": 2, "DumpStats": 1}
    assert counted("writer_v2.30.7_verbose.jsonl") == {"Perf": 4}
    assert counted("truncated_tail.log") == {"Perf": 6, "absurd_size": 1, "unknown_function": 1, "broken": 1}


def compact(**parts: Any) -> bytes:
    """As NCCL's writer spaces it: lines in which a known beginning is found again."""
    return json.dumps(parts, separators=(",", ":")).encode()


COMMUNICATORS = [header(), header(id="0x1b2c3d4e5f6071", comm_name="TP", rank=1, n_ranks=4)]
BODIES = [
    {"coll_perf": collective()},
    {"coll_perf": collective(coll="ReduceScatter", coll_sn=3, coll_algo="RING", coll_proto="LL")},
    {"coll_perf": collective(event_trace_ts={"kernel_events": [{"kernel_start_ts": 4, "kernel_stop_ts": 9}]})},
    {"coll_perf": collective(event_trace_ts={"kernel_events": 5})},
    {"coll_perf": collective(coll_sn=-1)},
    {"coll_perf": collective(coll_msg_size_bytes=2.0**63)},
    {"coll_perf": collective(coll="Invalid")},
    {"coll_perf": None, "p2p_perf": {"p2p": "Send", "p2p_sn": 1, "p2p_msg_size_bytes": 9, "p2p_exec_time_us": 2}},
    {"p2p_perf": {"p2p": "Recv", "p2p_sn": 7, "p2p_peer": 3, "p2p_msg_size_bytes": 9, "p2p_exec_time_us": 2}},
    {"p2p_perf": {"p2p": "Recv", "p2p_sn": 7}, "coll_perf": collective()},
    {"coll_perf": collective(), "dump_stats": {"coll_records": 2}},
    {"dump_stats": {"coll_records": 2, "p2p_records": 1}},
    {"proxy_trace": {"record_type": "proxy_op"}},
    {},
]
T_US = 1_748_030_377_748_202
TIMES = [T_US, T_US + 1, T_US + 2, T_US + 3, 10**15 - 1, 9 * 10**15, 0, -1, 1.5, str(T_US), None]
ABOUT: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.builds(
        lambda h, t, swapped: (
            {"header": h, "metadata": metadata(dump_timestamp_us=t)}
            if not swapped
            else {"metadata": metadata(dump_timestamp_us=t), "header": h}
        ),
        st.sampled_from([*COMMUNICATORS, None]),
        st.sampled_from(TIMES),
        st.booleans(),
    ),
)
LINES = st.builds(lambda about, said: compact(**about, **said), ABOUT, st.sampled_from(BODIES))


def damaged(whole: bytes, at: int, put: bytes, cut: bool) -> bytes:
    return whole[:at] + put + (b"" if cut else whole[at + len(put) :])


DAMAGED = st.builds(
    damaged, LINES, st.integers(0, 500), st.sampled_from([b"", b"}", b"9", b'"', b"\\", b" ", b"\xff"]), st.booleans()
)


TAUGHT = [compact(header=h, metadata=metadata(), coll_perf=collective()) for h in COMMUNICATORS]


@given(st.booleans(), st.lists(st.one_of(LINES, LINES, DAMAGED), min_size=3, max_size=12))
def test_a_line_that_begins_as_others_says_what_it_says_alone(taught: bool, lines: list[bytes]) -> None:
    short, whole = InspectorReader(), InspectorReader()
    lines = TAUGHT * taught + lines
    assert repr([short.read(line) for line in lines]) == repr([whole.read_whole(line) for line in lines])


def test_of_lines_that_begin_alike_only_the_operation_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InspectorReader()
    lines = [
        compact(
            header=h, metadata=metadata(dump_timestamp_us=1_748_030_377_748_202 + n), coll_perf=collective(coll_sn=n)
        )
        for n in range(4)
        for h in COMMUNICATORS
    ]
    learned = reader.read_all(lines[:2])
    monkeypatch.setattr(reader, "read_whole", lambda _: Rejected("broken"))
    found = [perf(one) for one in learned + reader.read_all(lines[2:])]
    assert [(f.member.name, f.sn, f.dump_us % 10) for f in found] == [
        (name, n, n + 2) for n in range(4) for name in ("DP_GROUP_0", "TP")
    ]


def test_a_beginning_is_not_taken_for_its_own_where_the_time_stands_elsewhere() -> None:
    """A name that looks like the writer's own words: its digits are no time."""
    odd = header() | {"dump_timestamp_us": 1_748_030_377_748_202}
    reader = InspectorReader()
    for ms in (1, 2, 3):
        one = compact(header=odd, metadata=metadata(dump_timestamp_us=1000 * ms), coll_perf=collective())
        assert perf(reader.read(one)).dump_us == 1000 * ms


@pytest.mark.parametrize(
    "about",
    [
        {"metadata": metadata(pid=2**32)},
        {"header": header(nnodes=2**21)},
    ],
)
def test_a_process_that_cannot_be_is_rejected(about: dict[str, Any]) -> None:
    found = read(line(**({"header": header(), "metadata": metadata()} | about), coll_perf=collective()))
    assert found == [Rejected("bad_field")]


def test_kernel_times_after_the_year_2100_are_none() -> None:
    events = [{"channel_id": 0, "kernel_start_ts": 1, "kernel_stop_ts": 10**17}]
    found = perf(
        read(
            line(header=header(), metadata=metadata(), coll_perf=collective(event_trace_ts={"kernel_events": events}))
        )[0]
    )
    assert math.isnan(found.stop_us)


@pytest.mark.parametrize("end", [b"", b"]", b" ", b"}}", b',"coll_perf":{}}'])
def test_a_known_line_that_does_not_end_as_one_is_no_operation(end: bytes) -> None:
    whole = compact(header=header(), metadata=metadata(), coll_perf=collective())
    assert [type(one) for one in read(whole, whole[:-1] + end)] == [Perf, Rejected]
