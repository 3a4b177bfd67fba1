"""Results of nccl-tests in every layout."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.nccl_tests import BadTable, looks_like, parse

NEW = """# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8388608 maxBytes 67108864 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   4100 on    node-01 device  0 [0000:1a:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4104 on    node-02 device  0 [0000:1a:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
node-01:1:1 [0] NCCL INFO Launch mode Parallel
     8388608       2097152     float     sum      -1   141.52   59.28  103.73       0   143.10   58.62  102.59       3
    67108864      16777216     float     sum      -1  1.2e+06   93.45  163.54     N/A   720.61   93.13  162.97       0
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 137.549
"""

OLD = """# nThread 1 nGpus 8 minBytes 1 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 0
#   Rank  0 Pid 112372 on localhost device  0 [0x00] A100-SXM4-40GB
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
  8589934592     268435456   float    33646  255.31  223.39    N/A    32669  262.94  230.07  2e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 58.2651
"""


def test_today_s_table() -> None:
    (run,) = parse(NEW.encode())
    assert (run.test, run.version, run.hosts, run.whole) == ("all_reduce_perf", "2.19.6", ("node-01", "node-02"), True)
    assert (run.out_of_bounds, run.failed, run.average_gbs) == (3, True, 137.549)
    assert [(r.size_bytes, r.in_place, r.time_us, r.busbw_gbs, r.wrong) for r in run.rows] == [
        (8388608, False, 141.52, 103.73, 0),
        (8388608, True, 143.10, 102.59, 3),
        (67108864, False, 1.2e6, 163.54, None),
        (67108864, True, 720.61, 162.97, 0),
    ]


def test_the_old_table_without_operation_and_root() -> None:
    (run,) = parse(OLD.encode())
    assert [(r.size_bytes, r.operation, r.busbw_gbs, r.wrong) for r in run.rows] == [
        (8589934592, "", 223.39, None),
        (8589934592, "", 230.07, None),
    ]


def test_times_of_day_and_more_columns_do_not_disturb() -> None:
    stamped = NEW.replace("     8388608  ", "2026-11-30 10:00:00      8388608  ")
    assert parse(stamped.encode())[0].rows == parse(NEW.encode())[0].rows
    head = "busbw  #wrong     time"
    wide = NEW.replace(head, "busbw  #wrong i_min i_max i_p99 i_cv%     time").replace(
        "103.73       0", "103.73 0 1 2 3 4"
    )
    assert parse(wide.encode())[0].rows[0].busbw_gbs == 103.73


def test_several_runs_in_one_file_and_one_that_died() -> None:
    runs = parse((NEW + OLD + NEW[: NEW.index("# Out of bounds")]).encode())
    assert [(len(run.rows), run.whole) for run in runs] == [(4, True), (2, True), (4, False)]


def result(**more: Any) -> dict[str, Any]:
    timed = {"time": 141.5, "alg_bw": 59.2, "bus_bw": 103.7, "nwrong": 0.0}
    return {
        "size": 8388608, "count": 2097152, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": timed, "in_place": timed | {"nwrong": None}, "experiment_name": "all_reduce_perf", **more,
    }  # fmt: skip


def document(*results: dict[str, Any]) -> dict[str, Any]:
    devices = [
        {"rank": r, "group": 0, "pid": 10 + r, "hostname": "node-01", "device": r, "device_hex": "0000:1a:00",
         "device_info": "NVIDIA H100"}
        for r in range(2)
    ]  # fmt: skip
    return {
        "version": 3,
        "args": ["./build/all_reduce_perf"],
        "env": ["TOKEN=secret"],
        "nccl_version": 23007,
        "config": {"nthreads": 1, "devices": devices},
        "results": list(results),
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 137.5, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-11-30 09:00:09",
    }


def test_json_without_its_environment() -> None:
    times = [[1.0, 2.0], [3.0, "nan"]]
    (run,) = parse(json.dumps(document(result(out_of_place_per_iter={"per_process_max_times_us": times}))).encode())
    assert (run.test, len(run.devices), run.whole, run.failed) == ("all_reduce_perf", 2, True, False)
    assert run.rows[0].process_us[0] == (1.0, 2.0)
    assert (run.rows[0].wrong, run.rows[1].wrong) == (0, None)
    assert "secret" not in repr(run)


def test_json_that_says_inf() -> None:
    text = json.dumps(document(result(in_place={"time": 1.0, "bus_bw": 99.5}))).replace("99.5", "inf")
    assert [row.in_place for row in parse(text.encode())[0].rows] == [False]


def test_json_of_a_run_that_died_keeps_what_is_whole() -> None:
    text = json.dumps(document(result(), result(size=4)))
    (run,) = parse(text[: text.index('"out_of_bounds"')].encode())
    assert (len(run.rows), run.whole) == (4, False)
    (run,) = parse(text[: text.rindex('"size": 4') + 5].encode())
    assert (len(run.rows), run.whole) == (2, False)


@pytest.mark.parametrize("data", [b"", b"{", b'{"results": [', b"hello\n", b"# nThread 1\n", b'{"results": 3}'])
def test_what_is_no_result_is_one_line(data: bytes) -> None:
    with pytest.raises(BadTable) as caught:
        parse(data)
    assert "\n" not in str(caught.value)


def test_results_are_known_by_their_beginning() -> None:
    assert looks_like(NEW.encode())
    assert looks_like(OLD.encode())
    assert looks_like(json.dumps(document(result())).encode())
    assert not looks_like(b"step,rank\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from([*result(), "out_of_place_per_iter"]), values, max_size=4),
    st.dictionaries(st.sampled_from(sorted(document())), values, max_size=3),
    st.integers(0, 900),
    st.text(alphabet="# 0123456789.eN/A-\nfloat", max_size=60),
)
def test_nothing_breaks_it(row: dict[str, Any], top: dict[str, Any], cut: int, line: str) -> None:
    whole = json.dumps(document(result(**row)) | top)
    for text in (whole, whole[:cut], NEW[:cut] + line + NEW[cut:], line, OLD[:cut] + line):
        with contextlib.suppress(BadTable):
            parse(text.encode())
