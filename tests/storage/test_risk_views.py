"""Risks and repeat offenders in SQL: by serial number, wherever the GPU sits."""

import itertools
from datetime import date
from typing import Any

import msgspec
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store

from schemas import Event, Finding, Incident, Inventory
from schemas.examples import EXAMPLES
from schemas.finding import Subject
from schemas.inventory import GpuDescription
from storage.questions import QUESTIONS

clusters = (f"risk-{n}" for n in itertools.count())
NOON = 1_793_534_400_000  # 2026-11-01 12:00:00
DAY_MS = 86_400_000
INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
FINDING = next(e for e in EXAMPLES if isinstance(e, Finding))
GPU = "GPU-worn"


def inventory(cluster: str, node: str, day: int) -> Inventory:
    return Inventory(
        cluster=cluster, ts_ms=NOON + day * DAY_MS, node=node, run_id=1, seq=day,
        gpus=(GpuDescription(uuid=GPU, pci="0000:01:00.0", serial="1650"),),
    )  # fmt: skip


def xid(cluster: str, node: str, day: int, code: int, **fields: Any) -> Event:
    return Event(
        cluster=cluster, ts_ms=NOON + day * DAY_MS, node=node, run_id=1, seq=1000 * day + code, kind="xid", code=code,
        **({"severity": "critical", "gpu": GPU} | fields),
    )  # fmt: skip


def incident(cluster: str, id_: str, node: str, day: int, **fields: Any) -> Incident:
    at = NOON + day * DAY_MS
    culprit = Subject(scope="gpu", node=node, gpu=GPU)
    return msgspec.structs.replace(
        INCIDENT, cluster=cluster, id=id_, ts_ms=at, onset_ms=at, detected_ms=at, culprits=(culprit,), **fields
    )


def days(database: Client, cluster: str) -> list[dict[str, Any]]:
    found = database.query(
        "SELECT * FROM v_gpu_days WHERE cluster = {c:String} ORDER BY day", parameters={"c": cluster}
    )
    return list(found.named_results())


def test_a_gpu_that_moved_is_one_offender(database: Client) -> None:
    cluster = next(clusters)
    store(
        database,
        inventory(cluster, "n1", 0), inventory(cluster, "n2", 20),
        xid(cluster, "n1", 1, 79), xid(cluster, "n2", 21, 63), xid(cluster, "n2", 21, 13, severity="info"),
        incident(cluster, f"{cluster}-a", "n1", 1, kind="hardware", job=""),
        incident(cluster, f"{cluster}-b", "n2", 21, kind="straggler", job="j1"),
        incident(cluster, f"{cluster}-c", "n2", 21, kind="straggler", job="j1"),
        incident(cluster, f"{cluster}-d", "n2", 22, kind="degradation", job="j2"),
    )  # fmt: skip
    found = [
        (row["serial"], row["day"], row["node"], row["xids"], row["incidents"], row["jobs"])
        for row in days(database, cluster)
    ]
    assert found == [
        ("1650", date(2026, 11, 2), "n1", 1, 1, []),
        ("1650", date(2026, 11, 22), "n2", 1, 2, ["j1"]),
    ]
    asked = QUESTIONS["repeat-offenders"].sql
    given = {"at": "2026-12-05 12:00:00", "days": 90, "limit": 1000}
    rows = [row for row in database.query(asked, parameters=given).named_results() if row["serial"] == "1650"]
    (row,) = rows
    assert (row["last_node"], row["nodes"], row["bad_days"], row["xids_30d"], row["all_xids"]) == ("n2", 2, 2, 1, 2)
    assert (row["incidents_30d"], row["all_incidents"], row["all_jobs_slowed"]) == (2, 3, 1)


def test_rows_remapped_at_night_count_and_a_new_database_does_not_count_old_ones(database: Client) -> None:
    cluster = next(clusters)
    for at, least, most in (
        ("2026-11-01 10:00:00", 3, 3), ("2026-11-01 23:00:00", 3, 4), ("2026-11-02 00:00:00", 5, 5),
        ("2026-11-03 00:00:00", 5, 5),
    ):  # fmt: skip
        database.command(
            "INSERT INTO gpu_1h (cluster, node, gpu, ts, samples, remapped_uncorrectable_count_min,"
            f" remapped_uncorrectable_count_max) VALUES ('{cluster}', 'n', 'GPU-r', '{at}', 1, {least}, {most})"
        )
    found = [(row["serial"], row["day"].day, row["remaps"]) for row in days(database, cluster)]
    assert found == [("GPU-r", 1, 1), ("GPU-r", 2, 1)], "known by its UUID where inventory does not name it"


def test_the_newest_word_on_a_risk(database: Client) -> None:
    cluster = next(clusters)
    risk = msgspec.structs.replace(
        FINDING, cluster=cluster, id=f"{cluster}-f", detector="risk.nvlink_ber", subject=Subject(scope="gpu", gpu=GPU),
        onset_ms=NOON, ts_ms=NOON, state="open", revision=0, summary="first",
    )  # fmt: skip
    newer = msgspec.structs.replace(risk, revision=7, ts_ms=NOON + 2 * DAY_MS, state="heartbeat", summary="newest")
    other = msgspec.structs.replace(risk, id=f"{cluster}-g", detector="gpu_alarm")
    over = msgspec.structs.replace(risk, id=f"{cluster}-h", state="close", summary="over")
    store(database, newer, risk, other, over, inventory(cluster, "n1", 0))

    def told(at: str) -> list[tuple[str, str, str]]:
        rows = database.query(QUESTIONS["risks"].sql, parameters={"at": at}).named_results()
        return [(row["risk"], row["serial"], row["summary"]) for row in rows if row["risk"] == "nvlink_ber"]

    assert told("2026-11-03 20:00:00") == [("nvlink_ber", "1650", "newest")]
    assert told("2026-11-06 20:00:00") == [], "a node that was not heard for a day"
    states = database.query(
        "SELECT state, summary FROM v_risks WHERE cluster = {c:String} ORDER BY id", parameters={"c": cluster}
    )
    assert states.result_rows == [("heartbeat", "newest"), ("close", "over")]
