"""What a node is made of and for whom it works; compacted by node."""

import msgspec

from schemas.record import Name, Natural, NodeRecord, TimeMs


class GpuDescription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a GPU is: asked whenever it is found. `chassis` (its serial number) and what follows are
    its place in the rack as the platform tells it (GB200 and later)."""

    uuid: Name
    pci: str = ""
    serial: str = ""
    name: str = ""
    slot: Natural = 0
    vbios: str = ""
    chassis: str = ""
    chassis_slot: Natural | None = None
    chassis_tray: Natural | None = None
    chassis_host: Natural | None = None
    module: Natural | None = None


class JobMembership(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank of a job on this node, with the communicators it belongs to and when that was first seen."""

    job: Name
    rank: Natural
    gpu: str = ""
    pid: Natural = 0
    communicators: tuple[str, ...] = ()
    since_ms: TimeMs = 0


class Inventory(NodeRecord, frozen=True, kw_only=True, tag="inventory"):
    """The node as its agent sees it; sent at start and when it changes."""

    topic = "inventory"

    rack: str = ""
    tray: Natural | None = None
    cooling_loop: str = ""
    driver: str = ""
    gpus: tuple[GpuDescription, ...] = ()
    nics: tuple[str, ...] = ()
    memberships: tuple[JobMembership, ...] = ()
