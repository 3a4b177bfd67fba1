"""What the embedded engine's HTTP costs: inserts, queries and memory, beside the same client without HTTP.

    python bench/embedded_engine.py

200,000 rows of 20 Float32 columns, in inserts of 20,000 rows; then small queries one after another. Both engines in
turns in one run: the one behind HTTP in its own process, the other in this one. On a busy machine compare the best
figures: what others take of the processor only ever makes a figure worse.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import clickhouse_connect
import numpy as np
from clickhouse_connect.driver.client import Client

ROWS, COLUMNS, BATCH, ROUNDS, QUERIES = 200_000, 20, 20_000, 12, 300
NAMES = ["n", *(f"c{column}" for column in range(COLUMNS))]
TYPES = ["UInt32", *["Float32"] * COLUMNS]


def memory_mb(pid: int) -> str:
    """Resident memory and, of it, what is the process's own and not its files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if "Rss" in name
    }
    total = sum(kilobytes.values())
    return f"{total / 1024:.0f} MB ({kilobytes['RssAnon'] / 1024:.0f} MB anonymous)"


def insert(client: Client, data: np.ndarray) -> float:
    """Rows per second, the table made anew."""
    declared = ", ".join(f"{name} {type}" for name, type in zip(NAMES, TYPES, strict=True))
    client.command(f"CREATE OR REPLACE TABLE wide ({declared}) ENGINE = MergeTree ORDER BY n")
    began = time.perf_counter()
    for start in range(0, ROWS, BATCH):
        part = [np.arange(start, start + BATCH, dtype=np.uint32), *data[:, start : start + BATCH]]
        client.insert("wide", part, NAMES, column_type_names=TYPES, column_oriented=True)
    return ROWS / (time.perf_counter() - began)


def latency_ms(client: Client, query: str) -> tuple[float, float]:
    """Best and median of `query`."""
    spent = []
    for _ in range(QUERIES):
        began = time.perf_counter()
        client.query(query)
        spent.append(time.perf_counter() - began)
    return min(spent) * 1e3, statistics.median(spent) * 1e3


def main() -> None:
    data = np.random.default_rng(1).normal(size=(COLUMNS, ROWS)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "storage.engine", "--data", f"{folder}/http", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            print(f"idle            {memory_mb(process.pid)}")
            clients = {
                "HTTP": clickhouse_connect.get_client(host="127.0.0.1", port=port, autogenerate_session_id=False),
                "HTTP session": clickhouse_connect.get_client(host="127.0.0.1", port=port),
                "in process": clickhouse_connect.get_client(interface="chdb", path=f"{folder}/inside"),
            }
            rates: dict[str, list[float]] = {name: [] for name in clients}
            for _ in range(ROUNDS):
                for name, client in clients.items():
                    rates[name].append(insert(client, data))
            for name, found in rates.items():
                print(
                    f"insert  {name:14} best {max(found):9,.0f} rows/s  median {statistics.median(found):9,.0f} rows/s"
                )
            print(f"after inserts   {memory_mb(process.pid)}")
            for query in (
                "SELECT 1",
                "SELECT avg(c0), max(c1) FROM wide WHERE n > 100000",
                "SELECT * FROM wide LIMIT 2000",
            ):
                for name, client in clients.items():
                    best, median = latency_ms(client, query)
                    print(f"{query[:30]:30}  {name:14} best {best:6.2f} ms  median {median:6.2f} ms")
            print(f"after queries   {memory_mb(process.pid)}")
            for client in clients.values():
                with closing(client):
                    pass
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
