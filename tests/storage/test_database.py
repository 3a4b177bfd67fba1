"""Every record class in the database: there and back, and replays that leave one row each."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import rows, store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import AlertState, Event, Features, Health, NodeFrame, Record
from schemas.examples import EXAMPLES
from schemas.matrix import Matrix
from schemas.readable import readable
from storage.columns import columns
from storage.restore import restored
from storage.shapes import One
from storage.tables import BY_RECORD, TABLES, Table

TICK = 1_700_000_000_000
clusters = (f"database-{n}" for n in itertools.count())


def frame(cluster: str, seq: int, ts_ms: int = TICK, power_w: float = 700.0) -> NodeFrame:
    matrix = Matrix.of(["GPU-1", "GPU-2"], ["power_w"], [[power_w], [power_w + 1]])
    return NodeFrame(cluster=cluster, ts_ms=ts_ms, node="n", run_id=1, seq=seq, sections={"gpu": matrix})


def as_stored(record: Record) -> Record:
    """Without the alerter's copy of an incident, which has a table of its own."""
    return msgspec.structs.replace(record, latest=b"") if isinstance(record, AlertState) else record


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if len(BY_RECORD[type(e)]) == 1 and isinstance(BY_RECORD[type(e)][0].shape, One)],
    ids=lambda e: type(e).__name__,
)
def test_a_record_of_one_row_comes_back_from_the_database(database: Client, example: Record) -> None:
    sent = msgspec.structs.replace(example, cluster=next(clusters))
    store(database, sent)
    (table,) = BY_RECORD[type(sent)]
    (row,) = rows(database, table.name, sent.cluster)
    assert readable(restored(type(sent), row)) == readable(as_stored(sent))


EXPLODED: dict[str, dict[str, Any]] = {
    "gpu_samples": {"node": "r01-t02", "run_id": 3, "seq": 41, "rank": 7, "tray": 2, "power_w": 512.0, "rack": "r01"},
    "host_samples": {"node": "r01-t02", "load_1m": 3.5},
    "node_frames": {"missing": {"timeout": 1}, "rack": "r01"},
    "rack_frames": {"missing": {}, "rack": "r01", "node": "r01-t01"},
    "loop_samples": {"rack": "r01", "loop": "loop-1", "supply_c": 30.0, "flow_lpm": 120.0},
    "inventory": {"rack": "r01", "nics": [], "tray": 2},
    "inventory_gpus": {"serial": "1650023007", "product": "GB200", "slot": 1, "place": 0},
    "inventory_memberships": {"rank": 7, "pid": 4242, "job": "slurm:eos/71/0", "communicators": []},
    "collective_operations": {"sn": 128, "exec_time_us": 2533.0, "communicator_name": "DP", "size_bytes": 16_777_216},
    "collective_blocks": {"k": 3, "block": 15, "count": 8, "min_us": 2501.0, "rank": 7, "size_class": 24},
    "collective_progress": {"last_sn": 128, "function": "AllReduce", "coverage": 1.0},
    "steps": {"step": 102, "step_us": 300_000.0, "data_us": 1600.0, "phase": "train"},
    "gpu_scores": {"score": pytest.approx(0.71), "strongest": ["power_w"], "z": {"power_w": -9.5}, "model": "fleet-1"},
    "gpu_baselines": {"metric": "power_w", "centre": 690.0, "spread": 6.5},
}


@pytest.mark.parametrize("name", EXPLODED)
def test_a_record_of_several_rows_lands_in_its_tables(database: Client, name: str) -> None:
    example = next(e for e in EXAMPLES if type(e) is TABLES[name].record)
    sent = msgspec.structs.replace(example, cluster=next(clusters))
    store(database, sent)
    (row,) = rows(database, name, sent.cluster)
    assert {column: row[column] for column in EXPLODED[name]} == EXPLODED[name]
    assert round(row["ts"].timestamp() * 1000) == sent.ts_ms
    assert row["ts"].utcoffset().total_seconds() == 0


def test_every_table_that_an_example_reaches_is_covered_here() -> None:
    reached = {t.name for e in EXAMPLES for t in BY_RECORD[type(e)] if columns(t, [e]).rows}
    single = {t.name for t in TABLES.values() if isinstance(t.shape, One) and len(BY_RECORD[t.record]) == 1}
    assert reached == single | set(EXPLODED)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_the_same_records_cut_into_other_batches_are_the_same_rows(database: Client, table: Table) -> None:
    cluster = next(clusters)
    example = next(e for e in EXAMPLES if type(e) is table.record)
    sent = [msgspec.structs.replace(example, cluster=cluster, ts_ms=example.ts_ms) for _ in range(3)]
    store(database, *sent)
    once = rows(database, table.name, cluster)
    store(database, sent[0])
    store(database, *sent[1:], sent[0])
    assert repr(rows(database, table.name, cluster)) == repr(once)


