"""The few reads that the product itself makes, and the SQL it shows to people."""

from typing import Any

from clickhouse_connect.driver.client import Client

from schemas import Incident
from schemas.finding import Subject
from storage.ddl import literal
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


def position(client: Client) -> tuple[int, int]:
    """How far the history goes: the newest GPU sample's time in milliseconds (0 where there is none), and how many."""
    newest_ms, count = client.query("SELECT toUnixTimestamp64Milli(max(ts)), count() FROM gpu_samples").result_rows[0]
    return (int(newest_ms) if count else 0, int(count))


def fleet_now(client: Client) -> list[dict[str, Any]]:
    """The last sample of every GPU of which one was stored in the last ten minutes."""
    found = client.query("SELECT * FROM v_fleet_now ORDER BY cluster, node, slot")
    return list(found.named_results())


def look_further(cluster: str, subject: Subject, from_ms: int, to_ms: int) -> str:
    """The SQL that shows a person what happened to `subject`, beside its peers, between two times.

    A GPU is shown beside the others of its job (of its node without one), a rank without a known GPU by its
    collectives, a rack by its cooling loops, anything else by the events and findings around it.
    """
    when = f"ts BETWEEN fromUnixTimestamp64Milli({from_ms}) AND fromUnixTimestamp64Milli({to_ms})"
    here = f"cluster = {literal(cluster)} AND {when}"
    if subject.gpu:
        peers = f"job = {literal(subject.job)}" if subject.job else f"node = {literal(subject.node)}"
        return _beside_peers("gpu_samples", _GPU, f"gpu = {literal(subject.gpu)}", f"{here} AND {peers}")
    if subject.rank is not None and subject.job:
        mine = f"rank = {subject.rank}"
        return _beside_peers("collective_operations", _RANK, mine, f"{here} AND job = {literal(subject.job)}")
    if subject.rack and not subject.node:
        return (
            f"SELECT ts, loop, supply_c, return_c, flow_lpm, heat_w\nFROM loop_samples FINAL\n"
            f"WHERE {here} AND rack = {literal(subject.rack)}\nORDER BY loop, ts"
        )
    if subject.node:
        return (
            f"SELECT ts, kind, code, severity, gpu, text\nFROM events FINAL\n"
            f"WHERE {here} AND node = {literal(subject.node)}\nORDER BY ts"
        )
    of_job = f" AND job = {literal(subject.job)}" if subject.job else ""
    return (
        f"SELECT ts, id, state, cause, scope, node, gpu, rank, summary\nFROM findings FINAL\n"
        f"WHERE {here}{of_job}\nORDER BY ts"
    )


_GPU = ("sm_clock_mhz", "power_w", "temperature_c", "gpu_utilization_pct", "sm_active_ratio")
_RANK = ("exec_time_us",)


def _beside_peers(table: str, columns: tuple[str, ...], mine: str, where: str) -> str:
    """Averages of ten seconds, the subject's own beside those of its peers; NaN left out."""
    shown = ",\n       ".join(
        f"avgOrNullIf({column}, {mine} AND NOT isNaN({column})) AS culprit_{column}, "
        f"avgOrNullIf({column}, NOT ({mine}) AND NOT isNaN({column})) AS peers_{column}"
        for column in columns
    )
    return (
        f"SELECT toStartOfInterval(ts, INTERVAL 10 SECOND) AS t,\n       {shown}\n"
        f"FROM {table} FINAL\nWHERE {where}\nGROUP BY t\nORDER BY t"
    )
