"""Real telemetry of a healthy fleet through broker, detection and ClickHouse: every sample once, however fast."""

import subprocess
import sys
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet
from whole_product import Product, whole_product

from runtime.settings import ClickHouse

POWER = Path(__file__).parents[3] / "shared" / "data" / "traces" / "mlperf_power"

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]


def replay(product: Product, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "replay", *arguments],
        env=product.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_sample_of_a_replay_is_stored_once_and_a_second_replay_adds_none(
    clickhouse_database: ClickHouse, tmp_path: Path
) -> None:
    rows = 4_000
    times = [1_700_000_000_000 + 137 * (i // 8) for i in range(rows)]
    table = arrow.table({"time_ms": times, "node": [i % 8 for i in range(rows)], "power_w": [6000.0] * rows})
    path = tmp_path / "power.parquet"
    parquet.write_table(table, path)
    with whole_product(clickhouse_database, [202]) as product:
        for _ in range(2):
            replay(product, str(path), "--map", "power_w=node_power_w", "--run-id", "5")
        product.until(lambda: _count(product, "uniqExact(node, run_id, seq)") == rows, "all samples", 90)
        assert _count(product, "count()") == rows
        assert _count(product, "count() - uniqExact(node, toStartOfSecond(ts))") > 0, "several samples in one second"


@pytest.mark.skipif(not POWER.is_dir(), reason="the MLPerf power traces are not beside the project (shared/data)")
def test_mlperf_runs_of_512_healthy_gpus_at_more_than_100_times_real_time(clickhouse_database: ClickHouse) -> None:
    files = sorted(POWER.glob("llama2*.parquet"))
    samples = sum(parquet.ParquetFile(path).metadata.num_rows for path in files)
    with whole_product(clickhouse_database, [202]) as product:
        said = replay(product, *map(str, files), "--map", "power_w=node_power_w", "--speed", "200")
        assert said.startswith(f"{samples:,} records")
        product.until(lambda: _count(product, "uniqExact(node, run_id, seq)") == samples, "all samples", 120)
        assert _count(product, "count()") == samples
        assert product.one("SELECT round(avg(node_power_w)) FROM host_samples FINAL") > 2000
        told = [incident for incident in product.incidents() if incident.kind != "degradation"]
        assert all(incident.cause == "node_lost" for incident in told), told
        # Whoever is called silent was: whether it is said of the first seconds depends on how soon the worker is there.
        assert {str(culprit.node) for incident in told for culprit in incident.culprits} <= _silent(files)


def _silent(files: list[Path]) -> set[str]:
    """The nodes that have nothing for more than five seconds within one recording."""
    found = set()
    for path in files:
        last: dict[int, int] = {}
        columns = parquet.read_table(path, columns=["time_ms", "node"]).to_pydict()
        for time_ms, node in sorted(zip(columns["time_ms"], columns["node"], strict=True)):
            if time_ms - last.get(node, time_ms) > 5000:
                found.add(str(node))
            last[node] = time_ms
    return found


def _count(product: Product, what: str) -> int:
    return int(product.one(f"SELECT {what} FROM host_samples FINAL"))
