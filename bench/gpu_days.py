"""Twenty GPU-days at 1 Hz with 40 metrics, made of noise as sensors give it: watts to the milliwatt, whole degrees and
per cent, clocks in steps of 15 MHz, traffic that is never the same, counters that stand still."""

import numpy as np
from clickhouse_connect.driver.client import Client

from schemas.matrix import Float32
from schemas.metrics import names
from storage.native import Numbers, Packed, block, compressed, words
from storage.roll import SETTINGS
from storage.rollups import ROLLUPS

START_MS = 1_793_534_400_000
GPUS, SECONDS, PER_NODE = 20, 86_400, 4
JOB = "slurm:bench/1/0"
SHARED = ("power_w", "temperature_c", "sm_clock_mhz", "gpu_utilization_pct")
"""The metrics that other databases are given too."""

METRICS = (*SHARED, *(name for name in names("gpu") if name not in SHARED))[:40]


def node(gpu: int) -> str:
    return f"n{gpu // PER_NODE}"


def series(gpu: int, metric: str, seconds: int = SECONDS) -> Float32:
    """One metric of one GPU, a value a second; the same whenever it is asked for."""
    noise = np.random.default_rng([gpu, METRICS.index(metric)])
    slow = np.sin(np.arange(seconds) / 900 + gpu)
    if metric.endswith("_w"):
        made = np.round(700 + 40 * slow + noise.normal(0, 8, seconds), 3)
    elif metric.endswith("_c"):
        made = np.round(60 + 4 * slow + noise.normal(0, 0.4, seconds))
    elif metric.endswith("_mhz"):
        made = 1980 - 15 * noise.integers(0, 4, seconds)
    elif metric.endswith("_pct"):
        made = np.clip(np.round(97 + noise.normal(0, 2, seconds)), 0, 100)
    elif metric.endswith("_per_s"):
        made = noise.exponential(4e10, seconds)
    else:
        made = np.zeros(seconds)
    return made.astype(np.float32)


def fill(client: Client, now_ms: int) -> None:
    """The days into gpu_samples, an insert a GPU, as if the last second had been stored now; and a score a second."""
    for gpu in range(GPUS):
        same = np.zeros(SECONDS, np.int64)
        constant = {"cluster": "bench", "node": node(gpu), "rack": "r1", "gpu": f"GPU-{gpu}", "job": JOB}
        columns: dict[str, tuple[str, Packed]] = {
            name: ("LowCardinality(String)", words([word]).take(same)) for name, word in constant.items()
        }
        columns["ts"] = "DateTime64(3, 'UTC')", Numbers(START_MS + 1000 * np.arange(SECONDS))
        columns["stored_at"] = "DateTime64(3, 'UTC')", Numbers(now_ms - 1000 * np.arange(SECONDS)[::-1])
        columns["seq"] = "UInt64", Numbers(np.arange(SECONDS))
        columns["run_id"] = "UInt64", Numbers(same + 1)
        columns["slot"] = "UInt64", Numbers(same + gpu % PER_NODE)
        columns["rank"] = "UInt64", Numbers(same + gpu)
        columns |= {metric: ("Float32", Numbers(series(gpu, metric))) for metric in METRICS}
        made = block(list(columns), [kind for kind, _ in columns.values()], [c for _, c in columns.values()], SECONDS)
        statement = f"INSERT INTO gpu_samples ({', '.join(columns)}) FORMAT Native\n".encode()
        client.raw_insert("", insert_block=compressed(statement + made), compression="lz4")
        client.command(
            "INSERT INTO gpu_scores (cluster, ts, node, run_id, seq, place, rack, job, gpu, rank, score, p_value,"
            " strongest) SELECT cluster, ts, node, run_id, seq, slot, rack, job, gpu, rank, 0.4 + rand() % 100 / 500,"
            " rand() / 4294967295, ['power_w', 'temperature_c'] FROM gpu_samples WHERE cluster = 'bench'"
            f" AND node = '{node(gpu)}' AND gpu = 'GPU-{gpu}'"
        )


def roll(client: Client, hours: int = 4) -> None:
    """Their roll-ups of a minute and an hour."""
    for name in ("gpu_1m", "gpu_1h"):
        for hour in range(0, SECONDS // 3600, hours):
            begin = START_MS + 3_600_000 * hour
            bounds = {"from": begin, "until": begin + 3_600_000 * hours}
            client.command(ROLLUPS[name].insert(), parameters=bounds, settings=SETTINGS)


def years(client: Client, gpus: int = 200, days: int = 10) -> None:
    """Roll-ups of a minute in place of the days' own: 2,000 GPU-days."""
    client.command("TRUNCATE TABLE gpu_1m")
    for day in range(days):
        for first in range(0, gpus, 50):
            client.command(
                "INSERT INTO gpu_1m (cluster, node, gpu, ts, job, samples, rack, rank, power_w, power_w_min,"
                " power_w_max, temperature_c, nvlink_tx_bytes_per_s, nvlink_rx_bytes_per_s)"
                f" SELECT 'bench', concat('n', toString(intDiv(g, 4))), concat('GPU-', toString({first} +"
                " intDiv(number, 1440) AS g)),"
                f" toDateTime64({START_MS // 1000 + 86_400 * day} + 60 * (number % 1440), 3, 'UTC'), '{JOB}', 60,"
                " concat('r', toString(intDiv(g, 72))), g, 700 + rand() % 200, 600, 900, 50 + rand() % 20,"
                " rand() % 1000 * 1e8, rand() % 1000 * 1e8 FROM numbers(72000)"
            )
