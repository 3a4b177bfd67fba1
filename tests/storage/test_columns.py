"""Records to columns: missing stays missing, strangers are counted, nothing depends on the cut of a batch."""

import math
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from schemas import AlertState, Baselines, CollectiveFrame, Features, NodeFrame, Record
from schemas.collective import Communicator, Operation
from schemas.examples import EXAMPLES
from schemas.features import GpuFeatures
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.metrics import names
from storage.columns import columns, row_count, unknown_sections
from storage.restore import restored
from storage.shapes import One
from storage.tables import BY_RECORD, TABLES
from storage.values import unwrapped


def frame(seq: int, gpu: Matrix | None = None, gpus: tuple[Gpu, ...] = (), **sections: Matrix) -> NodeFrame:
    own = {"gpu": gpu} if gpu is not None else {}
    return NodeFrame(cluster="c", ts_ms=1000 * seq, node="n", run_id=1, seq=seq, gpus=gpus, sections=own | sections)


def rows(table: str, *records: Record) -> list[dict[str, Any]]:
    made = columns(TABLES[table], records)
    assert all(len(values) == made.rows for values in made.data)
    by_name = {c.name: plain(v) for c, v in zip(TABLES[table].columns, made.data, strict=True)}
    return [{name: values[i] for name, values in by_name.items()} for i in range(made.rows)]


def plain(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def test_a_sample_joins_readings_with_the_gpus_job_and_leaves_the_rest_nan() -> None:
    gpu = Gpu(uuid="GPU-1", pci="0:1", slot=1, job="j", rank=7)
    (row,) = rows("gpu_samples", frame(1, Matrix.of(["GPU-1"], ["temperature_c", "power_w"], [[61, 700]]), (gpu,)))
    assert (row["gpu"], row["pci"], row["job"], row["rank"], row["ts"], row["seq"]) == ("GPU-1", "0:1", "j", 7, 1000, 1)
    assert (row["power_w"], row["temperature_c"]) == (700.0, 61.0)
    assert math.isnan(row["sm_clock_mhz"])


def test_a_gpu_without_readings_is_a_row_of_nan_and_readings_without_a_description_a_row_too() -> None:
    matrix = Matrix.of(["GPU-2"], ["power_w"], [[1.0]])
    made = rows("gpu_samples", frame(1, matrix, (Gpu(uuid="GPU-1", job="j", rank=0),)))
    by_gpu = {row["gpu"]: row for row in made}
    assert math.isnan(by_gpu["GPU-1"]["power_w"])
    assert (by_gpu["GPU-1"]["job"], by_gpu["GPU-2"]["job"], by_gpu["GPU-2"]["rank"]) == ("j", "", None)


def test_columns_and_sections_of_a_newer_agent_are_counted_not_fatal() -> None:
    newer = Matrix.of(["GPU-1", "GPU-2"], ["power_w", "flux_c"], [[1, 2], [3, 4]])
    record = frame(1, newer, warp=Matrix.of(["n"], ["x"], [[1]]))
    made = columns(TABLES["gpu_samples"], [record, frame(2, Matrix.of(["GPU-1"], ["power_w"], [[5]]))])
    assert made.unknown == {"gpu.flux_c": 2}
    assert made.rows == 3
    assert unknown_sections(record) == ("warp",)


def test_layouts_of_different_agents_meet_in_one_batch() -> None:
    order = names("host")
    one = frame(1, host=Matrix.of(["n"], order, [list(range(len(order)))]))
    other = frame(2, host=Matrix.of(["n"], order[::-1], [list(range(len(order)))[::-1]]))
    empty = frame(3, host=Matrix.of(["n"], [], []))
    made = {row["seq"]: row for row in rows("host_samples", one, other, empty, frame(4))}
    assert sorted(made) == [1, 2, 3]
    assert [made[1][name] for name in order] == [made[2][name] for name in order] == list(range(len(order)))
    assert all(math.isnan(made[3][name]) for name in order)


def test_baselines_become_one_row_per_gpu_and_metric_whatever_the_order_of_the_spread() -> None:
    record = Baselines(
        cluster="c", ts_ms=0, node="n", run_id=1, seq=1,
        centre=Matrix.of(["GPU-1", "GPU-2"], ["power_w", "wait"], [[1, 2], [3, 4]]),
        spread=Matrix.of(["GPU-2"], ["wait", "power_w"], [[40, 30]]),
    )  # fmt: skip
    made = {(r["gpu"], r["metric"]): (r["centre"], r["spread"]) for r in rows("gpu_baselines", record)}
    assert made["GPU-2", "power_w"] == (3, 30)
    assert made["GPU-2", "wait"] == (4, 40)
    assert made["GPU-1", "wait"][0] == 2
    assert math.isnan(made["GPU-1", "wait"][1])


def test_an_operation_is_joined_with_its_communicator() -> None:
    comms = (
        Communicator(id="0xa", size=2, rank=4, comm_rank=0),
        Communicator(id="0xb", name="TP", size=8, rank=4, comm_rank=5, gpu="GPU-4"),
    )
    operations = tuple(Operation(m, "AllGather", 9, 1 << 20, 12.5, 77) for m in (1, 0))
    record = CollectiveFrame(
        cluster="c", ts_ms=50, node="n", run_id=1, seq=1, job="j", communicators=comms, operations=operations
    )
    first, second = rows("collective_operations", record)
    assert (first["communicator"], first["communicator_name"], first["comm_rank"], first["gpu"]) == (
        "0xb",
        "TP",
        5,
        "GPU-4",
    )
    assert (second["communicator"], second["rank"], second["place"], second["ts"]) == ("0xa", 4, 1, 50)
    assert (first["operation_at"], first["exec_time_us"], first["function"]) == (77, 12.5, "AllGather")


def test_a_member_that_points_nowhere_is_an_error_for_the_caller() -> None:
    record = CollectiveFrame(
        cluster="c", ts_ms=0, node="n", run_id=1, seq=1, job="j",
        operations=(Operation(3, "AllReduce", 1, 1, 1.0, 0),),
    )  # fmt: skip
    with pytest.raises(LookupError):
        columns(TABLES["collective_operations"], [record])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: type(e).__name__)
