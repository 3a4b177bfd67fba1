"""Which verdicts are about one fault.

By subject: the same GPU, the same rank of a job, a node and what is on it. By effect: a hang explains everything slow
in its job, a culprit explains that its job is slow, a rack's cooling explains the heat of its GPUs.
"""

from collections.abc import Mapping

import msgspec

from schemas.finding import Finding, Subject

SLOW = ("straggler", "slow_link", "imbalance", "degradation")

HEAT = ("thermal_throttle", "coolant_temperature", "coolant_flow", "pump_fan", "leak")


RISK = "risk."
"""How the name of a detector begins that says what will be, not what is: a drift towards a limit."""

ONE_FABRIC_MS = 10_000
"""What one fault of an NVLink leads to comes within a second; ten allow for slow consoles and two sources."""


class Places(msgspec.Struct):
    """What inventory says: the rack of a node, the job of a GPU, the jobs on a node; and the coolant unit of a rack (of
    a node, where it names no rack). A unit's own readings are of a "rack" with its name."""

    racks: dict[str, str] = {}
    jobs: dict[str, str] = {}
    on: dict[str, tuple[str, ...]] = {}
    units: dict[str, str] = {}


def related(a: Finding, b: Finding, places: Places) -> bool:
    """Whether two open verdicts belong to one incident. Symmetric. A risk stays by itself: open for weeks, it would
    take in every fault of its part and give it its own age. So does what our own pipeline lacks: it is no fault of the
    node that it is said of, and no witness against it."""
    if is_risk(a) != is_risk(b) or (a.cause == "pipeline") != (b.cause == "pipeline"):
        return False
    same_job = bool(a.subject.job) and a.subject.job == b.subject.job
    if same_job and a.kind == b.kind == "hang":
        return True  # a job stands still once, however many are to blame
    near = same_subject(a.subject, b.subject) or _one_fabric(a, b)
    return near or _explains(a, b, places) or _explains(b, a, places)


def is_risk(finding: Finding) -> bool:
    return finding.detector.startswith(RISK)


def same_subject(a: Subject, b: Subject) -> bool:
    """The same thing, or one is the node that the other is on. A link, group or job alone is no place to meet."""
    if a.gpu and a.gpu == b.gpu and (a.node == b.node or not (a.node and b.node)):
        return True  # a GPU that has no UUID is a PCI address, which every node has
    if a.scope == b.scope == "rank" or {a.scope, b.scope} == {"rank", "link"}:
        return bool(a.job) and a.job == b.job and a.rank == b.rank
    if "node" in (a.scope, b.scope):
        return bool(a.node) and a.node == b.node and not (a.job and b.job and a.job != b.job)
    if a.scope != b.scope:
        return False
    return {
        "rack": bool(a.rack) and a.rack == b.rack,
        "link": bool(a.link) and (a.link, a.node, a.job) == (b.link, b.node, b.job),
        "group": (a.group, a.job) == (b.group, b.job),
        "job": bool(a.job) and a.job == b.job,
        "cluster": a.group == b.group,
    }.get(a.scope, False)


def _one_fabric(a: Finding, b: Finding) -> bool:
    """Whether two events on one node are one fault of its NVLinks: a broken link is told by the GPUs at both ends, by
    the switch between, and by the driver on every GPU that must be reset (within a second on a GB200 tray)."""
    told = a.detector.startswith("event.") and b.detector.startswith("event.")
    causes = {a.cause, b.cause}
    here = bool(a.subject.node) and a.subject.node == b.subject.node
    together = abs(a.onset_ms - b.onset_ms) <= ONE_FABRIC_MS
    return told and here and together and "nvlink_fault" in causes and causes <= {"nvlink_fault", "unknown"}


def _explains(a: Finding, b: Finding, places: Places) -> bool:
    """Whether `a` is why `b` was said."""
    same_job = bool(a.subject.job) and a.subject.job == b.subject.job
    if same_job and a.kind == "hang" and b.kind in SLOW:
        return True
    if same_job and a.kind in ("straggler", "slow_link") and b.kind == "degradation" and b.subject.scope == "job":
        return True
    if a.kind in ("hang", "straggler", "slow_link") and b.kind == "degradation" and b.cause == "unknown":
        # A GPU whose job stands still or waits looks unlike itself; nothing says that it is at fault.
        return bool(a.subject.job) and places.jobs.get(b.subject.gpu) == a.subject.job
    if a.kind == "hardware" and a.subject.scope == "link" and (b.kind == "slow_link" or b.cause == "transport_stalled"):
        # A port that is ill, and transfers of a job on its node that are slow or stand still.
        return b.subject.job in places.on.get(a.subject.node, ())
    if a.kind == "cooling" and a.subject.rack and b.cause in HEAT:
        here = b.subject.rack or rack(b.subject.node, places.racks)
        unit = places.units.get(here) or places.units.get(b.subject.node, "")
        return a.subject.rack in (here, unit)
    return False


def rack(node: str, rack_of: Mapping[str, str]) -> str:
    """The rack of a node: from inventory, else a name like "r03-t07" tells it; "" where nothing does."""
    return rack_of.get(node) or (node.partition("-")[0] if "-" in node else "")
