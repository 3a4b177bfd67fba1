"""A simulated fleet with one weak GPU through the whole product on a real Kafka, undisturbed and with kills.

Both runs simulate the same seconds of the same fleet, so what ClickHouse holds afterwards must be the same rows. How
long an incident takes into ClickHouse by the clock depends on the machine: `bench/found.py` measures it.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from whole_product import CLUSTER, Product, whole_product

from runtime.groups import WRITER
from runtime.settings import ClickHouse
from schemas import Incident
from simulator.fleet import truth_of
from simulator.settings import FleetSettings

START_MS = 1_790_000_000_000
ONSET_S, LASTS_S = 50, 30
TICKS, TICKS_WITH_KILLS = 175, 240
"""A worker that was killed closes nothing for a minute from where it goes on, which is late on a slow machine."""

COMPARED_MS = START_MS + 170_000
"""Both runs have all rows up to here."""

FLEET: dict[str, Any] = {
    "racks": 2,
    "trays": 4,
    "job_size": 32,
    "fault": "gpu_degraded",
    "target": "21",
    "severity": 1.4,
    "onset_s": ONSET_S,
    "duration_s": LASTS_S,
    "speed": 2,
    "start_ms": START_MS,
    "seed": 11,
}
GPUS = 2 * 4 * 4
RAW = ("node-frames", "collectives", "steps", "rack-frames")

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


class Outcome(NamedTuple):
    """What is left after a run: hash and count of the raw rows by table, the newest revision of each incident."""

    raw: dict[str, Sequence[int]]
    incidents: list[Incident]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Outcomes of this module's runs, for the comparison at its end."""
    return {}


def test_a_weak_gpu_becomes_one_incident_one_page_and_one_resolve(
    clickhouse_database: ClickHouse, outcomes: dict[str, Outcome]
) -> None:
    with whole_product(clickhouse_database, [202]) as product:
        product.simulate(**FLEET, ticks=TICKS)
        _until_found(product)
        _until_over(product, TICKS)
        outcome = outcomes["undisturbed"] = _outcome(product)
        _assert_right(product, outcome, TICKS)


def test_kill_9_of_worker_writer_and_alerts_changes_nothing_that_counts(
    clickhouse_database: ClickHouse, outcomes: dict[str, Outcome]
) -> None:
    # The receiver loses one answer and refuses twice, while the processes die around the moments that matter.
    with whole_product(clickhouse_database, [500, "lost", 429, 202]) as product:
        product.simulate(**FLEET, ticks=TICKS_WITH_KILLS)
        product.until(lambda: product.position_ms() > START_MS + 20_000, "warm-up", 90)
        product.kill("worker", "writer", "alerts")
        product.until(lambda: product.position_ms() > START_MS + (ONSET_S + 2) * 1000, "onset", 120)
        product.kill("worker", "writer")
        _until_found(product)
        product.kill("alerts", "worker", "writer")
        time.sleep(0.5)
        _until_over(product, TICKS_WITH_KILLS)
        outcome = _outcome(product)
        _assert_right(product, outcome, TICKS_WITH_KILLS)
    if "undisturbed" not in outcomes:
        pytest.skip("the undisturbed run is missing, nothing to compare with")
    assert outcome.raw == outcomes["undisturbed"].raw


def _until_found(product: Product) -> None:
    product.until(lambda: bool(product.incidents()), "an incident", 180)


def _until_over(product: Product, ticks: int) -> None:
    product.until(product.fleet_done, "the fleet's last tick", 200)
    product.until(lambda: _scores(product) >= ticks * GPUS, "a score for every sample", 180)
    product.until(lambda: not product.unread(WRITER, RAW), "every raw record in ClickHouse", 60)
    product.until(lambda: all(i.state == "resolved" for i in product.incidents()), "the incident resolved", 60)
    product.until(lambda: bool(product.receiver.closed), "the page resolved", 90)


def _scores(product: Product) -> int:
    return int(product.one("SELECT uniqExact(node, run_id, seq, gpu) FROM gpu_scores"))


def _outcome(product: Product) -> Outcome:
    raw: dict[str, Sequence[int]] = {}
    for table in ("gpu_samples", "host_samples", "collective_operations", "steps", "loop_samples"):
        columns = product.one(
            "SELECT arrayStringConcat(groupArray(name), ', ') FROM system.columns"
            " WHERE database = currentDatabase() AND table = {table:String} AND name != 'stored_at'",
            {"table": table},
        )
        (raw[table],) = product.client.query(
            f"SELECT sum(cityHash64({columns})), count() FROM {table} FINAL"
            f" WHERE toUnixTimestamp64Milli(ts) < {COMPARED_MS}"
        ).result_rows
    return Outcome(raw, product.incidents())


def _assert_right(product: Product, outcome: Outcome, ticks: int) -> None:
    truth = truth_of(FleetSettings(**FLEET, ticks=ticks))
    (incident,) = outcome.incidents
    (culprit,) = incident.culprits
    assert (culprit.rank, culprit.node, culprit.gpu) == (truth.rank, truth.node, truth.gpu), _history(product)
    assert (incident.cause, incident.cluster) == ("gpu_degraded", CLUSTER), _history(product)
    assert 0 <= incident.detected_ms - (truth.onset_ms or 0) <= 10_000
    assert int(product.one("SELECT count() FROM gpu_samples FINAL")) == ticks * GPUS
    assert int(product.one("SELECT count() FROM gpu_scores FINAL")) == _scores(product) == ticks * GPUS
    assert int(product.one("SELECT uniqExact(id) FROM incidents")) == 1
    assert product.receiver.opened == [incident.id]
    assert product.receiver.closed == [incident.id]
    assert product.receiver.refused == []


def _history(product: Product) -> str:
    """Every word said of the fault, for whoever reads a failure."""
    said = product.client.query(
        "SELECT (toUnixTimestamp64Milli(ts) - {start:Int64}) / 1000, detector, state, scope, cause, confidence,"
        " summary, evidence.text FROM findings FINAL WHERE state != 'heartbeat' ORDER BY ts, revision",
        parameters={"start": START_MS},
    ).result_rows
    return "\n".join(" ".join(str(value) for value in row) for row in said)
