"""Roll-ups are what the raw rows say, whatever is stored again, late, out of order, or rolled twice at once."""

import contextlib
import itertools
import math
import threading
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store

from runtime.clock import SystemClock
from runtime.health import Counters
from runtime.settings import ClickHouse
from schemas import CollectiveFrame, NodeFrame, Record, StepFrame
from schemas.collective import Block, Communicator, Operation
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.step import RankStep
from storage.client import get_client
from storage.migrate import migrate
from storage.roll import Roller, keep_rolling, spans
from storage.rollups import ROLLUPS

TICK = 1_800_000_000_000
NAN = float("nan")
GPU = {name: ROLLUPS[name] for name in ("gpu_10s", "gpu_1m", "gpu_1h")}
TEN = {"gpu_10s": ROLLUPS["gpu_10s"]}


@pytest.fixture(scope="module")
def rolled(clickhouse: ClickHouse) -> Iterator[Client]:
    """A database of this file's own: a roller takes everything that is there."""
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        migrate(client, "rolled")
    with contextlib.closing(get_client(msgspec.structs.replace(clickhouse, clickhouse_database="rolled"))) as client:
        yield client
        client.command("DROP DATABASE rolled SYNC")


@pytest.fixture
def empty(rolled: Client) -> Client:
    for table in (*GPU, "roll_marks", "gpu_samples"):
        rolled.command(f"TRUNCATE TABLE {table}")
    return rolled


def frame(seq: int, node: str = "n", power_w: float | None = None, errors: float = 0.0, job: str = "j") -> NodeFrame:
    gpus = (Gpu(uuid="GPU-1", slot=0, job=job, rank=0), Gpu(uuid="GPU-2", slot=1))
    power = float(seq) if power_w is None else power_w
    matrix = Matrix.of(
        ["GPU-1", "GPU-2"],
        ["power_w", "ecc_sbe_count", "clocks_event_reasons", "temperature_c"],
        [[power, errors, 1 << (seq % 3), NAN], [2 * power, 0, 0, 40 + seq % 5]],
    )
    return NodeFrame(
        cluster="c",
        ts_ms=TICK + 1000 * seq,
        node=node,
        rack="r1",
        run_id=1,
        seq=seq,
        gpus=gpus,
        sections={"gpu": matrix},
    )


