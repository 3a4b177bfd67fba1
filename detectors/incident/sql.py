"""The SQL that shows a person the evidence of an incident: the culprit beside its peers, or what happened around it."""

from collections.abc import Sequence

from detectors.incident.relation import RISK, is_risk
from schemas.finding import Finding, Subject

MARGIN_MS = 300_000
"""Five minutes are shown before and after."""

MONTH_MS = 30 * 86_400_000

_GPU = ("sm_clock_mhz", "power_w", "temperature_c", "gpu_utilization_pct", "sm_active_ratio")
_STEP = ("step_us", "data_us", "compute_us", "comm_us", "wait_us")
_OPERATION = ("exec_time_us",)
_HOURS = {
    f"{RISK}nvlink_ber": ("nvlink_1h", "link", ("effective_ber_log10_max", "recovery_count_max")),
    f"{RISK}nvlink_fec": ("nvlink_1h", "link", ("fec_5_per_s", "fec_6_per_s", "fec_7_per_s")),
    f"{RISK}fan_effort": ("fan_samples", "fan", ("speed_pct", "speed_rpm")),
    f"{RISK}pump_effort": ("cdu_samples", "unit", ("pump_speed_pct", "filter_kpa")),
    f"{RISK}valve_opening": ("loop_samples", "loop", ("valve_pct", "flow_lpm", "supply_c")),
}
_WORN = ("thermal_margin_c", "pcie_replay_count_max", "ecc_sbe_count_max", "remapped_uncorrectable_count_max")
"""What a risk is shown by, an hour; a GPU's by its roll-up."""

_LAST = "-- whoever comes last to a collective waits for nobody: the late rank's times are the short ones\n"


def sql(lead: Finding, who: Sequence[Subject], from_ms: int, until_ms: int) -> str:
    """One statement over the tables of `storage/`, every row of which FINAL counts once.

    A rank is shown beside the others of its job by its steps or collectives, a GPU beside the others of its job (of
    its node without one), a rack by its cooling loops, a job that stands by its ranks' last collectives, anything else
    by the events and findings around it.
    """
    begin, end = max(from_ms - MARGIN_MS, 0), until_ms + MARGIN_MS
    subject = who[0] if who else lead.subject
    if is_risk(lead):
        return _month(lead, subject, end)
    here = (
        f"cluster = {_text(lead.cluster)}"
        f" AND ts BETWEEN fromUnixTimestamp64Milli({begin}) AND fromUnixTimestamp64Milli({end})"
    )
    job = f"{here} AND job = {_text(subject.job)}"
    if lead.kind == "hang" and subject.job:
        return _rows("collective_progress", "ts, rank, communicator, function, last_sn, completed_at", job, "ts, rank")
    if lead.kind in ("straggler", "slow_link") and subject.job:
        by_steps = lead.onset_step is not None and lead.kind == "straggler"
        table, columns = ("steps", _STEP) if by_steps else ("collective_operations", _OPERATION)
        if subject.rank is not None:
            return ("" if by_steps else _LAST) + _beside_peers(table, columns, f"rank = {subject.rank}", job)
        order = "step, rank" if by_steps else "communicator, function, sn, rank"
        return _rows(table, ", ".join(dict.fromkeys(("ts", *order.split(", "), *columns))), job, order)
    if subject.gpu:
        peers = f"job = {_text(subject.job)}" if subject.job else f"node = {_text(subject.node)}"
        return _beside_peers("gpu_samples", _GPU, f"gpu = {_text(subject.gpu)}", f"{here} AND {peers}")
    if subject.scope == "rack":
        columns_of_loop = "ts, loop, supply_c, return_c, flow_lpm, heat_w"
        return _rows("loop_samples", columns_of_loop, f"{here} AND rack = {_text(subject.rack)}", "loop, ts")
    if subject.node:
        of_node = f"{here} AND node = {_text(subject.node)}"
        return _rows("events", "ts, kind, code, severity, gpu, text", of_node, "ts")
    of_job = job if subject.job else here
    return _rows("findings", "ts, id, state, cause, scope, node, gpu, rank, summary", of_job, "ts")


def _month(lead: Finding, subject: Subject, end: int) -> str:
    """The thirty days before, an hour a row."""
    table, part, columns = _HOURS.get(lead.detector, ("gpu_1h", "gpu", _WORN))
    of_gpu = part in ("gpu", "link")
    where = f"gpu = {_text(subject.gpu)}" if of_gpu else f"rack = {_text(subject.rack)}"
    shown = ", ".join(f"round(avgOrNullIf({c}, NOT isNaN({c})), 2) AS mean_{c}" for c in columns)
    return (
        f"SELECT toStartOfHour(ts) AS hour, {part}, {shown}\nFROM {table} FINAL\n"
        f"WHERE cluster = {_text(lead.cluster)} AND {where}"
        f" AND ts BETWEEN fromUnixTimestamp64Milli({max(end - MONTH_MS, 0)}) AND fromUnixTimestamp64Milli({end})\n"
        f"GROUP BY hour, {part}\nORDER BY {part}, hour"
    )


def _rows(table: str, columns: str, where: str, order: str) -> str:
    return f"SELECT {columns}\nFROM {table} FINAL\nWHERE {where}\nORDER BY {order}"


def _beside_peers(table: str, columns: Sequence[str], mine: str, where: str) -> str:
    """Averages of ten seconds, the subject's own beside those of its peers; NaN left out."""
    shown = ",\n       ".join(
        f"round(avgOrNullIf({column}, {mine} AND NOT isNaN({column})), 2) AS culprit_{column},\n"
        f"       round(avgOrNullIf({column}, NOT ({mine}) AND NOT isNaN({column})), 2) AS peers_{column}"
        for column in columns
    )
    return (
        f"SELECT toStartOfInterval(ts, INTERVAL 10 SECOND) AS t,\n       {shown}\n"
        f"FROM {table} FINAL\nWHERE {where}\nGROUP BY t\nORDER BY t"
    )


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
