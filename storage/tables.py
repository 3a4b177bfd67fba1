"""The tables of ClickHouse, one line each, derived from the record classes and the metric catalogue.

A sort key starts with what is asked for and ends with the identity of the row: whatever is sent again replaces
itself, and two samples of one second, or of a clock that stepped back, stay two rows. Rows are kept by the day they
were stored, not by their own time: a replay of last year's telemetry is kept, and a clock from 2090 is not for ever.
"""

from typing import NamedTuple

from schemas import (
    AlertState,
    Baselines,
    CollectiveFrame,
    Control,
    DeadLetter,
    Event,
    Features,
    Finding,
    Health,
    Incident,
    Inventory,
    Model,
    NodeFrame,
    RackFrame,
    Record,
    Silence,
    StepFrame,
)
from schemas.record import Natural, NodeRecord
from storage.comments import TABLE_NOTES
from storage.fields import Column
from storage.readings import Centres, Readings
from storage.shapes import Items, Members, One, Scores, Shape
from storage.values import stored


class Table(NamedTuple):
    """One table: which record feeds it, in which shape, for how many days it is kept (0: for ever), its sort key.

    `columns` are in the order in which they are created and inserted. `ranged` are columns that are asked for by range
    and stand in no useful place of the key: granules outside the range are skipped. `version` decides which of the
    rows of one key stays.
    """

    name: str
    record: type[Record]
    shape: Shape
    days: int
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    ranged: tuple[str, ...]
    version: str = "ts"

    @property
    def what(self) -> str:
        return TABLE_NOTES[self.name]

    @property
    def partition(self) -> str:
        return "toDate(ts)" if self.days else ""


def _table(name: str, record: type[Record], shape: Shape, days: int, key: str, ranged: str = "") -> Table:
    """The table; its sort key is the cluster, what `key` says, and what the row's identity still needs."""
    columns = shape.columns(record)
    names = [column.name for column in columns]
    stamped = issubclass(record, NodeRecord) and record is not Event
    identity = [*(("node", "run_id", "seq") if stamped else ()), *(("place",) if "place" in names else ())]
    whole = tuple(dict.fromkeys(["cluster", *key.split(), *identity]))
    if len(set(names)) < len(names) or not set(whole) <= set(names):
        raise TypeError(f"table {name}: a column is there twice, or one of {whole} is not there")
    return Table(name, record, shape, days, whole, columns, tuple(ranged.split()))


SAMPLES, BULK, RARE = 30, 14, 400
"""Days: samples as long as an incident is argued about, bulk for two weeks, what is rare for more than a year."""

_ORIGIN = Column("origin", "record", stored(str, "origin"), lambda event: event.identity[2])
_NUMBER = Column("number", "record", stored(Natural, "number"), lambda event: event.identity[3])

_WRITTEN = (
    # what nodes and racks measured
    _table("gpu_samples", NodeFrame, Readings("gpu", describe="gpus"), SAMPLES, "node gpu ts", "stored_at"),
    _table("nvlink_samples", NodeFrame, Readings("nvlink", ("gpu", "link")), SAMPLES, "node gpu link ts", "stored_at"),
    _table("fabric_samples", NodeFrame, Readings("fabric", ("device", "port")), SAMPLES, "node device port ts"),
    _table("host_samples", NodeFrame, Readings("host"), SAMPLES, "node ts", "stored_at"),
    _table("tray_samples", NodeFrame, Readings("tray"), SAMPLES, "node ts"),
    _table("loop_samples", RackFrame, Readings("loop", ("loop",)), SAMPLES, "rack loop ts", "stored_at"),
    _table("cdu_samples", RackFrame, Readings("cdu", ("unit",)), SAMPLES, "rack unit ts"),
    _table("leak_samples", RackFrame, Readings("leak", ("detector",)), SAMPLES, "rack detector ts"),
    _table("shelf_samples", RackFrame, Readings("shelf", ("shelf",)), SAMPLES, "rack shelf ts"),
    _table("fan_samples", RackFrame, Readings("fan", ("fan",)), SAMPLES, "rack fan ts"),
    _table("sensor_samples", RackFrame, Readings("sensor", ("sensor",)), SAMPLES, "rack sensor ts"),
    _table("processor_samples", RackFrame, Readings("processor", ("processor",)), SAMPLES, "rack processor ts"),
    _table("port_samples", RackFrame, Readings("port", ("processor", "port")), SAMPLES, "rack processor port ts"),
    _table("bmc_samples", RackFrame, Readings("bmc", ("bmc",)), SAMPLES, "rack bmc ts"),
    _table("node_frames", NodeFrame, One(without=["gpus"]), SAMPLES, "node ts"),
    _table("rack_frames", RackFrame, One(), SAMPLES, "rack ts"),
    _table("events", Event, One(_ORIGIN, _NUMBER), RARE, "node origin number"),
    _table("inventory", Inventory, One(without=["gpus", "memberships"]), RARE, "node"),
    _table("inventory_gpus", Inventory, Items("gpus"), RARE, "node gpu"),
    _table("inventory_memberships", Inventory, Items("memberships"), RARE, "job rank"),
    # what jobs did
    _table(
        "collective_operations",
        CollectiveFrame,
        Members("operations"),
        BULK,
        "job communicator function sn",
        "ts stored_at",
    ),
    _table(
        "collective_blocks", CollectiveFrame, Members("blocks"), BULK, "job communicator function block", "ts stored_at"
    ),
    _table("collective_progress", CollectiveFrame, Members("progress"), BULK, "job communicator function rank ts"),
    _table("steps", StepFrame, Items("steps"), SAMPLES, "job rank ts", "stored_at"),
    # what was concluded
    _table("gpu_scores", Features, Scores("gpus", "z"), SAMPLES, "node gpu ts job"),
    _table("gpu_baselines", Baselines, Centres(), 3 * SAMPLES, "node gpu metric ts"),
    _table("findings", Finding, One(), RARE, "id revision"),
    _table("incidents", Incident, One(), RARE, "id revision"),
    _table("alert_log", AlertState, One(without=["latest"]), RARE, "receiver incident revision action status"),
    _table("silences", Silence, One(), RARE, "id ended"),
    # what processes are told, and say of themselves
    _table("models", Model, One(), 0, "name"),
    _table("control", Control, One(), 0, "node"),
    _table("health", Health, One(), BULK, "process instance run_id seq"),
    _table("dead_letters", DeadLetter, One(), RARE, "process origin_topic origin_partition origin_offset"),
)

TABLES: dict[str, Table] = {
    table.name: table for table in _WRITTEN if not isinstance(table.shape, Readings) or table.shape.metrics
}
"""Every table; a section of the catalogue that declares no metric has none yet."""

BY_RECORD: dict[type[Record], tuple[Table, ...]] = {
    record: tuple(t for t in TABLES.values() if t.record is record) for record in {t.record for t in TABLES.values()}
}
