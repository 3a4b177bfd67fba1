"""The few reads that the product itself makes."""

from typing import Any

from clickhouse_connect.driver.client import Client

from schemas import Incident, Silence
from storage.restore import restored


def incidents(
    client: Client, *, cluster: str = "", since_ms: int = 0, open_only: bool = False, limit: int = 100
) -> list[Incident]:
    """The newest revision of each incident with its evidence, youngest first. `cluster` "" means all."""
    found = client.query(
        "SELECT * FROM v_incidents WHERE ({cluster:String} = '' OR cluster = {cluster:String})"
        " AND detected_at >= fromUnixTimestamp64Milli({since:Int64}) AND (NOT {open:Bool} OR state != 'resolved')"
        " ORDER BY detected_at DESC, id LIMIT {limit:UInt32}",
        parameters={"cluster": cluster, "since": since_ms, "open": open_only, "limit": limit},
    )
    return [restored(Incident, row) for row in found.named_results()]


def incident_history(client: Client, *, cluster: str, since_ms: int, until_ms: int) -> list[Incident]:
    """Every revision that was written in the period, oldest first. `cluster` "" means all."""
    found = client.query(
        "SELECT * FROM incidents FINAL WHERE ({cluster:String} = '' OR cluster = {cluster:String})"
        " AND ts BETWEEN fromUnixTimestamp64Milli({since:Int64}) AND fromUnixTimestamp64Milli({until:Int64})"
        " ORDER BY ts, id, revision",
        parameters={"cluster": cluster, "since": since_ms, "until": until_ms},
    )
    return [restored(Incident, row) for row in found.named_results()]


def silences(client: Client, *, cluster: str) -> list[Silence]:
    """The newest word on each silence. `cluster` "" means all."""
    found = client.query(
        "SELECT * FROM silences FINAL WHERE {cluster:String} = '' OR cluster = {cluster:String}"
        " ORDER BY ended DESC, ts DESC LIMIT 1 BY cluster, id",
        parameters={"cluster": cluster},
    )
    return [restored(Silence, row) for row in found.named_results()]


def position(client: Client) -> tuple[int, int]:
    """How far the history goes: the newest GPU sample's time in milliseconds (0 where there is none), and how many."""
    newest_ms, count = client.query("SELECT toUnixTimestamp64Milli(max(ts)), count() FROM gpu_samples").result_rows[0]
    return (int(newest_ms) if count else 0, int(count))


def fleet_now(client: Client) -> list[dict[str, Any]]:
    """The last sample of every GPU of which one was stored in the last ten minutes."""
    found = client.query("SELECT * FROM v_fleet_now ORDER BY cluster, node, slot")
    return list(found.named_results())
