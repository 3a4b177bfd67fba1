"""What detection says of each GPU in a tick: scores and baselines."""

import msgspec

from schemas.matrix import Matrix
from schemas.record import Name, Natural, NodeRecord, Share


class GpuFeatures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU, one tick. `score` in [0, 1] (isolation forest, 0.5 is ordinary), `p_value` its calibrated tail.

    `z` holds the conditions that a cause is read from (robust z against the GPU's own baseline, by metric name),
    `readings` the values and `centres` the baselines they were compared with. `strongest` names the metrics that
    made the score, most first. `recent` lists recent event kinds with their age ("xid:79@3s").
    """

    uuid: Name
    pci: str = ""
    rank: Natural | None = None
    score: float = float("nan")
    p_value: Share | None = None
    strongest: tuple[str, ...] = ()
    z: dict[str, float] = {}
    readings: dict[str, float] = {}
    centres: dict[str, float] = {}
    recent: tuple[str, ...] = ()


class Features(NodeRecord, frozen=True, kw_only=True, tag="features"):
    """The GPUs of one node and one job (`job` "" for GPUs without one) in one tick.

    `run_id`, `seq` and `ts_ms` are the node frame's own. `host` holds host readings a cause may need.
    """

    topic = "features"

    job: str = ""
    model: str = ""
    rack: str = ""
    gpus: tuple[GpuFeatures, ...] = ()
    host: dict[str, float] = {}

    @property
    def key(self) -> str:
        return self.job or self.node

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.node, self.run_id, self.seq, self.job)


class Baselines(NodeRecord, frozen=True, kw_only=True, tag="baselines"):
    """The rolling baselines of a node's GPUs, once a minute of event time: rows are UUIDs, columns metric names."""

    topic = "features"

    centre: Matrix
    spread: Matrix
