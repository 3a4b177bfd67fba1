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
from clickhouse_provider import published_port, start_engine
from clickhouse_rows import store
from local_kafka import local_kafka
from sample_history import INCIDENT, history

from bench import gpu_days, peers
from lockstep.fleet import Agents
from runtime.health import Counters
from runtime.kafka import Producer, create_topics, wait_for_broker
from runtime.settings import ClickHouse, Connection
from schemas import NodeFrame
from schemas.metrics import names
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
TICKS, GPUS = 120, 72
AGAIN = 30
"""How often the load is sent, each time later: a rate wants a backlog of more than a few batches."""
ROOMY = {"LOCKSTEP_ENGINE_MEMORY_MB": "6000", "LOCKSTEP_ENGINE_QUERY_MEMORY_MB": "3000"}
"""The data is made by statements that are larger than any that the product runs."""


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


def rate(connection: Connection, clickhouse: ClickHouse, client: Client, pid: int) -> None:
    """Everything on the topic first, then the writer: from its first row to its last."""
    frames = load(TICKS)
    values, samples = readings(frames) * AGAIN, TICKS * GPUS * AGAIN
    counters = Counters()
    producer = Producer(connection, "bench", counters, bound=len(frames) + 10)
    for turn in range(AGAIN):
        for frame in frames:
            later = frame.ts_ms + 1000 * TICKS * turn
            producer.send_record(msgspec.structs.replace(frame, ts_ms=later, seq=frame.seq + 1_000_000 * turn))
        assert producer.flush(300)
    producer.close(5)
    assert not any(name.startswith(("dropped", "errors")) for name in counters.totals()), counters.totals()
    with writer(connection, clickhouse) as process:
        while not count(client):
            time.sleep(0.02)
        already, began, cpu, engine_cpu = count(client), time.perf_counter(), cpu_s(process.pid), cpu_s(pid)
        while (now := count(client)) < samples:
            time.sleep(0.2)
        spent = time.perf_counter() - began, cpu_s(process.pid) - cpu, cpu_s(pid) - engine_cpu
    there = values * (now - already) / samples
    clock, own, engine = (there / seconds / 1e6 for seconds in spent)
    print(f"writer          {clock:.2f} million values/s by the clock; {own:.2f} per second of the writer's processor, "
          f"{engine:.2f} of the engine's; {values / samples:.0f} values a GPU sample", flush=True)  # fmt: skip


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


def questions(client: Client, pid: int) -> None:
    """Ten named questions over 20 GPU-days at 1 Hz; what others can answer of it; roll-ups of 2,000 GPU-days."""
    began, cpu = time.perf_counter(), cpu_s(pid)
    gpu_days.fill(client, int(time.time() * 1000))
    took(began, cpu, pid, "20 GPU-days at 1 Hz inserted, 40 metrics and a score")
    began, cpu = time.perf_counter(), cpu_s(pid)
    gpu_days.roll(client)
    took(began, cpu, pid, "their roll-ups of a minute and an hour")
    store(client, *history())
    for name in QUESTIONS_ASKED:
        said(name, client, pid, QUESTIONS[name].sql, "over 20 GPU-days", **asked(name))
    ours = {words: said(words, client, pid, sql, "raw") for words, sql in peers.OURS.items()}
    said(
        "mean power a minute, all", client, pid, "SELECT ts, avg(power_w) FROM gpu_1m FINAL GROUP BY ts", "from gpu_1m"
    )
    client.command("OPTIMIZE TABLE gpu_samples FINAL")
    own = bytes_a_value(client)
    print(f"disk            {own * 40 * 86_400 / 1e6:.2f} MB a GPU-day of 40 metrics; the four shared ones below")
    with tempfile.TemporaryDirectory() as folder:
        for peer in peers.compare(Path(folder), cpu_s):
            if isinstance(peer, str):
                print(peer)
                continue
            mine = shared_bytes_a_value(client)
            print(f"{peer.name:15} {peer.bytes_a_value:.2f} bytes a value, ours {mine:.2f}: "
                  f"{peer.bytes_a_value / mine:.1f} times ours")  # fmt: skip
            for words, spent in peer.spent_s.items():
                print(f"{peer.name:15} {words:26} {spent * 1000:7.0f} ms, ours {ours[words] * 1000:.0f}: "
                      f"{spent / ours[words]:.1f} times ours")  # fmt: skip
    began, cpu = time.perf_counter(), cpu_s(pid)
    gpu_days.years(client)
    took(began, cpu, pid, "2,000 GPU-days of 1-minute roll-ups inserted")
    for name in ("time-lost", "rack-nvlink", "mtbf"):
        said(name, client, pid, QUESTIONS[name].sql, "over 2,000 GPU-days", **asked(name))
    sql = "SELECT ts, power_w FROM gpu_1m FINAL WHERE cluster = 'bench' AND node = 'n7' AND gpu = 'GPU-29'"
    said("one GPU, ten days", client, pid, sql, "over 2,000 GPU-days")
    sql = "SELECT toStartOfHour(ts) AS t, rack, avg(power_w) FROM gpu_1m FINAL GROUP BY t, rack"
    said("power by rack and hour", client, pid, sql, "over 2,000 GPU-days")


