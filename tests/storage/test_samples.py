"""Samples back to frames: in the order they were sent, each once, and the incidents of a period."""

from collections.abc import Callable

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store
from msgspec.structs import replace
from node_frames import T0, node_frame, readings

from runtime.errors import UserError
from schemas import Incident, NodeFrame
from schemas.finding import Subject
from storage.samples import METRICS, extents, frames, incidents_during, newest_ms


def frame(cluster: str, second: int, seq: int) -> NodeFrame:
    return replace(node_frame(second, readings(None, 2)), cluster=cluster, seq=seq)


@pytest.fixture
def cluster(unique: Callable[[str], str]) -> str:
    return unique("samples")


def test_frames_come_back_in_the_order_they_were_sent(database: Client, cluster: str) -> None:
    sent = [frame(cluster, second, seq) for seq, second in enumerate((0, 1, 2, 1, 3700))]  # the clock stepped back once
    store(database, *sent[:3])
    store(database, *sent)
    found = list(frames(database, cluster, "n1", T0, T0 + 3_701_000))
    assert [(one.ts_ms, one.seq) for one in found] == [(one.ts_ms, one.seq) for one in sent]
    assert [gpu.uuid for gpu in found[0].gpus] == ["GPU-0", "GPU-1"]
    assert found[0].gpus[1].job == "job-1"
    given, back = sent[0].sections["gpu"], found[0].sections["gpu"]
    assert (back.select(given.columns) == given.values()).all()
    assert set(back.columns) == set(METRICS)
    assert next(frames(database, cluster, "n1", T0, T0 + 1000)).ts_ms == T0
    assert [one.node for one in extents(database, cluster, T0, T0 + 1000)] == ["n1"]
    assert extents(database, cluster, T0 + 10_000, T0 + 20_000) == []
    assert newest_ms(database, cluster) == T0 + 3_700_000
    assert newest_ms(database, cluster + "-other") is None


def test_incidents_that_were_open_in_the_period_in_their_newest_words(database: Client, cluster: str) -> None:
    def told(name: str, revision: int, onset_s: int, resolved_s: int | None) -> Incident:
        return Incident(
            cluster=cluster, ts_ms=T0 + revision, id=name, revision=revision, change="update", state="confirmed",
            kind="hardware", scope="node", cause="unknown", confidence=1, culprits=(Subject(scope="node", node="n1"),),
            onset_ms=T0 + 1000 * onset_s, detected_ms=T0, resolved_ms=resolved_s and T0 + 1000 * resolved_s,
        )  # fmt: skip

    store(database, told("before", 0, 0, 50), told("open", 0, 20, None), told("within", 0, 150, None))
    store(database, told("within", 1, 150, 160), told("after", 0, 300, None))
    found = incidents_during(database, cluster, T0 + 100_000, T0 + 200_000)
    assert [(one.id, one.resolved_ms) for one in found] == [("open", None), ("within", T0 + 160_000)]


def test_a_database_without_tables_is_one_line(database: Client) -> None:
    database_name, database.database = database.database, "nowhere"
    try:
        with pytest.raises(UserError, match="GPU samples: "):
            newest_ms(database, "c")
    finally:
        database.database = database_name
