"""What the history costs: insert rate, bytes on disk, time until rows can be asked for, time of the named questions.

    PYTHONPATH=tests/support:. python -m bench.storage [--part rate] [--broker HOST:PORT]

Kafka is `--broker`, else a local JVM as in the tests; ClickHouse is the embedded engine in a process of its own. The
load is what the agents of a simulated rack of 72 GPUs send, made beforehand. On a busy machine compare figures of one
run with each other: the plain client's rate stands beside the writer's for that.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from clickhouse_provider import engine
from local_kafka import local_kafka

from lockstep.fleet import Agents
from runtime.health import Counters
from runtime.kafka import Producer, create_topics, wait_for_broker
from runtime.settings import ClickHouse, Connection
from schemas import NodeFrame
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings
from storage.ask import answer
from storage.client import Client, get_client
from storage.columns import columns
from storage.insert import put
from storage.migrate import migrate
from storage.questions import QUESTIONS, arguments
from storage.roll import Roller
from storage.rollups import ROLLUPS
from storage.tables import BY_RECORD

ROOT = Path(__file__).resolve().parents[1]
START_MS = 1_793_534_400_000
TICKS, GPUS = 300, 72
JOB = "slurm:bench/1/0"


def load(ticks: int) -> list[NodeFrame]:
    """The node frames of a rack's agents, tick by tick."""
    fleet = SimulatedFleet(FleetSettings(racks=1, job_size=GPUS, start_ms=START_MS), "bench", START_MS)
    made: list[NodeFrame] = []
    with tempfile.TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        for _ in range(ticks):
            made += [record for record in agents.tick() if isinstance(record, NodeFrame)]
    return made


def readings(frames: list[NodeFrame]) -> int:
    """Metric values that are there (not NaN), over all sections."""
    import numpy as np

    return sum(int(np.isfinite(m.values()).sum()) for frame in frames for m in frame.sections.values())


