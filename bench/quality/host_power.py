"""The same readings through the product's own host watch, as `lockstep replay` would bring them: alarms per node-day.

Nothing is known of these nodes but the power of each, so a node is judged against its own past alone, at the work it
does. The fleet is healthy: every finding is a false one.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from detectors.episode import Episodes
from detectors.forest.model import Forest
from detectors.node.budget import SECONDS_A_DAY, events_at_most
from detectors.node.host_watch import HostWatch
from lockstep.replay.table import Columns, read_table
from schemas import NodeFrame

COLUMNS = {"power_w": "node_power_w"}


def judged(path: Path, model: Forest, findings: float, interval_s: float, warm_up: int) -> dict[str, Any]:
    """Findings on one run, at a budget of `findings` per 10,000 node-days; node-days are counted behind the first
    `warm_up` readings of each node, findings from the first one on."""
    watches: dict[str, tuple[HostWatch, Episodes]] = {}
    seen: dict[str, int] = {}
    opened = []
    for record in read_table(path, Columns(COLUMNS), "bench", 1):
        if not isinstance(record, NodeFrame):
            continue
        if record.node not in watches:
            watches[record.node] = HostWatch(record.node, model, findings), Episodes("bench")
        watch, episodes = watches[record.node]
        seen[record.node] = seen.get(record.node, 0) + 1
        opened += [said for said in watch.update(record, None, (), episodes) if said.state == "open"]
    days = sum(max(0, count - warm_up) for count in seen.values()) * interval_s / SECONDS_A_DAY
    return {"run": path.stem, "nodes": len(seen), "node_days": days, "findings": len(opened)}


def run(paths: Sequence[Path], findings: float, interval_s: float, warm_up: int) -> dict[str, Any]:
    """All runs, and their sum."""
    model = Forest.from_bytes((files("detectors") / "fleet.forest").read_bytes())
    each = [judged(path, model, findings, interval_s, warm_up) for path in paths]
    days, found = sum(one["node_days"] for one in each), sum(one["findings"] for one in each)
    return {
        "model": model.name,
        "runs": each,
        "node_days": days,
        "findings": found,
        "per_node_day": found / days if days else None,
        "per_node_day_at_most_95pct": events_at_most(found) / days if days else None,
    }


def text(answer: dict[str, Any]) -> str:
    """As a line."""
    said = f"host watch ({answer['model']}): {answer['findings']} findings in {answer['node_days']:.2f} node-days"
    if answer["per_node_day_at_most_95pct"] is None:
        return f"{said}: all runs are too short"
    return f"{said} of {len(answer['runs'])} runs (at most {answer['per_node_day_at_most_95pct']:.2f} per node-day)"
