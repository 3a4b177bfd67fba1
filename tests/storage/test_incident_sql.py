"""The SQL that incidents carry is made without a database; here it meets the tables."""

import itertools

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store

from detectors.drift.gpu import RULES as GPU_RULES
from detectors.drift.rack import RULES as RACK_RULES
from detectors.incident.sql import sql
from schemas import Finding, NodeFrame
from schemas.examples import EXAMPLES
from schemas.finding import Subject
from schemas.frame import Gpu
from schemas.matrix import Matrix

FINDING = next(e for e in EXAMPLES if isinstance(e, Finding))
SUBJECTS = (
    Subject(scope="rank", job="it's", rank=7, node="n", gpu="GPU-7"),
    Subject(scope="gpu", node="n", gpu="GPU-7"),
    Subject(scope="node", node="n"),
    Subject(scope="rack", rack="r01"),
    Subject(scope="job", job="j"),
    Subject(scope="cluster"),
)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.scope)
def test_the_sql_of_an_incident_runs(database: Client, subject: Subject) -> None:
    kinds = ("straggler", "hang", "slow_link", "hardware", "cooling", "imbalance", "degradation")
    for kind, step in itertools.product(kinds, (None, 5)):
        lead = msgspec.structs.replace(FINDING, kind=kind, onset_step=step, subject=subject)
        database.query(sql(lead, (subject,), FINDING.onset_ms, FINDING.ts_ms))


@pytest.mark.parametrize("risk", [rule.detector for rule in (*GPU_RULES, *RACK_RULES)])
def test_the_sql_of_a_risk_runs(database: Client, risk: str) -> None:
    for subject in SUBJECTS:
        lead = msgspec.structs.replace(FINDING, detector=risk, kind="degradation", subject=subject)
        statement = sql(lead, (subject,), FINDING.onset_ms, FINDING.ts_ms)
        assert "GROUP BY hour" in statement
        database.query(statement)


def test_a_culprit_is_shown_beside_its_peers(database: Client) -> None:
    uuids = ["GPU-1", "GPU-2", "GPU-3"]
    gpus = tuple(Gpu(uuid=uuid, job="it's a job", rank=i) for i, uuid in enumerate(uuids))
    values = [[1200.0, 400.0], [1900.0, float("nan")], [1800.0, 700.0]]
    matrix = Matrix.of(uuids, ["sm_clock_mhz", "power_w"], values)
    frame = NodeFrame(cluster="sql-1", ts_ms=0, node="n", run_id=1, seq=0, gpus=gpus, sections={"gpu": matrix})
    tick = FINDING.ts_ms
    store(database, *(msgspec.structs.replace(frame, seq=seq, ts_ms=tick + 1000 * seq) for seq in range(12)))
    culprit = Subject(scope="gpu", job="it's a job", rank=0, node="n", gpu="GPU-1")
    lead = msgspec.structs.replace(FINDING, cluster="sql-1", kind="hardware", subject=culprit)
    found = list(database.query(sql(lead, (culprit,), tick, tick + 60_000)).named_results())
    assert [(row["culprit_sm_clock_mhz"], row["peers_sm_clock_mhz"]) for row in found] == [(1200.0, 1850.0)] * len(
        found
    )
    assert len(found) >= 2
    assert (found[0]["culprit_power_w"], found[0]["peers_power_w"]) == (400.0, 700.0)
    assert found[0]["culprit_temperature_c"] is None


def test_the_findings_of_a_job_are_found(database: Client) -> None:
    sent = msgspec.structs.replace(FINDING, cluster="sql-2")
    store(database, sent)
    job = Subject(scope="job", job=sent.subject.job)
    lead = msgspec.structs.replace(sent, kind="imbalance", subject=job)
    (row,) = database.query(sql(lead, (), sent.ts_ms, sent.ts_ms)).named_results()
    assert (row["id"], row["rank"], row["cause"]) == (sent.id, 7, "gpu_degraded")
