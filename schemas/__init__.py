"""What travels and what it means: records, topics, metrics, causes and identities.

The innermost room: pure values, imported by every other room and importing none. `RECORDS` is the register of
everything that may appear on a topic; `docs/wire.md` is generated from it.
"""

from schemas.alert import AlertState, Control, Model, Silence
from schemas.collective import CollectiveFrame
from schemas.event import Event
from schemas.features import Baselines, Features
from schemas.finding import Finding
from schemas.frame import NodeFrame, RackFrame
from schemas.health import DeadLetter, Health
from schemas.incident import Incident
from schemas.inventory import Inventory
from schemas.record import Record
from schemas.step import StepFrame

RECORDS: tuple[type[Record], ...] = (
    NodeFrame,
    Event,
    CollectiveFrame,
    StepFrame,
    Features,
    Baselines,
    RackFrame,
    Inventory,
    Finding,
    Incident,
    Model,
    Control,
    AlertState,
    Silence,
    Health,
    DeadLetter,
)

__all__ = [
    "RECORDS",
    "AlertState",
    "Baselines",
    "CollectiveFrame",
    "Control",
    "DeadLetter",
    "Event",
    "Features",
    "Finding",
    "Health",
    "Incident",
    "Inventory",
    "Model",
    "NodeFrame",
    "RackFrame",
    "Record",
    "Silence",
    "StepFrame",
]
