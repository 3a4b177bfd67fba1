"""Something that happened at a moment: an XID, a link down, a leak, a process gone, an agent started."""

from typing import Literal

from schemas.record import Natural, NodeRecord

Severity = Literal["info", "warning", "critical"]


class Event(NodeRecord, frozen=True, kw_only=True, tag="event"):
    """One event. `ts_ms` is when it happened, by the best clock at hand.

    A kernel line is identified by (`boot_id`, `kmsg_seq`), whichever agent run read it; any other event by the
    agent's (`run_id`, `seq`). `kind` is one word (xid, sxid, nvlink, pcie_aer, gpu_lost, link_down, oom_kill, leak,
    agent_started, collector_stalled, process_gone, ...); `code` is its number where it has one (the XID).
    """

    topic = "events"

    kind: str
    severity: Severity = "info"
    code: int | None = None
    gpu: str = ""
    pci: str = ""
    job: str = ""
    rank: Natural | None = None
    boot_id: str = ""
    kmsg_seq: Natural | None = None
    text: str = ""
    detail: dict[str, str] = {}

    @property
    def identity(self) -> tuple[str | int, ...]:
        if self.kmsg_seq is not None:
            return (self.cluster, self.node, "kmsg:" + self.boot_id, self.kmsg_seq)
        return (self.cluster, self.node, f"run:{self.run_id}", self.seq)
