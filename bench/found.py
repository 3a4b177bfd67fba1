"""How long a fault takes from its first effect to its incident in ClickHouse, by the clock and at real time's speed.

    PYTHONPATH=tests/support:. python -m bench.found [--runs 3] [--racks 2] [--trays 4]

The whole product in processes of its own: a simulated fleet, a local Kafka as in the tests, a worker, the writer, the
embedded engine. One GPU turns weak; it counts from the broker's time of the first frame after that to the first answer
in which ClickHouse has the incident, beside the event time that the detectors needed of it: the rest is the way.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import msgspec
from clickhouse_provider import engine
from whole_product import CLUSTER, whole_product

from runtime.kafka import read_topic
from runtime.settings import ClickHouse
from schemas.codec import decode
from storage.client import get_client
from storage.queries import incidents

START_MS, ONSET_S = 1_790_000_000_000, 50


def run(settings: ClickHouse, racks: int, trays: int, seed: int) -> tuple[float, float]:
    """Seconds of event time until it was detected, and of the clock until it was in ClickHouse."""
    gpus = racks * trays * 4
    onset_ms = START_MS + ONSET_S * 1000
    with whole_product(settings, [202]) as product:
        product.simulate(
            racks=racks,
            trays=trays,
            job_size=gpus,
            fault="gpu_degraded",
            target=str(seed * 7 % gpus),
            onset_s=ONSET_S,
            speed=1,
            start_ms=START_MS,
            ticks=ONSET_S + 60,
            seed=seed,
        )
        product.until(lambda: bool(product.incidents()), "an incident", 180)
        seen_ms = time.time() * 1000
        sent = read_topic(product.broker, "node-frames")
        began_ms = min(m.timestamp_ms for m in sent if decode(m.value, "node-frames").ts_ms >= onset_ms)
        with get_client(settings) as client:
            (incident,) = incidents(client, cluster=CLUSTER)
        return (incident.detected_ms - onset_ms) / 1000, (seen_ms - began_ms) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--trays", type=int, default=4)
    given = parser.parse_args()
    for seed in range(1, given.runs + 1):
        with tempfile.TemporaryDirectory() as folder, engine(Path(folder)) as settings:
            database = msgspec.structs.replace(settings, clickhouse_database="default")
            detected_s, found_s = run(database, given.racks, given.trays, seed)
        load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(
            f"detected {detected_s:.1f} s after its effect, in ClickHouse {found_s:.1f} s after it; {load}", flush=True
        )


if __name__ == "__main__":
    main()
