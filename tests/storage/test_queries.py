"""The product's own reads, and the SQL it shows to people: all of it runs."""

import itertools

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store

from schemas import Finding, Incident, NodeFrame
from schemas.examples import EXAMPLES
from schemas.finding import Subject
from schemas.frame import Gpu
from schemas.matrix import Matrix
from storage.queries import fleet_now, incidents, look_further

clusters = (f"queries-{n}" for n in itertools.count())
INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
TICK = INCIDENT.ts_ms


def test_incidents_come_as_their_newest_revision_with_evidence(database: Client) -> None:
    cluster = next(clusters)
    opened = msgspec.structs.replace(INCIDENT, cluster=cluster, revision=0, state="suspect")
    resolved = msgspec.structs.replace(
        opened, revision=2, state="resolved", change="resolve", resolved_ms=TICK, ts_ms=TICK + 60_000
    )
    other = msgspec.structs.replace(opened, id="i-other", detected_ms=opened.detected_ms + 1)
    store(database, resolved, opened, other, msgspec.structs.replace(opened, revision=1))
    assert incidents(database, cluster=cluster) == [other, resolved]
    assert incidents(database, cluster=cluster, open_only=True) == [other]
    assert incidents(database, cluster=cluster, since_ms=other.detected_ms) == [other]
    assert incidents(database, cluster=cluster, limit=1) == [other]
    assert incidents(database, cluster="nowhere") == []
    assert other.evidence


def test_fleet_now_is_the_last_sample_by_the_agents_numbering(database: Client) -> None:
    cluster = next(clusters)

    def sample(node: str, run_id: int, seq: int, ts_ms: int, power_w: float) -> NodeFrame:
        matrix = Matrix.of([f"GPU-{node}"], ["power_w"], [[power_w]])
        return NodeFrame(cluster=cluster, ts_ms=ts_ms, node=node, run_id=run_id, seq=seq, sections={"gpu": matrix})

    # The clock of node a stepped back between its first and second sample, node b's agent was restarted.
    store(database, sample("a", 1, 1, TICK + 9000, 1), sample("a", 1, 2, TICK, 2), sample("b", 1, 99, TICK, 3))
    store(database, sample("b", 2, 1, TICK, 4))
    now = {row["gpu"]: row["power_w"] for row in fleet_now(database) if row["cluster"] == cluster}
    assert now == {"GPU-a": 2.0, "GPU-b": 4.0}


def test_the_sql_of_a_culprit_shows_it_beside_its_peers(database: Client) -> None:
    cluster = next(clusters)
    uuids = ["GPU-1", "GPU-2", "GPU-3"]
    gpus = tuple(Gpu(uuid=uuid, job="it's a job", rank=i) for i, uuid in enumerate(uuids))
    values = [[1200.0, 400.0], [1900.0, float("nan")], [1800.0, 700.0]]
    matrix = Matrix.of(uuids, ["sm_clock_mhz", "power_w"], values)
    frame = NodeFrame(cluster=cluster, ts_ms=0, node="n", run_id=1, seq=0, gpus=gpus, sections={"gpu": matrix})
    store(database, *(msgspec.structs.replace(frame, seq=seq, ts_ms=TICK + 1000 * seq) for seq in range(12)))
    culprit = Subject(scope="rank", job="it's a job", rank=0, node="n", gpu="GPU-1")
    found = list(database.query(look_further(cluster, culprit, TICK, TICK + 60_000)).named_results())
    assert [(row["culprit_sm_clock_mhz"], row["peers_sm_clock_mhz"]) for row in found] == [(1200.0, 1850.0)] * 3
    assert (found[0]["culprit_power_w"], found[0]["peers_power_w"]) == (400.0, 700.0)
    assert found[0]["culprit_temperature_c"] is None


@pytest.mark.parametrize(
    ("subject", "table"),
    [
        (Subject(scope="gpu", node="n", gpu="GPU-1"), "gpu_samples"),
        (Subject(scope="rank", job="j", rank=0), "collective_operations"),
        (Subject(scope="node", node="n"), "events"),
        (Subject(scope="link", node="n", link="mlx5_0/1"), "events"),
        (Subject(scope="rack", rack="r01"), "loop_samples"),
        (Subject(scope="job", job="j"), "findings"),
        (Subject(scope="cluster"), "findings"),
    ],
)
def test_the_sql_of_every_scope_runs(database: Client, subject: Subject, table: str) -> None:
    sql = look_further("c", subject, TICK, TICK + 1000)
    assert f"FROM {table} FINAL" in sql
    database.query(sql)


def test_the_findings_of_a_job_are_found_by_its_sql(database: Client) -> None:
    finding = next(e for e in EXAMPLES if isinstance(e, Finding))
    sent = msgspec.structs.replace(finding, cluster=next(clusters))
    store(database, sent)
    sql = look_further(sent.cluster, Subject(scope="job", job=sent.subject.job), sent.ts_ms, sent.ts_ms)
    (row,) = database.query(sql).named_results()
    assert (row["id"], row["rank"], row["cause"]) == (sent.id, 7, "gpu_degraded")
