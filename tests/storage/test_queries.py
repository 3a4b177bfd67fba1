"""The product's own reads, and the SQL it shows to people: all of it runs."""

import itertools

import msgspec
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store

from schemas import Incident, NodeFrame
from schemas.examples import EXAMPLES
from schemas.matrix import Matrix
from storage.queries import fleet_now, incidents

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