def test_a_batch_sent_again_in_other_cuts_doubles_nothing(database: Client) -> None:
    cluster = next(clusters)
    frames = [frame(cluster, seq, TICK + 1000 * seq) for seq in range(20)]
    store(database, *frames[:12])
    store(database, *frames[5:9])
    store(database, *frames[7:])
    found = rows(database, "gpu_samples", cluster)
    assert [(row["gpu"], row["seq"]) for row in found] == [(g, n) for g in ("GPU-1", "GPU-2") for n in range(20)]


def test_two_samples_in_one_second_are_two_rows(database: Client) -> None:
    cluster = next(clusters)
    store(database, frame(cluster, 1), frame(cluster, 2, power_w=800))
    found = rows(database, "gpu_samples", cluster)
    assert [(row["seq"], row["power_w"]) for row in found if row["gpu"] == "GPU-1"] == [(1, 700.0), (2, 800.0)]


def test_a_clock_that_steps_back_loses_no_sample(database: Client) -> None:
    cluster = next(clusters)
    times = [TICK, TICK + 1000, TICK, TICK - 86_400_000]
    store(database, *(frame(cluster, seq, ts) for seq, ts in enumerate(times)))
    found = rows(database, "gpu_samples", cluster)
    assert sorted(row["seq"] for row in found if row["gpu"] == "GPU-1") == [0, 1, 2, 3]


def test_any_clock_is_stored_and_kept(database: Client) -> None:
    cluster = next(clusters)
    day = 86_400_000
    times = [0, *range(day, 105 * day, day), 4_102_444_800_000]
    store(
        database,
        *(
            Health(cluster=cluster, ts_ms=ts, process="p", instance="i", run_id=1, seq=seq)
            for seq, ts in enumerate(times)
        ),
    )
    # Merging is what drops rows that are too old.
    database.command("OPTIMIZE TABLE health PARTITION '1970-01-01' FINAL")
    assert len(rows(database, "health", cluster)) == len(times)


def test_a_kernel_line_read_by_two_agent_runs_is_one_event(database: Client) -> None:
    cluster = next(clusters)
    line = Event(cluster=cluster, ts_ms=TICK, node="n", run_id=1, seq=5, kind="xid", boot_id="b", kmsg_seq=9)
    # The second run works out another time of the same line, on the other side of midnight.
    store(database, line)
    store(database, msgspec.structs.replace(line, run_id=2, seq=1, ts_ms=TICK + 86_400_000))
    store(database, Event(cluster=cluster, ts_ms=TICK, node="n", run_id=1, seq=5, kind="agent_started"))
    assert [(row["kind"], row["origin"]) for row in rows(database, "events", cluster)] == [
        ("xid", "kmsg:b"),
        ("agent_started", "run:1"),
    ]


def test_gpus_of_two_jobs_on_a_node_keep_their_scores(database: Client) -> None:
    cluster = next(clusters)
    example = next(e for e in EXAMPLES if isinstance(e, Features))
    store(database, *(msgspec.structs.replace(example, cluster=cluster, job=job) for job in ("a", "", "a")))
    assert [row["job"] for row in rows(database, "gpu_scores", cluster)] == ["", "a"]


def test_the_newest_of_a_replaced_record_wins_whatever_the_order(database: Client) -> None:
    cluster = next(clusters)
    example = next(e for e in EXAMPLES if type(e).__name__ == "Control")
    control = [
        msgspec.structs.replace(example, cluster=cluster, ts_ms=TICK + n, interval_s=float(n)) for n in (1, 3, 2)
    ]
    for record in control:
        store(database, record)
    assert [row["interval_s"] for row in rows(database, "control", cluster)] == [3.0]


words = st.text(max_size=12)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Event,
            cluster=st.just("hypothesis"),
            ts_ms=st.integers(0, 4_102_444_800_000),
            node=st.text(min_size=1, max_size=6),
            run_id=st.integers(0, 2**64 - 1),
            seq=st.integers(0, 2**64 - 1),
            kind=words,
            code=st.none() | st.integers(-(2**63), 2**63 - 1),
            rank=st.none() | st.integers(0, 2**64 - 1),
            text=words,
            detail=st.dictionaries(words, words, max_size=3),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda event: event.identity,
    )
)
def test_any_event_comes_back_from_the_database(database: Client, events: Sequence[Event]) -> None:
    database.command("TRUNCATE TABLE events")
    store(database, *events)
    back = [restored(Event, row) for row in rows(database, "events", "hypothesis")]
    assert sorted(back, key=lambda e: e.identity) == sorted(events, key=lambda e: e.identity)
