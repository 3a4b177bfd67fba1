"""What an event alone says: critical XIDs, a lost GPU, a link down, a leak.

After NVIDIA's catalogue of XID errors (`schemas.xid`); severity is the collector's judgement, and only what is critical
becomes a finding: many codes are an application's doing and blame no hardware.
"""

from typing import NamedTuple

from detectors.episode import Persistence, Rule, Verdict
from schemas.causes import CAUSES, Cause, Kind
from schemas.event import Event
from schemas.finding import Evidence
from schemas.xid import XIDS, in_words

XID_CAUSES: dict[int, Cause] = {
    code: facts.cause for code, facts in XIDS.items() if facts.cause != "unknown" and facts.severity != "info"
}
"""Causes of XIDs that speak of hardware; one that is not here is a finding of unknown cause where it is critical."""

LESS_SURE = {46, 62, 109, 119, 120, 143, 158, 169}
"""Codes that a driver or an application can bring about too."""

SURE, HARDLY_SURE, UNKNOWN = 0.9, 0.6, 0.3


class EventCause(NamedTuple):
    """What an event means: kind of finding, cause, and how sure that is."""

    kind: Kind
    cause: Cause
    confidence: float


EVENTS: dict[str, EventCause] = {
    "gpu_lost": EventCause("hardware", "gpu_lost", SURE),
    "gpu_init_failed": EventCause("hardware", "gpu_lost", SURE),
    "gpu_reset_required": EventCause("hardware", "unknown", UNKNOWN),
    "sxid": EventCause("hardware", "nvlink_fault", HARDLY_SURE),
    "nvlink": EventCause("hardware", "nvlink_fault", SURE),
    "nvswitch_missing": EventCause("hardware", "nvlink_fault", SURE),
    "pcie_aer": EventCause("hardware", "pcie_degraded", HARDLY_SURE),
    "pcie_link_down": EventCause("hardware", "pcie_degraded", SURE),
    "nic_firmware": EventCause("hardware", "fabric_link", SURE),
    "memory_error": EventCause("hardware", "host_memory", SURE),
    "link_down": EventCause("hardware", "fabric_link", HARDLY_SURE),
    "leak": EventCause("cooling", "leak", SURE),
}
"""Other critical events by kind. A link that went down may be back in a moment, and an administrator may have taken it
down: sure only when it flaps."""

FLAPS, FLAP_MS = 3, 600_000
"""Three times down in ten minutes is a flapping link; the same counts are in use for NVSwitch fabrics (NVSentinel)."""

ACTION = "action"
"""The `metric` of evidence that says what to do."""

QUIET_MS = 3_600_000
"""An event's finding closes after an hour without another one (the driver logs only some of a flood, and a broken GPU
says nothing while nobody uses it), or when the GPU was reset or came back."""


COLLECTOR = EventCause("degradation", "sensor_fault", HARDLY_SURE)
"""A collector that stalls or fails: part of the node is not seen. Not a fault of the part. Those that read a rack's
controllers are left to the rack's rules, which know whose controller it is."""

AGENT = EventCause("degradation", "pipeline", HARDLY_SURE)
"""The agent of a node gives up records, or cannot put them by: what the node did meanwhile is not seen, or will not
be. It says nothing of the node's own health."""

FAILED = ("collector_stalled", "collector_failed")
SPOOL = ("spool_full", "spool_unwritable")
ENDS = {"collector_recovered": FAILED, "spool_room": SPOOL[:1], "spool_writable": SPOOL[1:]}
"""What each of these says is over."""


def meaning(event: Event) -> EventCause | None:
    """What a critical event, or a failure of a collector or of the agent itself, means; None for any other."""
    if event.kind in FAILED and "bmc" not in event.detail:
        return COLLECTOR
    if event.kind in SPOOL:
        return AGENT
    if event.severity != "critical":
        return None
    if event.kind == "hang":
        return _standstill(event)
    if event.kind != "xid":
        return EVENTS.get(event.kind)
    cause = XID_CAUSES.get(event.code or 0, "unknown")
    confidence = UNKNOWN if cause == "unknown" else HARDLY_SURE if event.code in LESS_SURE else SURE
    return EventCause("hardware", cause, confidence)


def _standstill(event: Event) -> EventCause:
    """What a collector proved from dumps or RAS: it names the cause, and how sure it is."""
    said = event.detail.get("cause", "")
    cause = next((cause for cause in CAUSES if cause == said), None)
    try:
        confidence = min(1.0, max(0.0, float(event.detail.get("confidence", ""))))
    except ValueError:
        confidence = UNKNOWN
    return EventCause("hang", cause or "unknown", confidence if confidence == confidence else UNKNOWN)