def windows(client: Client, name: str = "gpu_10s", gpu: str = "GPU-1") -> list[tuple[int, int, float, float, float]]:
    found = client.query(
        f"SELECT toUnixTimestamp(ts), samples, power_w, power_w_min, power_w_max FROM {name} FINAL"
        " WHERE gpu = {gpu:String} ORDER BY ts",
        parameters={"gpu": gpu},
    )
    return [(start - TICK // 1000, *rest) for start, *rest in found.result_rows]


def truth(seqs: Sequence[int], width_s: int = 10) -> list[tuple[int, int, float, float, float]]:
    by_window = itertools.groupby(sorted(set(seqs)), lambda seq: seq // width_s * width_s)
    groups = [(start, list(members)) for start, members in by_window]
    return [(start, len(m), float(np.float32(np.mean(m))), float(min(m)), float(max(m))) for start, m in groups]


def test_windows_are_what_the_raw_rows_say(empty: Client) -> None:
    store(empty, *(frame(seq, errors=float(seq)) for seq in range(125)))
    Roller(empty, GPU).roll_all()
    assert windows(empty) == truth(range(125))
    assert windows(empty, "gpu_1m") == truth(range(125), 60)
    assert windows(empty, "gpu_1h") == truth(range(125), 3600)
    found = empty.query(
        "SELECT rack, slot, job, rank, ecc_sbe_count_min, ecc_sbe_count_max, clocks_event_reasons, temperature_c,"
        " temperature_c_max FROM gpu_1m FINAL WHERE gpu = 'GPU-1' ORDER BY ts LIMIT 1"
    ).result_rows[0]
    assert found[:7] == ("r1", 0, "j", 0, 0.0, 59.0, 7)
    assert math.isnan(found[7])
    assert math.isnan(found[8])


def test_a_replay_in_other_cuts_changes_nothing(empty: Client) -> None:
    frames = [frame(seq) for seq in range(40)]
    store(empty, *frames[:25])
    Roller(empty, GPU).roll_all()
    for cut in (frames[10:33], frames[5:12], frames):
        store(empty, *cut)
        Roller(empty, GPU).roll_all()
    assert windows(empty) == truth(range(40))
    assert windows(empty, "gpu_1h") == truth(range(40), 3600)


def test_late_data_enters_the_window_it_belongs_to(empty: Client) -> None:
    on_time = [seq for seq in range(30) if seq not in (3, 4, 17)]
    store(empty, *(frame(seq) for seq in on_time))
    Roller(empty, TEN).roll_all()
    assert windows(empty) == truth(on_time)
    store(empty, frame(17), frame(3))
    Roller(empty, TEN).roll_all()
    assert windows(empty) == truth([*on_time, 3, 17])


def test_rows_older_than_the_margin_are_not_computed_again(empty: Client) -> None:
    store(empty, *(frame(seq) for seq in range(20)))
    assert Roller(empty).roll("gpu_10s") == 1
    empty.insert("roll_marks", [["gpu_10s", 4_000_000_000_000]], column_names=["name", "through_ms"])
    assert Roller(empty).roll("gpu_10s") == 0
    assert Roller(empty).roll("gpu_10s", anew=True) == 1


def test_a_window_is_not_taken_back_when_its_raw_rows_are_gone(empty: Client) -> None:
    store(empty, *(frame(seq) for seq in range(10)))
    Roller(empty, TEN).roll_all()
    empty.command("TRUNCATE TABLE gpu_samples")
    store(empty, frame(4))
    Roller(empty, TEN).roll_all(anew=True)
    assert windows(empty) == truth(range(10))


def test_a_slower_roller_does_not_undo_a_newer_one(empty: Client) -> None:
    store(empty, *(frame(seq) for seq in range(6)))
    Roller(empty, TEN).roll_all()
    old = empty.query("SELECT * EXCEPT stored_at FROM gpu_10s")
    store(empty, *(frame(seq) for seq in range(6, 10)))
    Roller(empty, TEN).roll_all()
    empty.insert("gpu_10s", old.result_rows, column_names=old.column_names)
    assert windows(empty) == truth(range(10))


def test_two_rollers_at_once_beside_a_writer(empty: Client, clickhouse: ClickHouse) -> None:
    own = msgspec.structs.replace(clickhouse, clickhouse_database="rolled")
    done = threading.Event()

    def roll() -> None:
        with contextlib.closing(get_client(own)) as client:
            while not done.is_set():
                Roller(client).roll("gpu_10s")

    threads = [threading.Thread(target=roll) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in range(0, 120, 20):
        store(empty, *(frame(seq) for seq in range(max(0, start - 3), min(120, start + 20))))
    done.set()
    for thread in threads:
        thread.join(60)
    Roller(empty, TEN).roll("gpu_10s")
    assert windows(empty) == truth(range(120))


def test_two_jobs_in_one_window_are_two_rows(empty: Client) -> None:
    store(empty, *(frame(seq, job="a" if seq < 4 else "b") for seq in range(10)))
    Roller(empty, TEN).roll_all()
    found = empty.query("SELECT job, samples FROM gpu_10s FINAL WHERE gpu = 'GPU-1' ORDER BY job").result_rows
    assert found == [("a", 4), ("b", 6)]


def test_steps_and_collectives(empty: Client) -> None:
    member = Communicator(id="77", name="DP", size=4, nodes=2, rank=1, comm_rank=1)
    sent: list[Record] = []
    for seq in range(90):
        base = {"cluster": "c", "ts_ms": TICK + 1000 * seq, "node": "n", "run_id": 1, "seq": seq, "job": "j"}
        sent.append(StepFrame(**base, steps=(RankStep(rank=1, step=seq, step_us=100.0 + seq, work=8.0),)))
        sent.append(
            CollectiveFrame(
                **base,
                communicators=(member,),
                operations=(Operation(0, "AllReduce", seq, 1000, 50.0 + seq, TICK),),
                blocks=(Block(0, "AllReduce", 9, 3, seq, 8, 400.0, 40.0, 60.0 + seq),),
            )
        )
    store(empty, *sent, *sent[20:50])
    Roller(empty, {n: r for n, r in ROLLUPS.items() if n not in GPU}).roll_all()
    steps = empty.query(
        "SELECT samples, step_us, step_us_min, step_us_max, work_sum, first_step, last_step, isNaN(data_us)"
        " FROM steps_1m FINAL ORDER BY ts"
    )
    assert steps.result_rows == [
        (60, 129.5, 100.0, 159.0, 480.0, 0, 59, 1),
        (30, 174.5, 160.0, 189.0, 240.0, 60, 89, 1),
    ]
    operations = empty.query(
        "SELECT samples, size_bytes_sum, bus_bytes_sum, exec_time_us_min, exec_time_us_sum FROM operations_1h FINAL"
    )
    assert operations.result_rows == [(90, 90_000, 90_000 * 1.5, 50.0, sum(50.0 + seq for seq in range(90)))]
    blocks = empty.query("SELECT operations, sum_us_sum, min_us_min, max_us_max FROM blocks_1h FINAL")
    assert blocks.result_rows == [(720, 36_000.0, 40.0, 149.0)]


def test_any_clock_is_rolled(empty: Client) -> None:
    for seq, ts_ms in enumerate((0, TICK, 4_102_444_800_000)):
        store(empty, msgspec.structs.replace(frame(seq), ts_ms=ts_ms))
    Roller(empty, TEN).roll_all()
    assert empty.query("SELECT count(), sum(samples) FROM gpu_10s FINAL").result_rows == [(6, 6)]


def test_spans_are_bounded_and_break_where_windows_do() -> None:
    assert list(spans([], 10)) == []
    assert list(spans(range(0, 1500, 10), 10)) == [(0, 600), (600, 1200), (1200, 1500)]
    assert list(spans([0, 3600, 10_800], 3600)) == [(0, 3600), (3600, 7200), (10_800, 14_400)]


def test_an_error_is_counted_and_the_next_turn_goes_on(empty: Client, clickhouse: ClickHouse) -> None:
    store(empty, *(frame(seq) for seq in range(10)))
    counters, stop = Counters(), threading.Event()
    empty.command("RENAME TABLE roll_marks TO away")
    own = msgspec.structs.replace(clickhouse, clickhouse_database="rolled")
    with contextlib.closing(get_client(own)) as client:
        thread = threading.Thread(target=keep_rolling, args=(client, counters, SystemClock(), stop))
        thread.start()
        until = SystemClock().monotonic() + 30
        while counters.totals().get("errors{roll}", 0) < len(ROLLUPS):
            assert SystemClock().monotonic() < until
            stop.wait(0.02)
        stop.set()
        thread.join(30)
    empty.command("RENAME TABLE away TO roll_marks")
    Roller(empty, TEN).roll_all()
    assert windows(empty) == truth(range(10))
