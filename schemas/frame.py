"""What a node, or a rack, measured in one tick."""

import msgspec

from schemas.matrix import Matrix
from schemas.record import Name, Natural, NodeRecord


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU of a node: UUID and PCI address are its identity, never the index.

    `job` and `rank` (global) say for whom it works this tick; "" and None where nobody claims it. `parent` is the
    UUID of the physical GPU when this is a MIG instance.
    """

    uuid: Name
    pci: str = ""
    slot: Natural = 0
    job: str = ""
    rank: Natural | None = None
    parent: str = ""


class NodeFrame(NodeRecord, frozen=True, kw_only=True, tag="node_frame"):
    """One node, one tick (`ts_ms`, aligned to wall-clock seconds).

    `sections` maps a section of `schemas.metrics` (gpu, nvlink, fabric, host, tray) to its readings. Rows are GPU
    UUIDs (gpu), "UUID/link" (nvlink), "device/port" (fabric), the node's name (host, tray). `missing` counts
    readings that are NaN by reason (unsupported, lost, timeout, no_permission, first_reading, ...).
    """

    topic = "node-frames"

    rack: str = ""
    tray: Natural | None = None
    gpus: tuple[Gpu, ...] = ()
    sections: dict[str, Matrix] = {}
    missing: dict[str, Natural] = {}


class RackFrame(NodeRecord, frozen=True, kw_only=True, tag="rack_frame"):
    """One rack, one tick, polled by the one agent with the rack role (`node` is that agent's node).

    `sections`: loop, cdu, leak, shelf, fan, sensor, processor, port, bmc of `schemas.metrics`; rows are the names of
    loops, units, detectors, shelves and so on, "node/name" where they belong to a node. A row stands only in the frame
    of the tick in which it was read: controllers answer when they can.
    """

    topic = "rack-frames"

    rack: Name
    sections: dict[str, Matrix] = {}
    missing: dict[str, Natural] = {}

    @property
    def key(self) -> str:
        return self.rack

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.rack, self.node, self.run_id, self.seq)