def test_row_count_is_the_number_of_rows(example: Record) -> None:
    assert row_count(example) == sum(columns(t, [example]).rows for t in BY_RECORD[type(example)])


def values(annotation: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Any value that the wire allows for the annotation, floats as wide as the column."""
    inner, may_be_none = unwrapped(annotation)
    if may_be_none:
        return st.none() | values(inner, "never nan")
    low, high, longest = None, None, 8
    if get_origin(inner) is Annotated:
        inner, *metas = get_args(inner)
        meta: Meta = metas[0]
        low, high, longest = meta.ge, meta.le, 8 if meta.min_length is None else -8
    if inner is bool:
        return st.booleans()
    if inner is int:
        return st.integers(low if low is not None else -(2**63), high or (2**64 - 1 if low == 0 else 2**63 - 1))
    if inner is float:
        return st.floats(low, high, width=32, allow_nan=low is None and not name, allow_infinity=False)
    if inner is str:
        return st.text(min_size=1 if longest < 0 else 0, max_size=8)
    if inner is bytes:
        return st.binary(max_size=8)
    if get_origin(inner) is Literal:
        return st.sampled_from(get_args(inner))
    if get_origin(inner) is tuple:
        return st.lists(values(get_args(inner)[0]), max_size=3).map(tuple)
    if get_origin(inner) is dict:
        return st.dictionaries(st.text(max_size=4), values(get_args(inner)[1]), max_size=3)
    return structs(inner)


def structs(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({f.name: values(f.type) for f in msgspec.structs.fields(cls) if f.name != "v"}).map(
        lambda given: cls(**given)
    )


WHOLE = [t.name for t in TABLES.values() if isinstance(t.shape, One) and len(BY_RECORD[t.record]) == 1]


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_record_of_one_row_comes_back_whole(name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    records = data.draw(st.lists(structs(table.record), min_size=1, max_size=4))
    back = [restored(table.record, row) for row in rows(table.name, *records)]
    left_out = {"latest": b""} if table.record is AlertState else {}  # the alerter's copy of an incident
    sent = [msgspec.structs.replace(record, **left_out) for record in records]
    assert [same(record) for record in back] == [same(record) for record in sent]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["GPU-1", "GPU-2", "GPU-3"]), unique=True),
            st.lists(st.sampled_from([*names("gpu")[:6], "new_a", "new_b"]), unique=True),
        ),
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_readings_come_back_whatever_the_layouts(layouts: list[tuple[list[str], list[str]]], random: Any) -> None:
    frames, expected = [], {}
    for seq, (uuids, metrics) in enumerate(layouts):
        numbers = np.array([[random.random() for _ in metrics] for _ in uuids], np.float32).reshape(
            len(uuids), len(metrics)
        )
        frames.append(frame(seq, Matrix.of(uuids, metrics, numbers)))
        for i, uuid in enumerate(uuids):
            expected[seq, uuid] = dict(zip(metrics, numbers[i].tolist(), strict=True))
    made = {(row["seq"], row["gpu"]): row for row in rows("gpu_samples", *frames)}
    assert set(made) == set(expected)
    for key, known in expected.items():
        for name in names("gpu"):
            got = made[key][name]
            assert got == known[name] if name in known else math.isnan(got)


def same(record: Any) -> Any:
    """Comparable: NaN equals NaN."""
    return repr(msgspec.to_builtins(record))


def test_a_gpus_row_of_the_matrix_is_its_map_of_deviations() -> None:
    gpus = [GpuFeatures(uuid="a", z={"power_w": -9.5}), GpuFeatures(uuid="b", z={"temperature_c": 2.0})]
    told = rows("gpu_scores", Features.of(gpus, cluster="c", ts_ms=1000, node="n", run_id=1, seq=1))
    assert [(row["gpu"], row["z"]) for row in told] == [("a", {"power_w": -9.5}), ("b", {"temperature_c": 2.0})]
