"""Flight Recorder dumps in every layout: pickles and JSON, old and new, NCCL's and Gloo's."""

import contextlib
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.flight_recorder import looks_like, parse
from collectors.nccl.plain_pickle import Refused


def entry(seq: int = 4, **more: Any) -> dict[str, Any]:
    return {
        "record_id": 0,
        "pg_id": 3,
        "process_group": ("37", "TENSOR_MODEL_PARALLEL_GROUP"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_758_580_156_069_309_184,
        "input_sizes": [[2048, 1, 5120]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[2048, 1, 5120]],
        "output_dtypes": ["BFloat16"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 180_000,
        "is_p2p": False,
        **more,
    }


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "2.9",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "37": {"name": "37", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": "[2, 3]"},
            "101": {"name": "101", "desc": "ALONE", "ranks": "[2]"},
        },
        "nccl_version": "2.27.3",
        "pg_status": {
            "0": {"last_enqueued_collective": 9, "last_started_collective": -1, "last_completed_collective": 8},
            "3": {"last_enqueued_collective": 4, "last_started_collective": -1, "last_completed_collective": 3},
            "16": {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1},
        },
        "entries": list(entries),
    }


def both(value: Any, name: str = "_dump_2") -> list[Any]:
    return [parse(pickle.dumps(value, 2), name), parse(json.dumps(value).encode(), name + ".json")]


def test_pickle_and_json_say_the_same() -> None:
    first, second = both(document(entry()))
    assert first == second
    assert (first.rank, first.version) == (2, "2.9")
    key = "37:TENSOR_MODEL_PARALLEL_GROUP:2,3"
    assert (first.groups[key].enqueued, first.groups[key].completed, first.groups[key].ranks) == (4, 3, (2, 3))
    (op,) = first.ops
    assert (op.group, op.seq, op.name, op.done, op.sizes_in) == (key, 4, "all_reduce", False, ((2048, 1, 5120),))
    assert op.created_ms == 1_758_580_156_069


def test_groups_without_entries_are_found_by_order() -> None:
    (dump, _) = both(document())
    assert {group.label: group.enqueued for group in dump.groups.values()} == {
        "default_pg (0)": 9,
        "TENSOR_MODEL_PARALLEL_GROUP (37)": 4,
        "ALONE (101)": -1,
    }


def test_the_rank_is_that_of_its_own_groups_whatever_the_name() -> None:
    assert parse(pickle.dumps(document(), 2), "node7_dump_3_1758581237").rank == 2


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_1.json", 1),
        ("trace_2.pickle", 2),
        ("host12-_dump_3", 3),
        ("_dump_1_1758581237", 1),
        ("rank0_of_4.json", 0),
        ("worker-a", None),
        ("_dump_77", None),
    ],
)
def test_the_rank_by_the_name_of_the_file(name: str, rank: int | None) -> None:
    value = document(entry(process_group=("0", "default_pg")))
    del value["pg_config"]["37"], value["pg_config"]["101"]
    assert parse(json.dumps(value).encode(), name).rank == rank


def test_numbers_may_be_strings_and_times_zero() -> None:
    value = document(entry(seq="4", time_discovered_completed_ns=0, time_discovered_started_ns=0, timeout_ms="180000"))  # type: ignore[arg-type]
    for state in value["pg_status"].values():
        state.update({name: str(number) for name, number in state.items()})
    dump = both(value)[1]
    assert dump.ops[0].seq == 4
    assert max(group.enqueued or 0 for group in dump.groups.values()) == 9


def test_point_to_point_names_its_peer_by_the_group_s_ranks() -> None:
    send = entry(p2p_seq_id=7, profiling_name="nccl:send 0->1", is_p2p=True)
    receive = entry(p2p_seq_id=8, profiling_name="nccl:recv 0<-1", is_p2p=True)
    first, second = both(document(send, receive))[0].ops
    assert (first.p2p, first.sends, first.peer, first.seq) == (True, True, 3, 7)
    assert (second.p2p, second.sends, second.peer, second.seq) == (True, False, 3, 8)


def test_a_gloo_dump_s_finished_operations_are_only_retired() -> None:
    value = {
        "version": "2.10",
        "pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": 4, "last_completed_collective": 3}},
        "entries": [
            entry(3, pg_id=0, process_group=("0", "default_pg"), profiling_name="gloo:all_reduce", retired=True),
            entry(4, pg_id=0, process_group=("0", "default_pg"), profiling_name="gloo:all_reduce"),
        ],
    }
    dump = both(value)[0]
    assert [op.done for op in dump.ops] == [True, False]
    assert next(iter(dump.groups.values())).ranks == (0, 1)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"version": "1.0", "entries": rows}])
def test_dumps_from_before_there_were_process_group_states(wrap: Any) -> None:
    old = [
        {"pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed", "input_sizes": [[3, 4]]},
        {"pg_id": 0, "seq_id": 2, "profiling_name": "nccl:all_reduce", "state": "scheduled", "input_sizes": [[3, 4]]},
    ]
    dump = both(wrap(old))[0]
    (group,) = dump.groups.values()
    assert (dump.rank, group.enqueued, group.completed) == (2, 2, 1)
    assert [op.done for op in dump.ops] == [True, False]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b'{"entries": [{"state": "sch', "truncated"),
        (b"\x80\x02}q\x00(X\x07\x00\x00\x00version", "truncated"),
        (b"[1, 2]", "no_dump"),
        (b'{"entries": 3}', "no_dump"),
        (b'{"entries": [{"a": 1}]}', "no_dump"),
        (b"\x80\x02N.", "no_dump"),
        (b"not a dump", "broken"),
        (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "unsafe"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(data, "_dump_0")
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_stack_frames_do_not_travel() -> None:
    frames = [{"name": "train", "filename": "/home/somebody/secret.py", "line": 1}]
    assert "secret" not in repr(both(document(entry(frames=frames))))


def test_dumps_are_known_by_their_beginning() -> None:
    assert looks_like(pickle.dumps(document(), 2))
    assert looks_like(json.dumps(document(entry()), indent=1).encode())
    assert not looks_like(b'{"header": {"id": "0x1"}, "coll_perf": {}}')
    assert not looks_like(b"step,rank,step_us\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
FIELDS = sorted(entry())
TOP = ("pg_config", "pg_status", "entries", "version", "rank")


@given(
    st.dictionaries(st.sampled_from(TOP), values, max_size=4),
    st.lists(st.dictionaries(st.sampled_from(FIELDS), values, max_size=8), max_size=4),
    st.binary(max_size=60),
    st.integers(0, 3000),
)
def test_nothing_breaks_it(top: dict[str, Any], rows: list[dict[str, Any]], junk: bytes, cut: int) -> None:
    mixed = document(*(entry(**row) for row in rows)) | top
    for data in (json.dumps(mixed).encode(), json.dumps(top).encode(), json.dumps(rows).encode(), junk):
        for part in (data, data[:cut]):
            with contextlib.suppress(Refused):
                parse(part, "_dump_1")
    with contextlib.suppress(Refused):
        parse(pickle.dumps(document(entry()), 2)[:cut] + junk, "_dump_1")
