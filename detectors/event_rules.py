"""What an event alone says: critical XIDs, a lost GPU, a link down, a leak.

After NVIDIA's catalogue of XID errors (docs.nvidia.com/deploy/xid-errors); severity is the collector's judgement, and
only what is critical becomes a finding: many codes are an application's doing and blame no hardware.
"""

from typing import NamedTuple

from detectors.episode import Persistence, Rule, Verdict
from schemas.causes import CAUSES, Cause, Kind
from schemas.event import Event
from schemas.finding import Evidence

XID_CAUSES: dict[int, Cause] = {
    46: "gpu_stuck",
    48: "gpu_memory_error",
    54: "power_brake",  # auxiliary power is not connected: clocks stay down
    63: "gpu_memory_error",
    64: "gpu_memory_error",
    74: "nvlink_fault",
    79: "gpu_lost",
    94: "gpu_memory_error",
    95: "gpu_memory_error",
    109: "gpu_stuck",
    119: "gpu_lost",  # GSP does not answer: on the bus, but lost to the driver, and the cure is the same
    120: "gpu_lost",
    136: "nvlink_fault",
    140: "gpu_memory_error",
    143: "gpu_lost",  # the GPU cannot be initialised
    144: "nvlink_fault",
    145: "nvlink_fault",
    146: "nvlink_fault",
    147: "nvlink_fault",
    148: "nvlink_fault",
    149: "nvlink_fault",
    150: "nvlink_fault",
    155: "nvlink_fault",
    157: "gpu_memory_error",
    158: "gpu_stuck",
    161: "gpu_memory_error",
    166: "nvlink_fault",
    167: "pcie_degraded",
    168: "gpu_memory_error",
    171: "gpu_memory_error",
    172: "gpu_memory_error",
}
"""Causes of critical XIDs; one that is not here is a hardware finding of unknown cause."""

LESS_SURE = {46, 109, 119, 120, 143, 158}
"""Codes that a driver or an application can bring about too."""

SURE, HARDLY_SURE, UNKNOWN = 0.9, 0.6, 0.3


class EventCause(NamedTuple):
    """What an event means: kind of finding, cause, and how sure that is."""

    kind: Kind
    cause: Cause
    confidence: float


EVENTS: dict[str, EventCause] = {
    "gpu_lost": EventCause("hardware", "gpu_lost", SURE),
    "gpu_reset_required": EventCause("hardware", "unknown", UNKNOWN),
    "sxid": EventCause("hardware", "nvlink_fault", HARDLY_SURE),
    "nvlink": EventCause("hardware", "nvlink_fault", SURE),
    "pcie_aer": EventCause("hardware", "pcie_degraded", HARDLY_SURE),
    "link_down": EventCause("hardware", "fabric_link", SURE),
    "leak": EventCause("cooling", "leak", SURE),
}
"""Other critical events by kind."""

QUIET_MS = 3_600_000
"""An event's finding closes after an hour without another one (the driver logs only some of a flood, and a broken GPU
says nothing while nobody uses it), or when the GPU was reset or came back."""


def meaning(event: Event) -> EventCause | None:
    """What a critical event means; None for any other."""
    if event.severity != "critical":
        return None
    if event.kind != "xid":
        return EVENTS.get(event.kind)
    cause = XID_CAUSES.get(event.code or 0, "unknown")
    confidence = UNKNOWN if cause == "unknown" else HARDLY_SURE if event.code in LESS_SURE else SURE
    return EventCause("hardware", cause, confidence)


BACK_TICKS = 10
"""A lost GPU is back when it has answered for ten seconds."""


def event_rule(means: EventCause) -> Rule:
    """The episode an event belongs to: one for each cause."""
    clear = BACK_TICKS if means.cause == "gpu_lost" else 1
    return Rule(f"event.{means.cause}", means.kind, Persistence(clear=clear))


def label(event: Event) -> str:
    """A short name: "xid:79"."""
    return event.kind if event.code is None else f"{event.kind}:{event.code}"


def event_verdict(event: Event, means: EventCause, count: int) -> Verdict:
    """The words for an event that was seen `count` times in this episode."""
    again = f" ({count} such events)" if count > 1 else ""
    return Verdict(
        cause=means.cause,
        confidence=means.confidence,
        score=float(count),
        summary=f"{CAUSES[means.cause].words}: {label(event)}{again}",
        evidence=(Evidence(text=event.text or label(event), metric=label(event), value=float(count)),),
    )