TIMES = 3
QUESTIONS_ASKED = ("fleet-now", "worst-gpus", "bus-bandwidth", "time-lost", "rack-nvlink", "rack-cooling",
                   "gpus-by-risk", "mtbf", "job-timeline", "before-incident")  # fmt: skip


def asked(name: str) -> dict[str, str]:
    """What a question is told."""
    given = {"at": "2026-11-02 11:00:00", "job": gpu_days.JOB, "incident": INCIDENT, "gpu": ""}
    return arguments(name, {k: v for k, v in given.items() if k in QUESTIONS[name].parameters}, START_MS + 86_000_000)


def took(began: float, cpu: float, pid: int, what: str) -> None:
    clock = time.perf_counter() - began
    print(
        f"engine          {cpu_s(pid) - cpu:6.1f} s of its processor, {clock:6.1f} s by the clock: {what}", flush=True
    )


def said(words: str, client: Client, pid: int, sql: str, over: str, **given: str) -> float:
    """Ask a few times, print and return the engine's processor time a question, in seconds."""
    before, quickest = cpu_s(pid), min(timed(client, sql, given) for _ in range(TIMES))
    spent = max(cpu_s(pid) - before, 0.01) / TIMES
    times = f"{spent * 1000:7.0f} ms of the engine's processor, {quickest * 1000:7.0f} ms by the clock at best"
    print(f"question        {words:26} {times}, {over}", flush=True)
    return spent


def timed(client: Client, sql: str, given: dict[str, str]) -> float:
    began = time.perf_counter()
    for _piece in answer(client, lambda: client, sql, "Native", given):
        pass
    return time.perf_counter() - began


def bytes_a_value(client: Client) -> float:
    """Of everything in gpu_samples, keys and all."""
    (disk, rows), = client.query("SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND"
                                 " database = currentDatabase() AND table = 'gpu_samples'").result_rows  # fmt: skip
    return float(disk / rows / len(gpu_days.METRICS))


def shared_bytes_a_value(client: Client) -> float:
    """Of the metrics that others have too, with their share of the keys."""
    columns = client.query("SELECT name, data_compressed_bytes FROM system.columns WHERE"
                           " database = currentDatabase() AND table = 'gpu_samples'").result_rows  # fmt: skip
    (rows,), = client.query("SELECT count() FROM gpu_samples").result_rows  # fmt: skip
    known = set(names("gpu"))
    keys = sum(size for name, size in columns if name not in known)
    own = sum(size for name, size in columns if name in gpu_days.SHARED)
    return float((own + keys) / rows / len(gpu_days.SHARED))


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
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        process = start_engine(Path(folder), environment=ROOMY)
        held.callback(process.wait, 30)
        held.callback(process.terminate)
        settings = ClickHouse(clickhouse_port=published_port(process))
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
                    questions(client, process.pid)
                else:
                    create_topics(connection, 4, 1)
                    if part == "rate":
                        rate(connection, here, client, process.pid)
                    else:
                        latency(connection, here, client)


if __name__ == "__main__":
    main()
