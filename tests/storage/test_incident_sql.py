"""The SQL that incidents carry is made without a database; here it meets the tables."""

import itertools

import msgspec
import pytest
from clickhouse_connect.driver.client import Client

from detectors.incident_words import sql
from schemas import Finding
from schemas.examples import EXAMPLES
from schemas.finding import Subject

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