BACK_TICKS = 10
"""A lost GPU is back when it has answered for ten seconds."""


def event_rule(means: EventCause) -> Rule:
    """The episode an event belongs to: one for each cause."""
    clear = BACK_TICKS if means.cause == "gpu_lost" else 1
    return Rule(f"event.{means.cause}", means.kind, Persistence(clear=clear))


def label(event: Event) -> str:
    """A short name: "xid:79"."""
    return event.kind if event.code is None else f"{event.kind}:{event.code}"


PLAIN = {
    "gpu_lost": "the driver cannot reach the GPU",
    "gpu_init_failed": "the driver cannot start the GPU",
    "gpu_reset_required": "the GPU must be reset",
    "nic_firmware": "the network adapter's firmware reports a failure",
    "nic_module": "the network adapter's cable or transceiver",
    "nvlink": "an NVLink error",
    "nvswitch_missing": "an NVSwitch is missing",
    "pcie_aer": "a PCIe error",
    "pcie_link_down": "the PCIe link went down",
    "memory_error": "a memory error of the host",
    "link_down": "link down",
    "nvrm_rate_limited": "the driver leaves messages out",
    "oom_kill": "a process was killed for memory",
    "segfault": "a process crashed",
    "clock_stepped": "the node's clock was set",
    "spool_full": "a node's agent gives up its oldest records",
    "spool_unwritable": "a node's agent cannot keep records on its disk",
}
"""Kinds of events as one says them; those that are not here are said by their name."""


def spoken(event: Event) -> str:
    """The same for a reader: "XID 79", "link down"."""
    if event.kind in ("xid", "sxid"):
        return event.kind.upper() if event.code is None else f"{event.kind.upper()} {event.code}"
    return PLAIN.get(event.kind, event.kind.replace("_", " "))


def link_of(event: Event) -> str:
    """The link or adapter that an event is about: a port, a switch's port, a PCI address; "" for none.

    Fields of `detail` differ by kind: a GPU's NVLink is not meant, its GPU is.
    """
    detail = event.detail
    if event.kind == "sxid":
        return f"nvswitch{detail.get('switch', '')}/{detail['link']}" if "link" in detail else ""
    if event.kind in ("link_down", "link_up"):
        return detail.get("link", "")
    if event.kind.startswith("nic_"):
        return detail.get("device", event.pci)
    return event.pci if event.kind.startswith("pcie_") else ""


def asked(event: Event) -> str:
    """What the event's own source asks for, as a sentence: the driver's verdict, or NVIDIA's catalogue; "" for none."""
    action = event.detail.get("action", "")
    if action in ("", "IGNORE") or event.kind not in ("xid", "sxid", "gpu_lost", "gpu_init_failed"):
        return ""
    who = "The driver" if "recovery" in event.detail else spoken(event) if event.kind in ("xid", "sxid") else "NVIDIA"
    then = event.detail.get("then", "")
    more = "" if then in ("", action) or then.startswith("IGNORE") else f"; if that does not help, {in_words(then)}"
    return f"{who} asks to {in_words(action)}{more}"


def event_verdict(event: Event, means: EventCause, count: int) -> Verdict:
    """The words for an event that was seen `count` times in this episode."""
    if event.kind == "hang":
        facts = tuple(Evidence(text=text) for text in event.detail.get("evidence", "").split("; ") if text)
        victims = event.detail.get("victims", "")
        return Verdict(
            cause=means.cause,
            confidence=means.confidence,
            score=float(count),
            victims=int(victims) if victims.isdecimal() and len(victims) < 8 else 0,
            summary=event.text,
            evidence=facts,
        )
    again = f" ({count} such events)" if count > 1 else ""
    name = event.detail.get("name", "")
    where = f" on NVLink {event.detail['link']}" if event.kind == "xid" and "link" in event.detail else ""
    evidence = [Evidence(text=event.text or label(event), metric=label(event), value=float(count))]
    if sentence := asked(event):
        evidence.append(Evidence(text=sentence, metric=ACTION))
    return Verdict(
        cause=means.cause,
        confidence=means.confidence,
        score=float(count),
        summary=f"{CAUSES[means.cause].words}: {spoken(event)}{name and f' ({name})'}{where}{again}",
        evidence=tuple(evidence),
    )