@contextlib.contextmanager
def writer(connection: Connection, clickhouse: ClickHouse) -> Iterator["subprocess.Popen[bytes]"]:
    """The writer as a process."""
    told = msgspec.to_builtins(connection) | msgspec.to_builtins(clickhouse)
    environment = os.environ | {f"LOCKSTEP_{k.upper()}": str(v) for k, v in told.items() if v != ""}
    process = subprocess.Popen([sys.executable, "-m", "lockstep", "writer"], cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def count(client: Client) -> int:
    return int(client.query("SELECT count() FROM gpu_samples").result_rows[0][0])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(connection: Connection, clickhouse: ClickHouse, client: Client) -> None:
    """Everything on the topic first, then the writer: from its first row to its last."""
    frames = load(TICKS)
    values, samples = readings(frames), TICKS * GPUS
    producer = Producer(connection, "bench", Counters(), bound=len(frames) + 10)
    for frame in frames:
        producer.send_record(frame)
    assert producer.flush(120)
    producer.close(5)
    with writer(connection, clickhouse) as process:
        while not count(client):
            time.sleep(0.02)
        began, cpu_began, already = time.perf_counter(), cpu_s(process.pid), count(client)
        while (now := count(client)) < samples:
            time.sleep(0.05)
        took, cpu = time.perf_counter() - began, cpu_s(process.pid) - cpu_began
    there = values * (now - already) / samples
    print(f"writer          {rates(there, took, cpu)}; {values / samples:.0f} values a GPU sample")
    client.command("TRUNCATE TABLE gpu_samples")
    began, cpu_before = time.perf_counter(), time.process_time()
    plain(client, frames)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu_before
    print(f"plain client    {rates(values, took, cpu)}; no Kafka, no decoding")


def rates(values: float, took_s: float, spent_s: float) -> str:
    by_cpu = values / spent_s / 1e6
    return f"{values / took_s / 1e6:.2f} million values/s by the clock, {by_cpu:.2f} per second of its processor time"


def plain(client: Client, frames: list[NodeFrame]) -> None:
    """The same rows by the same client, in inserts of the writer's size."""
    for table in BY_RECORD[NodeFrame]:
        for start in range(0, len(frames), 1000):
            put(client, table, columns(table, frames[start : start + 1000]))


def size(client: Client) -> None:
    """Bytes on disk for what the rack's GPUs sent, after a merge."""
    frames = load(TICKS)
    plain(client, frames)
    Roller(client, {n: r for n, r in ROLLUPS.items() if n.startswith("gpu")}).roll_all()
    sample_values = sum(int(f.sections["gpu"].values().size) for f in frames)
    for table in ("gpu_samples", "gpu_10s", "gpu_1m"):
        client.command(f"OPTIMIZE TABLE {table} FINAL")
        (disk, rows), = client.query(
            "SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND table = {t:String}"
            " AND database = currentDatabase()", parameters={"t": table},
        ).result_rows  # fmt: skip
        a_day = {"gpu_samples": 86_400, "gpu_10s": 8640, "gpu_1m": 1440}[table]
        note = ""
        if table == "gpu_samples":
            per = sample_values / rows
            note = f", {per:.0f} metrics each; at 40 metrics {disk / rows / per * 40 * a_day / 1e6:.2f} MB"
        print(f"{table:15} {disk / rows:6.1f} bytes a row, {disk / rows * a_day / 1e6:6.2f} MB a GPU-day{note}")


def latency(connection: Connection, clickhouse: ClickHouse, client: Client, seconds: int = 40) -> None:
    """From the moment a tick's last frame is sent until all its samples can be read."""
    frames = load(seconds)
    ticks = [frames[n : n + len(frames) // seconds] for n in range(0, len(frames), len(frames) // seconds)]
    sent: dict[int, float] = {}
    seen: dict[int, float] = {}
    producer = Producer(connection, "bench", Counters(), bound=10_000)
    with writer(connection, clickhouse):
        began = time.monotonic()
        while len(seen) < len(ticks) and time.monotonic() - began < 3 * seconds + 60:
            due = int(time.monotonic() - began - 8)  # the writer joins its group first
            while len(sent) < min(len(ticks), due):
                tick = ticks[len(sent)]
                for frame in tick:
                    producer.send_record(frame)
                sent[tick[0].ts_ms] = time.monotonic()
            rows = client.query("SELECT toUnixTimestamp64Milli(ts), count() FROM gpu_samples GROUP BY ts").result_rows
            now = time.monotonic()
            seen |= {ts: now for ts, n in rows if n >= GPUS and ts in sent and ts not in seen}
            time.sleep(0.03)
    producer.close(5)
    late = sorted(seen[ts] - sent[ts] for ts in seen)
    print(f"latency         p50 {statistics.median(late):.2f} s, p99 {late[int(0.99 * (len(late) - 1))]:.2f} s of "
          f"{len(late)} ticks at 1 Hz (batches of 2 s)")  # fmt: skip


def questions(client: Client) -> None:
    """Ten named questions over 20 GPU-days at 1 Hz, and roll-ups over 2,000 GPU-days of 1-minute windows."""
    for hour in range(24):
        client.command(
            "INSERT INTO gpu_samples (cluster, ts, node, run_id, seq, rack, gpu, slot, job, rank, power_w,"
            " temperature_c, sm_clock_mhz, nvlink_tx_bytes_per_s, nvlink_rx_bytes_per_s, nvlink_error_count,"
            " ecc_dbe_count)"
            f" SELECT 'bench', toDateTime64({START_MS // 1000} + intDiv(number, 20), 3, 'UTC'),"
            " concat('n', toString(intDiv(number % 20, 4))), 1, intDiv(number, 20), 'r1',"
            f" concat('GPU-', toString(number % 20)), number % 4, '{JOB}', number % 20, 700 + rand() % 200,"
            " 50 + rand() % 20, 1900 + rand() % 5 * 15, rand() % 1000 * 1e8, rand() % 1000 * 1e8, 0, 0"
            f" FROM numbers({hour * 72_000}, 72000)"
        )
    began = time.perf_counter()
    Roller(client, {n: r for n, r in ROLLUPS.items() if n.startswith("gpu")}).roll_all()
    print(f"roll-ups        20 GPU-days into 10 s, 1 min and 1 h in {time.perf_counter() - began:.1f} s")
    asked = {"at": "2026-11-02 13:00:00", "job": JOB, "incident": "none", "gpu": ""}
    names = ("fleet-now", "worst-gpus", "bus-bandwidth", "time-lost", "rack-nvlink", "rack-cooling", "gpus-by-risk",
             "mtbf", "job-timeline", "before-incident")  # fmt: skip
    for name in names:
        given = arguments(name, {k: v for k, v in asked.items() if k in QUESTIONS[name].parameters}, START_MS)
        spent = timed(client, QUESTIONS[name].sql, given)
        print(f"question        {name:18} {spent * 1000:7.0f} ms over 20 GPU-days")
    for words, sql in (
        ("mean power a minute, raw", "SELECT toStartOfMinute(ts) t, avg(power_w) FROM gpu_samples FINAL GROUP BY t"),
        ("the same from gpu_1m", "SELECT ts, avg(power_w) FROM gpu_1m FINAL GROUP BY ts"),
    ):
        print(f"ratio           {words:26} {timed(client, sql, {}) * 1000:7.0f} ms")
    client.command("TRUNCATE TABLE gpu_1m")
    for day in range(10):
        client.command(
            "INSERT INTO gpu_1m (cluster, node, gpu, ts, job, samples, rack, rank, power_w, power_w_min, power_w_max)"
            " SELECT 'bench', concat('n', toString(intDiv(number % 200, 4))), concat('GPU-', toString(number % 200)),"
            f" toDateTime64({START_MS // 1000} + 60 * intDiv(number, 200), 3, 'UTC'), '{JOB}', 60,"
            " concat('r', toString(intDiv(number % 200, 72))), number % 200, 700 + rand() % 200, 600, 900"
            f" FROM numbers({day * 288_000}, 288000) SETTINGS max_insert_block_size = 50000, max_block_size = 50000,"
            " min_insert_block_size_rows = 50000"
        )
    for name in ("time-lost", "rack-nvlink", "mtbf"):
        given = arguments(name, {k: v for k, v in asked.items() if k in QUESTIONS[name].parameters}, START_MS)
        print(
            f"question        {name:18} {timed(client, QUESTIONS[name].sql, given) * 1000:7.0f} ms over 2,000 GPU-days"
        )
    sql = "SELECT ts, power_w FROM gpu_1m FINAL WHERE cluster = 'bench' AND node = 'n7' AND gpu = 'GPU-29'"
    print(f"question        {'one GPU, 10 days':18} {timed(client, sql, {}) * 1000:7.0f} ms over 2,000 GPU-days")


def timed(client: Client, sql: str, given: dict[str, str]) -> float:
    """Best of three, seconds."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        for _piece in answer(client, lambda: client, sql, "Native", given):
            pass
        spent.append(time.perf_counter() - began)
    return min(spent)


@contextlib.contextmanager
def database(settings: ClickHouse, name: str) -> Iterator[tuple[ClickHouse, Client]]:
    """A migrated database of a part's own."""
    with contextlib.closing(get_client(settings, database=False)) as client:
        migrate(client, name)
    here = msgspec.structs.replace(settings, clickhouse_database=name)
    with contextlib.closing(get_client(here, timeout_s=600)) as client:
        yield here, client


def main() -> None:
    """Run the parts, each on a database of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.storage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--part", choices=["size", "questions", "rate", "latency"], action="append")
    parser.add_argument("--broker", help="a real Kafka; else a local JVM")
    given = parser.parse_args()
    parts = given.part or ["size", "questions", "rate", "latency"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held, engine(Path(folder)) as settings:
        connection = Connection()
        if {"rate", "latency"} & set(parts):
            address = given.broker or held.enter_context(local_kafka()).address
            connection = Connection(broker=address)
            wait_for_broker(connection, 60)
        for part in parts:
            with database(settings, f"bench_{part}") as (here, client):
                if part == "size":
                    size(client)
                elif part == "questions":
                    questions(client)
                else:
                    create_topics(connection, 4, 1)
                    (rate if part == "rate" else latency)(connection, here, client)


if __name__ == "__main__":
    main()
